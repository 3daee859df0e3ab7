"""The nemesis: draws a schedule of faults from a seed, within the fault budget.

The rules, with `keep_quorum` (m is the largest minority, (n - 1) // 2):

- A fault that takes away nodes, or links to nodes, costs the largest number of nodes that its target can mean. The active
faults together never cost more than m. Costs are added as if targets never coincided, so roles may be resolved later, when
a fault is injected.
- A fault costs until it has healed *and* a while longer: a node that comes back must take part in an election and be
synchronized.
- A lost or damaged disk costs until its node is a member again. So a disk is lost only while nothing else costs anything,
one disk at a time, and nothing else is broken until its node has had time to come back.
- A bridge costs all of m: no node is cut off, but a quorum has to form around one node.

On a machine that is slower than these rules assume, `zab_chaos.faults.scheduler` puts a fault off until the ensemble has
recovered.

With `burst`, so many faults come at nearly the same time. Some of them are soon over while others go on, and then nothing new
is broken for a while: what they have led to shows.

Without `keep_quorum` anything may be broken at any time, also all nodes at once. Disks are the exception. A second lost disk
before the node of the first one is a member again is beyond Zab's fault model; so is a disk that loses data unnoticed while
other nodes are down. So disks are lost one at a time, with time between them, and none is damaged. Here too the scheduler
checks the nodes before it takes the next disk. An ensemble of one may lose its disk, too: then it must serve nothing more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from zab_chaos.faults.crash_point_rule import DrawnPoint
from zab_chaos.faults.kind import Kind
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep, Nemesis
from zab_chaos.faults.targets import Target, size

RECOVERY = 3.0  # seconds from the healing until a node counts as healthy again
REJOINING = 8.0  # the same after a lost disk, whose content must be transferred
BURST = (0.0, 0.2)  # seconds from one fault of a burst to the next, smallest and largest
BETWEEN = 1.5  # seconds from the healing of one lost disk to the loss of the next, without `keep_quorum`


DAMAGE = ("corrupt", "truncate-file", "remove-file")
LOSSES = ("wipe", *DAMAGE)


@dataclass(frozen=True, slots=True)
class _Charge:
    """A fault that still counts against the budget."""

    until: float
    cost: int
    exclusive: bool  # see `is_exclusive`


def draw(nemesis: Nemesis, nodes: int, duration: float, seed: int, faithful: bool = True) -> list[FaultStep]:
    """Return the schedule of this seed, by time. Pure: the same arguments give the same schedule on every machine."""
    random = Random(f"nemesis {seed} {nodes}")
    minority = (nodes - 1) // 2
    budget = minority if nemesis.keep_quorum else nodes
    steps: list[FaultStep] = []
    running: list[_Charge] = []
    number = 0  # of faults that were drawn
    now = round(random.uniform(*nemesis.every), 3)
    while now < duration:
        running = [one for one in running if one.until > now]
        step = _draw_step(nemesis, random, now, nodes, faithful, budget - sum(one.cost for one in running), running)
        if step is not None:
            steps.append(step)
            running.append(_charge(step, nodes, nemesis.keep_quorum))
        number += 1
        now = round(now + random.uniform(*(nemesis.every if number % nemesis.burst == 0 else BURST)), 3)
    return steps


def cost(step: FaultStep, nodes: int) -> int:
    """Return the largest number of nodes that a step takes away from the quorum."""
    if not KINDS[step.do].impairs:
        return 0
    if step.do == "partition" and step.params["shape"] in ("bridge", "majority-minority", "ring"):
        return (nodes - 1) // 2
    if step.do == "partition" and step.params["shape"] == "halves":
        return nodes // 2
    return size(step.target, nodes) if step.target is not None else nodes


def is_exclusive(step: FaultStep) -> bool:
    """Return whether the step loses or damages a disk, at once or when a node dies of it."""
    return step.do in LOSSES or bool(step.params.get("wipe"))


def _charge(step: FaultStep, nodes: int, keep_quorum: bool) -> _Charge:
    rest = (REJOINING if keep_quorum else BETWEEN) if is_exclusive(step) else RECOVERY
    return _Charge(step.at + (step.lasts or 0.0) + rest, cost(step, nodes), is_exclusive(step))


def _draw_step(
    nemesis: Nemesis, random: Random, now: float, nodes: int, faithful: bool, left: int, running: list[_Charge]
) -> FaultStep | None:
    """Draw one fault; return None if the rules do not allow it now.

    The number of values drawn does not depend on what the rules allow, so that seeds stay comparable.
    """
    names = sorted(name for name, weight in nemesis.faults.items() if weight > 0)
    name = random.choices(names, [nemesis.faults[name] for name in names])[0]
    kind = KINDS[name]
    params = draw_params(kind, random, nemesis.points)
    lasts = round(_lasts(random, nemesis), 3)
    targets = _targets(kind, params, nodes, nemesis.keep_quorum)
    if not targets:
        return None
    step = FaultStep(at=now, do=name, target=random.choice(targets), lasts=lasts if kind.heals else None, params=params)
    return step if (name != "power-cut" or faithful) and _fits(step, nemesis, nodes, left, running) else None


def _lasts(random: Random, nemesis: Nemesis) -> float:
    """Draw the length of a fault. In a burst the lengths differ by magnitudes: some faults are over while others go on."""
    if nemesis.burst == 1:
        return random.uniform(*nemesis.heal_after)
    shortest, longest = nemesis.heal_after
    return float(shortest * (longest / shortest) ** random.random())


def draw_params(kind: Kind, random: Random, points: Mapping[str, float]) -> dict[str, Any]:
    """Draw the values of a kind's own keys. `points`: weights of crash points."""
    assert kind.draw is not None
    drawn = kind.defaults | kind.draw(random)
    return {
        name: value.draw(random, points) if isinstance(value, DrawnPoint) else value for name, value in drawn.items()
    }


def _fits(step: FaultStep, nemesis: Nemesis, nodes: int, left: int, running: list[_Charge]) -> bool:
    """Return whether the rules allow the step now. `left`: what it may cost."""
    if not nemesis.keep_quorum:
        return step.do not in DAMAGE and not (is_exclusive(step) and any(one.exclusive for one in running))
    if any(one.exclusive for one in running) or (is_exclusive(step) and any(one.cost for one in running)):
        return False
    return cost(step, nodes) <= left


def _targets(kind: Kind, params: dict[str, object], nodes: int, keep_quorum: bool) -> list[Target]:
    """Return the targets that may be drawn for this kind; more than a minority only without `keep_quorum`."""
    if kind.name == "partition" and params["shape"] == "bridge":
        return ["one", "leader"] if nodes >= 3 else []
    words: list[Target] = ["one", "leader", *(["follower"] if nodes > 1 else [])]
    if nodes >= 3:
        words.append("minority")
    if not keep_quorum and kind.name in ("crash", "power-cut", "pause", "stop", "upgrade", "crash-at", "pause-at"):
        words += ["majority", "all"]
    if kind.name in LOSSES or params.get("wipe"):
        words = ["one", "leader", "follower"] if nodes >= 3 else ["one"] if nodes == 1 and not keep_quorum else []
    if kind.name == "partition" and nodes < 3:
        words = ["one"] if nodes == 2 and params["shape"] != "majority-minority" else []
    return words
