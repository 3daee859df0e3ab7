"""The coverage of a run: which messages and crash points occurred in which role, phase and fault. Used by exploration.

Recording does not change a node's behaviour: a seed gives the same run with and without it. (A node with an armed crash point
sends frames one by one. So the send points are recorded here without being armed.)
"""

from collections.abc import Callable, Iterator
from typing import Any

from zab_chaos.node.core.messages import NAMES, Phase, Role
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.tables import EXPECTED
from zab_chaos.node.crash_points import ANY, POINTS, REPLY, SEND_STEPS, CrashPoints
from zab_chaos.node.replica import Replica
from zab_chaos.node.tree.outcomes import Outcome

NO_FAULT = "-"
Combination = tuple[str, str, str, str]  # role, phase, message or crash point, fault

# ANY is not among them: it is whichever of the others happens.
POINTS_TO_REACH = tuple(point for point in POINTS if not point.endswith(f":{ANY}"))

MESSAGE_STATES = tuple(
    sorted(
        (role.name, phase.name, NAMES[kind])
        for kind, places in EXPECTED.items()
        for role, phase in places
        if (role is Role.LOOKING) == (phase is Phase.ELECTION)  # the other combinations do not exist
    )
)


class CoverageRecorder:
    """Collects the combinations that a run reached. `faults` returns the kinds of fault that are active now."""

    def __init__(self) -> None:
        self.reached: set[Combination] = set()
        self.faults: Callable[[], list[str]] = list

    def add(self, machine: Peer | None, what: str) -> None:
        role, phase = (machine.role.name, machine.phase.name) if machine is not None else ("-", "BOOT")
        for fault in self.faults() or [NO_FAULT]:
            self.reached.add((role, phase, what, fault))

    def add_send(self, machine: Peer | None, message: str) -> None:
        """Add the points before and after a message is sent."""
        for moment in SEND_STEPS:
            self.add(machine, f"{moment}:{message}")


def recording_types(recorder: CoverageRecorder) -> tuple[type[Replica], type[CrashPoints]]:
    """Return the types of a node's parts that record coverage."""

    class RecordingPoints(CrashPoints):
        machine: Peer | None = None

        @property
        def on_disk(self) -> bool:
            return True

        def hit(self, step: str, what: str) -> None:
            recorder.add(self.machine, f"{step}:{what}")
            super().hit(step, what)

    class RecordingReplica(Replica):
        def reply(self, client: int, outcomes: list[tuple[int, Outcome]]) -> None:
            recorder.add_send(self.machine, REPLY)
            super().reply(client, outcomes)

        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            if isinstance(self.crash, RecordingPoints):
                self.crash.machine = self.machine
            step, send, send_alone = self.core.step, self.driver.send, self.driver.send_alone

            def recorded_step(source: int, message: Any) -> None:
                recorder.add(self.machine, NAMES[type(message)])
                step(source, message)

            def recorded_send(messages: list[tuple[int, Any]]) -> None:
                for _, message in messages:
                    recorder.add_send(self.machine, NAMES[type(message)])
                send(messages)

            def recorded_send_alone(peer: int, message: Any) -> None:
                recorder.add_send(self.machine, type(message).__struct_config__.tag)  # NAMES has no Forward
                send_alone(peer, message)

            self.core.step = recorded_step  # type: ignore[method-assign]
            self.driver.send = recorded_send  # type: ignore[method-assign]
            self.driver.send_alone = recorded_send_alone  # type: ignore[method-assign]
            self.install_disk_hook()

    return RecordingReplica, RecordingPoints


def unreached(reached: set[Combination], faults: Iterator[str] | list[str]) -> dict[str, list[str]]:
    """Return what no run reached: messages where the protocol expects them, crash points, and faults."""
    states = {(role, phase, what) for role, phase, what, _ in reached}
    occurred = {what for _, _, what, _ in reached}
    active = {fault for _, _, _, fault in reached}
    return {
        "messages": [" ".join(state) for state in MESSAGE_STATES if state not in states],
        "points": [point for point in POINTS_TO_REACH if point not in occurred],
        "faults": sorted(fault for fault in faults if fault not in active),
    }
