"""What a run has been through: which message, crash point and fault met which role and phase.

A node counts without behaving otherwise: the same seed gives the same run, counted or not. (An armed point sends frames one by
one, so send points are seen here without being armed.)
"""

from collections.abc import Callable, Iterator
from typing import Any

from zab_chaos.node.core.messages import NAMES, Phase, Role
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.tables import EXPECTED
from zab_chaos.node.crash_points import POINTS, REPLY, SEND_STEPS, CrashPoints
from zab_chaos.node.replica import Replica
from zab_chaos.node.tree.outcomes import Outcome

__all__ = ["MESSAGE_STATES", "NO_FAULT", "POINTS", "Book", "Combination", "covering", "never"]

NO_FAULT = "-"
Combination = tuple[str, str, str, str]  # role, phase, message or crash point, fault

MESSAGE_STATES = tuple(
    sorted(
        (role.name, phase.name, NAMES[kind])
        for kind, places in EXPECTED.items()
        for role, phase in places
        if (role is Role.LOOKING) == (phase is Phase.ELECTION)  # the others are no states
    )
)


class Book:
    """Collects combinations. `faults`: the kinds that are active now."""

    def __init__(self) -> None:
        self.reached: set[Combination] = set()
        self.faults: Callable[[], list[str]] = list

    def add(self, machine: Peer | None, what: str) -> None:
        role, phase = (machine.role.name, machine.phase.name) if machine is not None else ("-", "BOOT")
        for fault in self.faults() or [NO_FAULT]:
            self.reached.add((role, phase, what, fault))


def covering(book: Book) -> tuple[type[Replica], type[CrashPoints]]:
    """The parts of a node that write in the book."""

    class CoveringPoints(CrashPoints):
        machine: Peer | None = None

        @property
        def on_disk(self) -> bool:
            return True

        def hit(self, step: str, what: str) -> None:
            book.add(self.machine, f"{step}:{what}")
            super().hit(step, what)

    class CoveringReplica(Replica):
        def reply(self, client: int, outcomes: list[tuple[int, Outcome]]) -> None:
            for moment in SEND_STEPS:
                book.add(self.machine, f"{moment}:{REPLY}")
            super().reply(client, outcomes)

        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            if isinstance(self.crash, CoveringPoints):
                self.crash.machine = self.machine
            step, send = self.driver.step, self.driver.send

            def noted_step(source: int, message: Any) -> None:
                book.add(self.machine, NAMES[type(message)])
                step(source, message)

            def noted_send(messages: list[tuple[int, Any]]) -> None:
                for _, message in messages:
                    for moment in SEND_STEPS:
                        book.add(self.machine, f"{moment}:{NAMES[type(message)]}")
                send(messages)

            self.driver.step = noted_step  # type: ignore[method-assign]
            self.driver.send = noted_send  # type: ignore[method-assign]
            self.install_disk_hook()

    return CoveringReplica, CoveringPoints


def never(reached: set[Combination], faults: Iterator[str] | list[str]) -> dict[str, list[str]]:
    """What nothing met: messages where the protocol expects them, crash points, faults."""
    states = {(role, phase, what) for role, phase, what, _ in reached}
    met = {what for _, _, what, _ in reached}
    struck = {fault for _, _, _, fault in reached}
    return {
        "messages": [" ".join(state) for state in MESSAGE_STATES if state not in states],
        "points": [point for point in POINTS if point not in met],
        "faults": sorted(fault for fault in faults if fault not in struck),
    }
