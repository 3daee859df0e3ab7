"""What clients with persistent recursive watches of ZooKeeper are told. Part of the property `watches`."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from zab_chaos.model.events import AnswerHeard, SubtreeChanged, SubtreeWatched, packed
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.spans import FOREVER

EVENT_OF = {"create": "created", "set": "changed", "delete": "deleted"}  # the watch event, by operation

# Those of a transaction: its zxid, the path of each change, and what happened to it.
_Changes = tuple[int, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class _Stream:
    """What a client was told on one connection, and each answer with the number of events before it."""

    start: SubtreeWatched
    told: list[SubtreeChanged] = field(default_factory=list)
    heard: list[tuple[int, AnswerHeard]] = field(default_factory=list)


class SubtreeWatches(Checker):
    """Verifies that a client is told of each change below the path, once, in the order of the history and with its kind, and
    before it gets an answer at the zxid of that change or a later one. The changes of one transaction come in any order."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._streams: dict[int, _Stream] = {}  # by client
        self._over: list[_Stream] = []

    def on_watching(self, line: SubtreeWatched) -> None:
        self.end_stream(line.client)
        self._streams[line.client] = _Stream(line)

    def on_told(self, line: SubtreeChanged) -> None:
        if line.client in self._streams:
            self._streams[line.client].told.append(line)
        else:
            self.findings.add(f"client {line.client} was told of a change of {line.path}, and watches nothing", [line])

    def on_heard(self, line: AnswerHeard) -> None:
        if line.client in self._streams:
            stream = self._streams[line.client]
            stream.heard.append((len(stream.told), line))

    def end_stream(self, client: int) -> None:
        """Take note that the client's connection is over."""
        if client in self._streams:
            self._over.append(self._streams.pop(client))

    def at_end(self) -> None:
        for client in list(self._streams):
            self.end_stream(client)
        for stream in self._over:
            changes = list(_changes_below(stream.start, self.facts))
            if self._check_stream(stream, changes):
                self._check_answers(stream, changes)

    def _check_stream(self, stream: _Stream, changes: list[_Changes]) -> bool:
        """Check that the events are those of the changes, in their order. Return whether they are."""
        done = 0
        for zxid, right in changes:
            told = [(line.path, line.what) for line in stream.told[done : done + len(right)]]
            self.checked += len(told)
            wrong, missed = Counter(told) - Counter(right), Counter(right) - Counter(told)
            if wrong:
                line = next(line for line in stream.told[done:] if (line.path, line.what) in wrong)
                path, what = next(iter(missed))
                self.findings.add(
                    f"{_who(stream)} was told that {line.path} was {line.what}, where right was that {path} was {what}, at "
                    f"{show(zxid)}",
                    [stream.start, self.facts.effects.broadcast(zxid), line],
                )
                return False
            done += len(right)
        if done < len(stream.told) and self.facts.changes.known_upto == FOREVER:
            line = stream.told[done]
            self.findings.add(
                f"{_who(stream)} was told that {line.path} was {line.what}, and there is no such change",
                [stream.start, line],
            )
        return True

    def _check_answers(self, stream: _Stream, changes: list[_Changes]) -> None:
        """Check that each answer came after the events of all changes up to its zxid."""
        zxids = [zxid for zxid, _ in changes]
        totals = list(accumulate((len(right) for _, right in changes), initial=0))
        for events, line in stream.heard:
            self.checked += 1
            if totals[bisect_right(zxids, packed(line.zxid))] > events:
                first = zxids[bisect_right(totals, events) - 1]
                self.findings.add(
                    f"{_who(stream)} was answered at {show(line.zxid)} before it was told of the change at {show(first)}",
                    [stream.start, self.facts.effects.broadcast(first), line],
                )
                return


def _changes_below(start: SubtreeWatched, facts: Facts) -> Iterator[_Changes]:
    """Yield the changes after the watch was set, as far as they are known, by transaction."""
    zxids = facts.history.zxids
    first, end = (bisect_right(zxids, zxid) for zxid in (packed(start.zxid), facts.changes.known_upto))
    for place in range(first, end):
        txn = facts.effects.txns[place]
        steps = txn[2] if txn is not None else ()
        told = [(path, EVENT_OF[op]) for op, path, *_ in steps if op in EVENT_OF and _is_below(path, start.path)]
        if told:
            yield zxids[place], told


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _who(stream: _Stream) -> str:
    return f"client {stream.start.client}, which watches all below {stream.start.path} since {show(stream.start.zxid)},"
