"""Faults of a schedule that contradict each other, as far as that is known before the run.

The states of nodes that are targeted by id (or `all`) are followed through the schedule. After a fault with another target
they are not certain any more, and nothing is reported until all nodes are certainly up again: a wrong complaint is worse
than none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zab_chaos.faults.kind import TargetState
from zab_chaos.faults.partition import cut_pairs
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.targets import static_nodes


@dataclass(slots=True)
class _NodeState:
    state: str = "up"
    since: FaultStep | None = None  # the fault that led to this state
    heals: float | None = None  # when that fault heals by itself


@dataclass(slots=True)
class _Timeline:
    nodes: dict[int, _NodeState]
    uncertain_until: float = -1.0  # until then the states of nodes are not certain
    mistakes: list[tuple[int, str]] = field(default_factory=list)


def contradictions(steps: Sequence[FaultStep], nodes: int) -> list[tuple[int, str]]:
    """Return (index of the later step, what is wrong with it) for each contradiction, sorted."""
    timeline = _Timeline({node: _NodeState() for node in range(1, nodes + 1)})
    for index, step in sorted(enumerate(steps), key=lambda pair: pair[1].at):
        _apply_healings(timeline, step.at)
        kind = KINDS[step.do]
        targets = static_nodes(step.target, nodes)
        if targets is None or step.until is not None:
            if kind.leaves is not None:
                _mark_uncertain(timeline, step)
            continue
        if step.at >= timeline.uncertain_until:
            for node in sorted(targets):
                _check(timeline, index, step, node, kind.target_state, step.target == "all")
        for node in targets if kind.leaves else ():
            _set_state(timeline, node, step)
    return sorted(timeline.mistakes + _cut_twice(steps, nodes))


def _apply_healings(timeline: _Timeline, now: float) -> None:
    for node in timeline.nodes.values():
        if node.heals is not None and node.heals <= now:
            node.state, node.since, node.heals = "up", None, None


def _mark_uncertain(timeline: _Timeline, step: FaultStep) -> None:
    """Mark the states as uncertain until the step heals, or for good: some node, not known which, is down or paused."""
    timeline.uncertain_until = max(timeline.uncertain_until, _end(step))


def _check(
    timeline: _Timeline, index: int, step: FaultStep, node: int, target_state: TargetState, is_all: bool
) -> None:
    found = timeline.nodes[node]
    since = f" since {found.since.at:g} s ({found.since.do})" if found.since else ""
    if found.heals is not None and step.do in ("restart", "resume"):
        timeline.mistakes.append(
            (index, f"node-{node} comes back by itself at {found.heals:g} s; `{step.do}` is one too many")
        )
        return
    fits = {
        TargetState.ANY: ("up", "down", "paused", "maybe-down"),
        TargetState.UP: ("up", "maybe-down"),
        TargetState.ALIVE: ("up", "paused", "maybe-down"),
        TargetState.DOWN: ("down", "maybe-down"),
        TargetState.PAUSED: ("paused",),
    }[target_state]
    if found.state in fits or (is_all and any(node.state in fits for node in timeline.nodes.values())):
        return  # `all` means all that are in a fitting state
    timeline.mistakes.append((index, f"{step.do} of node-{node} at {step.at:g} s, but it is {found.state}{since}"))


def _set_state(timeline: _Timeline, node: int, step: FaultStep) -> None:
    if step.params.get("refuses") == "must":
        return  # it is expected to stay down
    leaves = KINDS[step.do].leaves or "up"
    heals = None if step.lasts is None else _end(step)
    timeline.nodes[node] = _NodeState() if leaves == "up" else _NodeState(leaves, step, heals)
    if leaves == "up" and step.target == "all":
        timeline.uncertain_until = step.at  # whichever nodes were down, all are up now


def _cut_twice(steps: Sequence[FaultStep], nodes: int) -> list[tuple[int, str]]:
    """Return the mistakes of links that are cut in two ways at once."""
    cuts = [(index, step, _cut_links(step, nodes)) for index, step in enumerate(steps) if step.do == "partition"]
    wrong = []
    for number, (index, step, links) in enumerate(cuts):
        for _, other, other_links in cuts[:number]:
            both = sorted(links & other_links)
            if both and _overlap(step, other) and step.params["how"] != other.params["how"]:
                link = f"{both[0][0]},{both[0][1]}"
                wrong.append(
                    (
                        index,
                        f"link {link} is cut with {step.params['how']} at {step.at:g} s while it is cut with "
                        f"{other.params['how']} (from {other.at:g} s)",
                    )
                )
    return wrong


def _overlap(one: FaultStep, other: FaultStep) -> bool:
    return one.at < _end(other) and other.at < _end(one)


def _end(step: FaultStep) -> float:
    """Return when a step heals by itself, to a nanosecond: 1.745 + 1.53 is 3.275 here."""
    return float("inf") if step.lasts is None else round(step.at + step.lasts, 9)


def _cut_links(step: FaultStep, nodes: int) -> set[tuple[int, int]]:
    """Return the links that are certainly cut, whatever is drawn and whichever node leads."""
    targets = static_nodes(step.target, nodes)
    if targets is None or step.params["shape"] not in ("pairs", "ring", "isolate", "one-way"):
        return set()
    from random import Random

    return set(cut_pairs(step.params, range(1, nodes + 1), sorted(targets), Random(0)))
