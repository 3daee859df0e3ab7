"""Finds faults of a schedule that contradict each other, as far as this is known before the run.

Nodes named by id (or `all`) are followed through the schedule. Where a fault hits somebody by role, the states are no
longer known for certain, and nothing is said until everybody is certainly up again: a wrong complaint is worse than
none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zab_chaos.faults.kind import TargetState
from zab_chaos.faults.partition import cut_pairs
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.targets import static_nodes


@dataclass(slots=True)
class _Node:
    state: str = "up"
    since: FaultStep | None = None  # the fault that put it there
    heals: float | None = None  # when that fault ends by itself


@dataclass(slots=True)
class _Known:
    nodes: dict[int, _Node]
    blurred_until: float = -1.0
    wrong: list[tuple[int, str]] = field(default_factory=list)


def contradictions(steps: Sequence[FaultStep], nodes: int) -> list[tuple[int, str]]:
    """(index of the later step, what is wrong with it), in the order of time."""
    known = _Known({node: _Node() for node in range(1, nodes + 1)})
    for index, step in sorted(enumerate(steps), key=lambda pair: pair[1].at):
        _forget_healed(known, step.at)
        kind = KINDS[step.do]
        meant = static_nodes(step.target, nodes) if step.target is not None else set()
        if meant is None or step.until is not None:
            if kind.leaves is not None:
                _blur(known, step)
            continue
        if step.at >= known.blurred_until:
            for node in sorted(meant):
                _check(known, index, step, node, kind.target_state, step.target == "all")
        for node in meant if kind.leaves else ():
            _put(known, node, step)
    return sorted(known.wrong + _cut_twice(steps, nodes))


def _forget_healed(known: _Known, now: float) -> None:
    for node in known.nodes.values():
        if node.heals is not None and node.heals <= now:
            node.state, node.since, node.heals = "up", None, None


def _blur(known: _Known, step: FaultStep) -> None:
    """Somebody is down or paused, who can't be said: until it heals, or for good."""
    end = float("inf") if step.lasts is None else step.at + step.lasts
    known.blurred_until = max(known.blurred_until, end)


def _check(known: _Known, index: int, step: FaultStep, node: int, target_state: TargetState, everybody: bool) -> None:
    found = known.nodes[node]
    since = f" since {found.since.at:g} s ({found.since.do})" if found.since else ""
    if found.heals is not None and step.do in ("restart", "resume"):
        known.wrong.append(
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
    if found.state in fits or (everybody and any(node.state in fits for node in known.nodes.values())):
        return  # `all` means all that fit
    known.wrong.append((index, f"{step.do} of node-{node} at {step.at:g} s, but it is {found.state}{since}"))


def _put(known: _Known, node: int, step: FaultStep) -> None:
    if step.params.get("refuses") == "must":
        return  # it is expected to stay down
    leaves = KINDS[step.do].leaves or "up"
    heals = None if step.lasts is None else step.at + step.lasts
    known.nodes[node] = _Node() if leaves == "up" else _Node(leaves, step, heals)
    if leaves == "up" and step.target == "all":
        known.blurred_until = step.at  # whoever was hit, everybody is up now


def _cut_twice(steps: Sequence[FaultStep], nodes: int) -> list[tuple[int, str]]:
    """Links that are cut in two ways at once."""
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
    ends = [float("inf") if step.lasts is None else step.at + step.lasts for step in (one, other)]
    return one.at < ends[1] and other.at < ends[0]


def _cut_links(step: FaultStep, nodes: int) -> set[tuple[int, int]]:
    """The links that are cut whatever is drawn and whoever leads."""
    meant = static_nodes(step.target, nodes) if step.target is not None else set()
    if meant is None or step.params["shape"] not in ("pairs", "ring", "isolate", "one-way"):
        return set()
    from random import Random

    return set(cut_pairs(step.params, range(1, nodes + 1), sorted(meant), Random(0)))
