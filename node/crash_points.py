"""Crash points: named steps at which a node kills or stops itself, or its disk fails once.

`<step>:<what>[#k]`: the k-th time (from arming; default 1) that the step happens. The points are in the server's loop and
in the store, which are generic; the protocol does not know them.
"""

import errno
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from zab_chaos.node.core.messages import NAMES
from zab_chaos.node.store.disk_faults import Variant

DISK_STEPS = ("before-write", "after-write", "before-sync", "after-sync", "after-rename", "after-remove")
FILE_STEPS = ("after-rename", "after-remove")
SEND_STEPS = ("before-send", "after-send")
STEPS = (*DISK_STEPS, *SEND_STEPS)
FAIL_STEPS = ("before-write", "before-sync")  # where a disk can fail
RECORDS = ("EPOCH", "TXN", "TRUNC", "SNAP", "NEWLEADER", "MEMBER", "SNAPSHOT", "SEGMENT")
FILES = ("SNAPSHOT", "SEGMENT")  # files that are renamed into place when durable, and later removed
ANY = "ANY"  # whatever is written, synced, renamed or removed next
FORWARDING = ("FORWARD", "ANSWER")  # the messages of `zab_chaos.node.tree.forwarding`
REPLY = "REPLY"  # answers for one client
MESSAGES = (*NAMES.values(), *FORWARDING, REPLY)
CUT_ACTIONS = tuple(one for one in get_args(Variant) if one != "plain")  # crashes that leave some unsynced data
ACTIONS = ("crash", "pause", "fail", *CUT_ACTIONS)
GRAMMAR = "<step>:<what>[#k], for example after-sync:TXN, before-send:ACK-LD or after-send:COMMIT#1"


class InvalidCrashPoint(ValueError):
    """A crash point that does not exist. `given` is the wrong word, where only one of `choices` is allowed."""

    def __init__(self, wrong: str, allowed: str, given: str = "", choices: Sequence[str] = ()) -> None:
        super().__init__(f"{wrong}; allowed: {allowed}")
        self.wrong = wrong
        self.allowed = allowed
        self.given = given
        self.choices = choices


class CrashPoint(NamedTuple):
    """A parsed crash point. `nth` = k: the k-th time, from 1."""

    step: str
    what: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.step}:{self.what}" + (f"#{self.nth}" if self.nth > 1 else "")


def subjects(step: str) -> tuple[str, ...]:
    """Return what is allowed behind the colon."""
    if step in SEND_STEPS:
        return MESSAGES
    return (*(FILES if step in FILE_STEPS else RECORDS), ANY)


POINTS = tuple(f"{step}:{what}" for step in STEPS for what in subjects(step))


def parse(point: object) -> CrashPoint:
    """Parse a crash point. Raises InvalidCrashPoint, with what is allowed."""
    if not isinstance(point, str):
        raise InvalidCrashPoint(f"{point!r} is not a crash point", GRAMMAR)
    place, hash_mark, number = point.partition("#")
    step, colon, what = place.partition(":")
    if not colon:
        raise InvalidCrashPoint(f"{point!r} has no colon", GRAMMAR)
    if step not in STEPS:
        raise InvalidCrashPoint(f"{step!r} is not a step", "the steps " + ", ".join(STEPS), step, STEPS)
    if what not in subjects(step):
        allowed = f"for {step}: " + ", ".join(subjects(step))
        raise InvalidCrashPoint(f"{what!r} does not happen at {step}", allowed, what.upper(), subjects(step))
    if hash_mark and not (number.isascii() and number.isdecimal() and len(number) < 10 and int(number) >= 1):
        raise InvalidCrashPoint(f"#{number} is not a count", "#1 for the first time, #2 for the second, ...")
    return CrashPoint(step, what, int(number) if hash_mark else 1)


def check_action(action: str, point: object) -> None:
    """Raise InvalidCrashPoint if the point does not exist or the action can't happen there."""
    step = parse(point).step
    if action not in ACTIONS:
        raise InvalidCrashPoint(f"{action!r} is not an action of a crash point", ", ".join(ACTIONS), action, ACTIONS)
    if action == "fail" and step not in FAIL_STEPS:
        raise InvalidCrashPoint(f"no disk fails at {step}", ", ".join(FAIL_STEPS), step, FAIL_STEPS)
    if action in CUT_ACTIONS and step not in DISK_STEPS:
        raise InvalidCrashPoint(f"no disk is written at {step}", ", ".join(DISK_STEPS), step, DISK_STEPS)


@dataclass(slots=True, eq=False)
class ArmedPoint:
    """A crash point that is armed. `left`: how often its step must still happen. `seed`: for what a cut of the power leaves."""

    point: str
    place: CrashPoint
    action: str
    seed: int
    left: int


class CrashPoints:
    """The armed crash points, and what happens there: `crash` (SIGKILL of this process), `pause` (SIGSTOP of this process),
    `fail` (EIO), or a crash that leaves some unsynced data (`zab_chaos.node.store.disk_faults.Variant`).

    Several faults may arm points at one step. Each counts for itself.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report  # called with (point, "armed" | "fired" | "lifted") before it takes effect
        self._armed: list[ArmedPoint] = []
        self.on_send = False  # whether a point of the send steps is armed
        self.pausing = False  # whether a point with `pause` is armed
        self.settle: Callable[[], None] = lambda: None  # waits until what was sent has left the process
        self.die: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL)
        self.cut: Callable[[str, int], None] = lambda variant, seed: self.die()  # the disk keeps what `variant` says
        self.pause: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGSTOP)

    @property
    def armed(self) -> list[str]:
        return [it.point for it in self._armed]

    @property
    def on_disk(self) -> bool:
        return any(it.place.step in DISK_STEPS for it in self._armed)

    def arm(self, point: str, action: str = "crash", seed: int = 0) -> None:
        """Arm a point. Raises InvalidCrashPoint."""
        check_action(action, point)
        place = parse(point)
        self._armed.append(ArmedPoint(point, place, action, seed, place.nth))
        self._update_flags()
        self._report(point, "armed")

    def disarm(self, point: str | None = None, action: str | None = None) -> bool:
        """Disarm one point, named as it was armed, and only with this action if one is given; without a point, all.

        Return whether there was one.
        """
        found = [it for it in self._armed if point in (None, it.point) and action in (None, it.action)]
        for it in found if point is None else found[:1]:
            self._armed.remove(it)
            self._report(it.point, "lifted")
        self._update_flags()
        return bool(found)

    def _update_flags(self) -> None:
        self.on_send = any(it.place.step in SEND_STEPS for it in self._armed)
        self.pausing = any(it.action == "pause" for it in self._armed)

    def hit(self, step: str, what: str) -> None:
        """Act if this step is armed. A crash waits until what was sent before has left the process.

        Raises OSError if the disk is to fail here.
        """
        reached = [it for it in self._armed if it.place.step == step and it.place.what in (what, ANY)]
        for it in reached:
            it.left -= 1
        for it in reached:
            if it.left <= 0:
                self._fire(it)

    def _fire(self, it: ArmedPoint) -> None:
        """Do what a point says that was reached. What it says is done once."""
        self._armed.remove(it)
        self._update_flags()
        self._report(it.point, "fired")
        if it.action == "pause":
            self.pause()
        elif it.action == "fail":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        else:
            self.settle()
            if it.action in CUT_ACTIONS:
                self.cut(it.action, it.seed)
            else:
                self.die()
