"""Violations as people can look them up: a text, and the lines of the run's folder that show it."""

from collections.abc import Collection, Sequence
from signal import Signals

import msgspec

from zab_chaos.model.events import Line, TraceEvent, ZxidPair
from zab_chaos.model.verdict import Dependency, Evidence, Violation

LISTED = 5  # violations listed in full for each property; one bug often causes a thousand


def cite(line: Line) -> Evidence:
    """Return a line as evidence. An event that was not read from a file is cited at the line where the tracer writes it."""
    event = msgspec.json.decode(msgspec.json.encode(line))
    number = event.pop("line")
    if not number and isinstance(line, TraceEvent):
        number = line.n
    return Evidence(line.file, number, {name: value for name, value in event.items() if value is not None})


def show(zxid: int | ZxidPair) -> str:
    """Return `epoch:counter`, or `0:0 (nothing)` for the zxid of an empty history."""
    epoch, counter = (zxid >> 32, zxid & 0xFFFFFFFF) if isinstance(zxid, int) else zxid
    return f"{epoch}:{counter}" if epoch or counter else "0:0 (nothing)"


def zxid_range(first: int, last: int) -> str:
    """Return a range of zxids as text: `1:3`, or `1:3 to 1:9`."""
    return show(first) if first == last else f"{show(first)} to {show(last)}"


def loss_words(keep: ZxidPair, last: ZxidPair, followed_by: ZxidPair | None) -> str:
    """Return what a log lost, as a sentence without its subject; see the trace event `truncate`."""
    if followed_by is None:
        return f"truncated its log from {show(last)} to {show(keep)}"
    return f"lost what followed {show(keep)} in its log, up to {show(last)} (now {show(followed_by)} follows)"


def exit_words(code: int | None) -> str:
    """Return an exit status in words: `exit code 3`, or the name of the signal that has killed the process."""
    if code is None or code >= 0:
        return f"exit code {code}"
    return next((one.name for one in Signals if one == -code), f"signal {-code}")


def ending(node: int | None, code: int | None) -> str:
    """Return how a process ended that nobody had asked to end: `node 2 ended by itself, with exit code 3`."""
    verb = "was killed by" if code is not None and code < 0 else "ended by itself, with"
    return f"node {node} {verb} {exit_words(code)}"


def node_names(nodes: Sequence[int]) -> str:
    """Return `node 1`, or `nodes 1, 2 and 3`."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}" if nodes else "no node"


class Findings:
    """The violations that a checker found: the first `LISTED` in full, the others only counted (`more`)."""

    def __init__(self) -> None:
        self.listed: list[Violation] = []
        self.more = 0
        self.shown_by: set[frozenset[int] | None] = set()  # `traces_of` of each violation

    @property
    def full(self) -> bool:
        """Whether the next one is only counted, so that its words are not needed."""
        return len(self.listed) == LISTED

    def __bool__(self) -> bool:
        return bool(self.listed)

    def add(
        self,
        words: str,
        lines: Sequence[Line | None],
        traces_of: Collection[int] | None = None,
        dependencies: Sequence[Dependency] = (),
    ) -> None:
        """Add a violation with the lines that show it, in the given order. None stands for a line that does not exist.

        `traces_of`: the nodes from whose traces nothing may be missing if the lines are to prove it; None for all nodes.
        `dependencies`: those of a cycle of transactions.
        """
        self.shown_by.add(None if traces_of is None else frozenset(traces_of))
        if self.full:
            self.more += 1
        else:
            cited = [cite(line) for line in lines if line is not None]
            self.listed.append(Violation(words, cited, [*dependencies]))
