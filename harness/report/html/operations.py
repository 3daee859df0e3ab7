"""Reads the clients' operations as columns: due time, duration, outcome; and computes latency quantiles, outages and pauses."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any

from zab_chaos.harness.report.html.packed import differences
from zab_chaos.harness.results.source import OperationLine, Source
from zab_chaos.model.oracle.facts import WRITES, was_served
from zab_chaos.model.oracle.measures import pauses, percentile
from zab_chaos.model.oracle.spans import FOREVER, Span

OPS = (
    "create", "set", "delete", "check", "multi", "get", "exists", "children", "transaction", "multi-get", "list-append",
    "list-read",
)  # fmt: skip
OUTCOMES = ("ok", "failed", "unknown")
UNANSWERED = -1  # value in `took`
QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(slots=True)
class Operations:
    """Parallel columns with one entry for each operation, in the order of ops.jsonl. Times are in nanoseconds."""

    due: "array[int]" = field(default_factory=lambda: array("q"))
    took: "array[int]" = field(default_factory=lambda: array("q"))  # from `due` to the answer, or UNANSWERED
    outcome: bytearray = field(default_factory=bytearray)  # index into OUTCOMES
    op: bytearray = field(default_factory=bytearray)  # index into OPS
    node: "array[int]" = field(default_factory=lambda: array("q"))
    served: bytearray = field(default_factory=bytearray)  # 1 if it succeeded or was refused for its content
    line: "array[int]" = field(default_factory=lambda: array("q"))  # of the invoke line

    def __len__(self) -> int:
        return len(self.due)

    def as_json(self, zero: int) -> dict[str, Any]:
        """Return the columns for the page: times in microseconds, `due` and `line` as differences, digits as text. A digit of
        `op` is hexadecimal."""
        due = [(one - zero) // 1000 for one in self.due]
        return {
            "due": list(differences(due)),
            "took": [one if one == UNANSWERED else one // 1000 for one in self.took],
            "outcome": "".join(map(str, self.outcome)),
            "op": "".join(map("{:x}".format, self.op)),
            "node": self.node.tolist(),
            "line": list(differences(self.line)),
        }

    def quantiles(self) -> list[tuple[str, int, list[float]]]:
        """Return (name, number, [QUANTILES and maximum in ms]) of the successful operations: all, writes and reads."""
        rows = []
        for name in ("all", "writes", "reads"):
            took = sorted(
                took
                for took, outcome, op in zip(self.took, self.outcome, self.op, strict=True)
                if outcome == 0 and (name == "all" or (OPS[op] in WRITES) == (name == "writes"))
            )
            if took:
                values = [percentile(took, share) for share in QUANTILES] + [took[-1]]
                rows.append((name, len(took), [value / 1e6 for value in values]))
        return rows

    def counts(self) -> dict[str, int]:
        """Return the number of operations with each outcome."""
        return {name: self.outcome.count(index) for index, name in enumerate(OUTCOMES)}

    def outages(self, end: int, at_least: int) -> list[tuple[int, int]]:
        """Return the times (begin, end) of at least `at_least` ns in which a write was waiting and none was served, in order.

        The last one may last until `end`.
        """
        return [(begin, over) for begin, over in pauses(*self._writes(), end) if over - begin >= at_least]

    def pauses_of_writes(self, faults: Sequence[int]) -> list[float | None]:
        """Return for each fault the longest time (s) before the next fault in which writes waited and none was served.

        None: no write was served until the end. `faults`: the times of the injections, ascending.
        """
        waits, served = self._writes()
        end = max(served, default=0)
        found = list(pauses(waits, served, end))
        return [_longest(found, waits, begin, until) for begin, until in pairwise([*faults, end])]

    def _writes(self) -> tuple[list[Span], list[int]]:
        """Return when each write was due and answered (`FOREVER`: never), and the times at which writes were served."""
        rows = list(zip(self.due, self.took, self.served, self.op, strict=True))
        writes = [row for row in rows if OPS[row[3]] in WRITES]
        waits = [(due, due + took if took != UNANSWERED else FOREVER) for due, took, _, _ in writes]
        return waits, [due + took for due, took, served, _ in writes if served]


def _longest(found: Sequence[Span], waits: Sequence[Span], begin: int, until: int) -> float | None:
    """Return the longest (s) of the pauses that end in [begin, until], and of the one that begins before `until` and ends
    later. That one is compared by its part before `until`: most of it may be due to the next fault.

    None if a write waited after `begin` and none was served any more.
    """
    first, last = (bisect_right(found, time, key=itemgetter(1)) for time in (begin, until))
    if first == len(found):
        return None if any(answered > begin for _, answered in waits) else 0.0
    last += last < len(found) and found[last][0] < until
    longest = max(found[first:last], key=lambda pause: min(pause[1], until) - pause[0], default=(0, 0))
    return (longest[1] - longest[0]) / 1e9


def read_operations(source: Source) -> Operations:
    """Read ops.jsonl. An operation that was never answered has the outcome unknown."""
    found = Operations()
    waiting: dict[tuple[int, int], int] = {}
    for number, line in source.lines("ops.jsonl", OperationLine):
        key = (line.client, line.seq)
        if line.type == "invoke" and line.op in OPS:
            waiting[key] = len(found)
            found.due.append(line.due)
            found.took.append(UNANSWERED)
            found.outcome.append(OUTCOMES.index("unknown"))
            found.op.append(OPS.index(line.op))
            found.served.append(False)
            found.node.append(line.node)
            found.line.append(number)
        elif line.type == "complete" and key in waiting and line.outcome in OUTCOMES:
            index = waiting.pop(key)
            found.took[index] = max(line.t - found.due[index], 0)
            found.outcome[index] = OUTCOMES.index(line.outcome)
            found.served[index] = was_served(line)
        else:
            what = f"operation {line.op!r}" if line.type == "invoke" else f"line {line.type!r} {line.outcome!r}"
            source.damaged("ops.jsonl", number, f"has an unexpected {what} of client {line.client}, seq {line.seq}")
    return found
