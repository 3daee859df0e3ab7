"""Versions that do not count, but name one write each: a revision of the whole store, a sequence number, an ETag.

Such a version belongs to exactly one write of its key. Which one is known if the write's own answer tells it, or a read that
shows the version together with a value that was written once. Then a condition can be judged: it holds if that write was the
latest. Of other versions it is only known that they name some other write.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from zab_chaos.model.oracle.linearization import UNNAMED, Call

WRITES = frozenset({"set", "create"})

Name = tuple[int, int]  # of a call: its client and number


class Contradiction(Exception):
    """A version that names two writes, or a write that two versions name. `call`: the one whose answer tells the second."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


def resolved(calls: Sequence[Call]) -> list[Call]:
    """Return the operations of one key with the version that each write makes (`Call.makes`). Raises Contradiction.

    If no operation depends on a version, all versions are left out: each one says the same as the value beside it.
    """
    named, unnamed = _named(calls, _writers(calls))
    if not unnamed and all(call.invoke.version is None for call in calls):
        return [
            call if call.answer is None else replace(call, answer=replace(call.answer, version=None)) for call in calls
        ]
    makes = {writer: version for version, writer in named.items()}

    def known(version: int | None) -> int | None:
        return version if version is None or version in named else UNNAMED

    return [
        replace(
            call,
            invoke=replace(call.invoke, version=known(call.invoke.version)),
            answer=call.answer and replace(call.answer, version=known(call.answer.version)),
            makes=makes.get(call.invoke.id, UNNAMED) if call.invoke.op in WRITES else None,
        )
        for call in calls
    ]


def _writers(calls: Sequence[Call]) -> dict[int | None, list[Call]]:
    """Return the writes of each value."""
    found: dict[int | None, list[Call]] = {}
    for call in calls:
        if call.invoke.op in WRITES:
            found.setdefault(call.invoke.value, []).append(call)
    return found


def _named(calls: Sequence[Call], writers: dict[int | None, list[Call]]) -> tuple[dict[int, Name], bool]:
    """Return the write that each version names, and whether an answer tells one without showing which write it names."""
    named: dict[int, Name] = {}
    versions: dict[Name, int] = {}
    unnamed = False
    for call in sorted(calls, key=lambda call: call.answer.t if call.answer is not None else call.invoke.t):
        version = call.answer.version if call.answer is not None and call.known else None
        if version is None:
            continue
        candidates = [call] if call.invoke.op in WRITES else writers.get(call.answer.value if call.answer else None, [])
        if len(candidates) != 1:
            unnamed = True
            continue
        writer = candidates[0].invoke.id
        if named.setdefault(version, writer) != writer or versions.setdefault(writer, version) != version:
            raise Contradiction(call)
    return named, unnamed
