"""From a broken promise to something that a person can look up: words, and the lines that show it."""

from collections.abc import Sequence

import msgspec

from zab_chaos.model.events import Line, Pair, TraceEvent
from zab_chaos.model.verdict import Evidence, Violation

LISTED = 5  # violations spelled out for each property; one bug often shows a thousand times


def cite(line: Line) -> Evidence:
    """A line as evidence. An event that came from memory is cited where a tracer would have written it."""
    event = msgspec.json.decode(msgspec.json.encode(line))
    number = event.pop("line")
    if not number and isinstance(line, TraceEvent):
        number = line.n
    return Evidence(line.file, number, {name: value for name, value in event.items() if value is not None})


def show(zxid: int | Pair) -> str:
    """`epoch:counter`; the zxid of an empty history is `0:0 (nothing)`."""
    epoch, counter = (zxid >> 32, zxid & 0xFFFFFFFF) if isinstance(zxid, int) else zxid
    return f"{epoch}:{counter}" if epoch or counter else "0:0 (nothing)"


def span(first: int, last: int) -> str:
    """`1:3`, or `1:3 to 1:9`."""
    return show(first) if first == last else f"{show(first)} to {show(last)}"


def named(nodes: Sequence[int]) -> str:
    """`node 1`, or `nodes 1, 2 and 3`."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}" if nodes else "no node"


class Findings:
    """What a checker found: the first few in full, the rest counted."""

    def __init__(self) -> None:
        self.listed: list[Violation] = []
        self.more = 0

    def __bool__(self) -> bool:
        return bool(self.listed)

    def add(self, words: str, lines: Sequence[Line | None]) -> None:
        """`lines` are cited in the given order; None stands for a line that does not exist."""
        if len(self.listed) == LISTED:
            self.more += 1
        else:
            self.listed.append(Violation(words, [cite(line) for line in lines if line is not None]))
