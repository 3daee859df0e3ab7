"""The step `wait`, which breaks nothing: the schedule goes on when its nodes are in a certain state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import FOLLOWS, Cluster, Status
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, Key, Kind, TargetState
from zab_chaos.faults.process import node_names
from zab_chaos.faults.rules import choice, number

LOOK_SECONDS = 0.05  # between two looks at the nodes
ANSWER_SECONDS = 1.0  # timeout for a node's status

Answers = Mapping[int, Status | None]  # by node; None: it is down, is paused, or does not answer


def _each(fits: Callable[[Status], bool]) -> Callable[[Answers], bool]:
    return lambda answers: all(answer is not None and fits(answer) for answer in answers.values())


def _serves(answer: Status | None) -> bool:
    return answer is not None and answer.established


def _level(answers: Answers) -> bool:
    """Return whether all nodes serve, have delivered their whole log, and have the same last zxid."""
    served = [answer for answer in answers.values() if answer is not None and answer.established]
    zxids = {zxid for answer in served for zxid in (answer.delivered, answer.last_zxid)}
    return len(served) == len(answers) and len(zxids) == 1


STATES: dict[str, tuple[str, Callable[[Answers], bool]]] = {
    "leads": ("is an established leader", _each(lambda it: it.established and it.role == "LEADING")),
    "follows": (
        "follows an established leader",
        _each(lambda it: it.established and it.role in FOLLOWS),
    ),
    "serves": ("leads or follows in this way", _each(lambda it: it.established)),
    "looks": (
        "is up and has no leader, for example after it has given up leading",
        _each(lambda it: it.role == "LOOKING"),
    ),
    "out": (
        "does not serve: it looks for a leader, is not running, or does not answer",
        lambda answers: not any(map(_serves, answers.values())),
    ),
    "ahead": ("has transactions in its log that it has not delivered", _each(lambda it: it.last_zxid > it.delivered)),
    "level": ("serves, has delivered its whole log, and has the same last zxid as the other targets", _level),
}

OF_ONE_NODE = ("looks", "ahead", "level")  # states that nothing but the node itself shows; the others show in who leads
ADJECTIVES = ("out", "ahead", "level", "down")  # the other states are verbs


class Wait(Fault):
    """A wait for a state of nodes. Confirmed if the state was seen `within` so many seconds."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.reached = self.late = False
        self.deadline: float | None = None  # set when the wait begins
        self.seen: Answers = {}

    def inject(self) -> None:
        """Do nothing."""

    def watch(self, now: float) -> float | None:
        if self.is_over():
            return None
        self.deadline = now + self.params["within"] if self.deadline is None else self.deadline
        self.seen = _ask(self.cluster, self.nodes)
        self.reached = self._is_reached()
        self.late = not self.reached and now >= self.deadline
        return now + LOOK_SECONDS

    def _is_reached(self) -> bool:
        if self.params["state"] == "down":
            return not any(self.cluster.alive(node) for node in self.nodes)
        return STATES[self.params["state"]][1](self.seen)

    def injected(self) -> Confirmation:
        """Confirm that the step has begun, which it always has."""
        return Confirmation(True, {"state": self.params["state"]})

    def recovered(self) -> Confirmation:
        return Confirmation(self.reached, {str(node): _shown(seen) for node, seen in self.seen.items()})

    def heal(self) -> None:
        """Do nothing."""

    def took_effect(self) -> bool:
        return self.is_over()

    def is_over(self) -> bool:
        return self.reached or self.late

    def describe(self) -> str:
        words = f"{node_names(self.nodes)} {_in_words(self.params['state'], len(self.nodes))}"
        return words if self.reached else f"until {words}"


def _ask(cluster: Cluster, nodes: Sequence[int]) -> Answers:
    """Return the nodes' statuses. Those that show no role follow the leader that the cluster names; without it none serves."""
    answers = {node: _ask_status(cluster, node) for node in nodes}
    if all(answer is None or answer.role for answer in answers.values()):
        return answers
    leader = cluster.leader()
    role = {node: "" if leader is None else "LEADING" if node == leader else "FOLLOWING" for node in nodes}
    return {
        node: answer and replace(answer, role=role[node], leader=leader, established=leader is not None)
        for node, answer in answers.items()
    }


def _ask_status(cluster: Cluster, node: int) -> Status | None:
    """Return a node's status; None if it is down, is paused, or does not answer."""
    return cluster.status(node, ANSWER_SECONDS) if cluster.alive(node) and not cluster.paused(node) else None


def _in_words(state: str, nodes: int) -> str:
    """Return the predicate of a sentence about so many nodes: `leads`, `are level`."""
    if state in ADJECTIVES:
        return f"{'is' if nodes == 1 else 'are'} {state}"
    return state if nodes == 1 else state.removesuffix("s")


def _shown(status: Status | None) -> dict[str, Any] | None:
    if status is None:
        return None
    if not status.phase:  # a node of another system: nothing more is known
        return {"role": status.role, "leader": status.leader}
    return {"role": status.role, "epoch": status.epoch, "last": status.last_zxid, "delivered": status.delivered}


WITHIN = 60.0

KINDS = (
    Kind(
        name="wait",
        doc="do nothing, and let the schedule go on when the nodes are in a state",
        make=Wait,
        keys=(
            Key(
                name="state",
                rule=choice(*STATES, "down"),
                doc="; ".join(f"{name}: {words}" for name, (words, _) in STATES.items()) + "; down: is not running",
                needs=Ability.NODE_STATE,
                needs_if=lambda params: params["state"] in OF_ONE_NODE,
            ),
            Key(
                name="within",
                rule=number(0.1, 3600, "seconds"),
                default=WITHIN,
                doc="how long the state may take to come; later the schedule goes on, and the step is not confirmed",
            ),
        ),
        target_state=TargetState.ANY,
        needs=frozenset({Ability.LEADER}),
        heals=False,
        impairs=False,
        blocks_schedule=True,
    ),
)
