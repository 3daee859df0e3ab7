"""Crash points: the named places in the server's loop and in the store where a node can be made to die.

Grammar: `<step>:<what>[#k]`, the k-th time it comes by (from 1). At a disk step `what` is a kind of record, at a send
step a message under the paper's name: `after-write:NEWLEADER` (written, not synced), `after-send:COMMIT#1` (sent to
one peer only), `after-rename:SNAPSHOT`.
"""

from dataclasses import dataclass

from faults.rules import Rule, WrongError, suggest
from node.crash import DISK_STEPS, MESSAGES, RECORDS, SEND_STEPS

STEPS = (*DISK_STEPS, *SEND_STEPS)
GRAMMAR = "<step>:<what>[#k], for example after-sync:TXN, before-send:ACK-LD or after-send:COMMIT#1"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """`count` = k: the k-th time, from 1."""

    step: str
    what: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.step}:{self.what}" + (f"#{self.count}" if self.count > 1 else "")


def subjects(step: str) -> tuple[str, ...]:
    """What may stand behind the colon. Only a snapshot is renamed into place; log segments are never renamed."""
    if step in SEND_STEPS:
        return MESSAGES
    return ("SNAPSHOT",) if step == "after-rename" else RECORDS


def parse(value: object) -> CrashPoint:
    """Read a crash point. Raises WrongError with what is allowed there."""
    if not isinstance(value, str):
        raise WrongError(f"{value!r} is not a crash point", GRAMMAR)
    place, hash_mark, number = value.partition("#")
    step, colon, what = place.partition(":")
    if not colon:
        raise WrongError(f"{value!r} has no colon", GRAMMAR)
    if step not in STEPS:
        raise WrongError(f"{step!r} is not a step", "the steps " + ", ".join(STEPS), suggest(step, STEPS))
    if what not in subjects(step):
        allowed = f"behind {step}: " + ", ".join(subjects(step))
        raise WrongError(f"{what!r} is nothing that happens at {step}", allowed, suggest(what.upper(), subjects(step)))
    if hash_mark and not (number.isdecimal() and int(number) >= 1):
        raise WrongError(f"#{number} is not a count", "#1 for the first time, #2 for the second, ...")
    return CrashPoint(step, what, int(number) if hash_mark else 1)


def point() -> Rule:
    """The rule for a key that holds a crash point; the value stays the text as written."""

    def read(value: object, _nodes: int) -> str:
        parse(value)
        return str(value)

    return Rule(GRAMMAR, read)
