"""The arguments of a run of the lab: everything that its dump depends on."""

from collections.abc import Iterator
from dataclasses import dataclass

Link = tuple[int, int]  # (from, to): one direction between two nodes
Cut = tuple[int, frozenset[Link]]  # (tick, links): the links that are cut from this tick until the next `Cut`

SEED_MAX = 2**64 - 1  # the generator's state is a u64
COUNT_MAX = 2**32 - 1  # rounds and proposals are u32
NODES_MAX = 64  # the number of messages grows with its square; larger runs take minutes and show nothing new


class BadLabArguments(ValueError):
    """Raised for arguments that no run can have. `mistakes`: all of them, one sentence each."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True, kw_only=True)
class LabArguments:
    """The arguments of one run. Raises BadLabArguments, which lists all mistakes at once.

    `rounds` is in ticks. `partition`: the links that are cut for the whole run. `schedule`: the links that are cut in addition,
    ascending by tick. A link from a node to itself may be named; nothing travels on it.
    """

    seed: int
    nodes: int
    rounds: int
    proposals: int
    partition: frozenset[Link] = frozenset()
    schedule: tuple[Cut, ...] = ()

    def __post_init__(self) -> None:
        mistakes = [*self._numbers(), *self._unknown_nodes("partition", self.partition), *self._schedule()]
        if mistakes:
            raise BadLabArguments(mistakes)

    def _numbers(self) -> Iterator[str]:
        limits = {
            "seed": (0, SEED_MAX),
            "nodes": (1, NODES_MAX),
            "rounds": (0, COUNT_MAX),
            "proposals": (0, COUNT_MAX),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                yield f"{name} is {value}; allowed is {low} to {high}"

    def _schedule(self) -> Iterator[str]:
        ticks = [tick for tick, _ in self.schedule]
        if ticks != sorted(set(ticks)):
            yield f"schedule has the ticks {ticks}; each must be later than the one before"
        if any(tick < 0 for tick in ticks):
            yield f"schedule begins at tick {min(ticks)}; the first tick is 0"
        for tick, links in self.schedule:
            yield from self._unknown_nodes(f"schedule at tick {tick}", links)

    def _unknown_nodes(self, where: str, links: frozenset[Link]) -> Iterator[str]:
        """Yield a sentence for each end of a link that is not a node. Yields none if the number of nodes is itself wrong."""
        if not 1 <= self.nodes <= NODES_MAX:
            return
        for unknown in sorted({end for link in links for end in link if not 0 <= end < self.nodes}):
            yield f"{where} names node {unknown}; with {self.nodes} nodes the ids are 0 to {self.nodes - 1}"
