"""Reads the faults of a run as spans of time, and derives when links were disturbed and when nodes were paused."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from zab_chaos.harness.results.source import FaultLine, Source
from zab_chaos.model.verdict import Verdict

CUTS = {"partition", "flap", "stall", "net-disconnect"}  # nothing gets through; other link faults only disturb a link
FILE = "faults.jsonl"
MENDS = {"restart", "resume"}  # these repair something, and are shown as a moment
WAITS = {"wait"}  # these break nothing


@dataclass(slots=True)
class FaultSpan:
    """One fault of a run, from its injection at `at` to its healing at `healed`, in nanoseconds.

    `healed` is None if the fault is over at once, or was never healed. `confirmed` is false if something in the run
    contradicts the fault. `reached` is false for a crash point that no node came to.
    """

    id: Any
    do: str
    target: str
    nodes: list[int]
    params: dict[str, Any]
    pairs: list[tuple[int, int]]
    at: int
    healed: int | None = None
    confirmed: bool = True
    reached: bool = True

    @property
    def on(self) -> str:
        """The target as the scenario names it, with the nodes that it was, such as `leader = 2`."""
        numbers = " ".join(map(str, self.nodes))
        return self.target if not numbers or self.target == f"node-{numbers}" else f"{self.target} = {numbers}"

    @property
    def effect(self) -> str:
        """Whether the fault took effect: `yes`, `not reached` or `NOT CONFIRMED`."""
        return "NOT CONFIRMED" if not self.confirmed else "yes" if self.reached else "not reached"

    @property
    def detail(self) -> str:
        """The parameters that are set, and the links."""
        words = [f"{name} {value}" for name, value in self.params.items() if self._says(name, value)]
        links = ", ".join(f"{one}→{other}" for one, other in self.pairs)
        return "; ".join(words[:8] + ([f"links {links}"] if links else []))

    def _says(self, name: str, value: Any) -> bool:
        """Return whether a parameter says something: it is set, and another one does not make it meaningless."""
        if name == "direction" and (self.params.get("pairs") or self.params.get("shape", "one-way") != "one-way"):
            return False
        if name == "enough" and not (self.params.get("point") or self.params.get("crash-at")):
            return False
        return value is not False and value not in (None, "", [], "never")

    @property
    def end(self) -> int | None:
        """Where a chart ends the fault: a repair is a moment, although it may be confirmed later."""
        return None if self.do in MENDS else self.healed

    def seconds(self, zero: int) -> tuple[float, float | None]:
        """Return when the fault began, in seconds after `zero`, and how long it lasted; None if it was not healed."""
        at = (self.at - zero) / 1e9
        return at, None if self.healed is None else (self.healed - zero) / 1e9 - at


def read_spans(source: Source, verdict: Verdict | None = None) -> list[FaultSpan]:
    """Return all faults, in the order in which they were injected. Those that a verdict doubts are not confirmed."""
    spans: dict[str, FaultSpan] = {}
    for number, line in source.lines(FILE, FaultLine):
        key = repr(line.id)
        if line.type == "inject":
            spans[key] = _injected(line)
        elif line.type == "heal" and key in spans:
            span = spans[key]
            span.healed = max(line.t, span.at)
            span.confirmed = span.confirmed and line.confirmed is not False
            span.reached = "point" not in span.params or _reached(line.evidence)
        elif line.id != 0:  # a heal of fault 0 belongs to no fault; the verdict tells about it
            source.damaged(FILE, number, f"is a {line.type!r} of fault {line.id!r}, which was not injected")
    for key in _doubted(verdict, spans) if verdict is not None else ():
        spans[key].confirmed = False
    return sorted(spans.values(), key=lambda span: span.at)


def _doubted(verdict: Verdict, faults: Collection[str]) -> Collection[str]:
    """Return those of the faults that a verdict doubts. Doubts that it only counts may be about any of them."""
    found = next((item for item in verdict.properties if item.name == "fault took effect"), None)
    if found is None or found.more:
        return faults if found else ()
    cited = {repr(line.event.get("id")) for it in found.violations for line in it.evidence if line.file == FILE}
    return cited & set(faults)


def _injected(line: FaultLine) -> FaultSpan:
    return FaultSpan(
        id=line.id,
        do=line.do,
        target=_target_words(line.target),
        nodes=line.nodes,
        params=line.params,
        pairs=line.pairs or [],
        at=line.t,
        confirmed=bool(line.confirmed),
    )


def _reached(evidence: Any) -> bool:
    """Return whether any node reached the crash point, by the evidence of the healing; true if that says nothing of it."""
    shown = evidence.values() if isinstance(evidence, dict) else ()
    told = [it["reached"] for it in shown if isinstance(it, dict) and "reached" in it]
    return not told or any(told)


def _target_words(target: Any) -> str:
    """Return the target in the scenario's words. It is None for a fault that has a shape or pairs of nodes instead."""
    if target is None:
        return "links"
    return ", ".join(map(str, target)) if isinstance(target, list) else str(target)


class LinkFault(NamedTuple):
    """The time in which a fault concerned a link, and whether the link was cut or only disturbed."""

    begin: int
    end: int
    cut: bool


def touched_links(spans: list[FaultSpan], end: int) -> dict[tuple[int, int], list[LinkFault]]:
    """Return when faults concerned each link, by ordered pair of nodes. A fault that was not healed lasts until `end`."""
    touched: dict[tuple[int, int], list[LinkFault]] = {}
    for span in spans:
        for one, other in span.pairs:
            until = end if span.healed is None else span.healed
            touched.setdefault((one, other), []).append(LinkFault(span.at, until, span.do in CUTS))
    return dict(sorted(touched.items()))


def pauses(spans: list[FaultSpan], fired: dict[int, list[int]], end: int) -> dict[int, list[tuple[int, int]]]:
    """Return when each node's process was paused (SIGSTOP). `fired`: the times at which a `pause-at` stopped each node."""
    found: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        if span.do not in ("pause", "pause-at"):
            continue
        for node in span.nodes:
            begin = _pause_begin(span, fired.get(node, [])) if span.do == "pause-at" else span.at
            ends = [one.at for one in spans if one.do == "resume" and node in one.nodes and one.at > span.at]
            until = min([end if span.healed is None else span.healed, *ends])
            if begin is not None and begin < until:
                found.setdefault(node, []).append((begin, until))
    return found


def _pause_begin(span: FaultSpan, fired: list[int]) -> int | None:
    """Return when a node was stopped by a `pause-at` fault; None if it did not reach the point before the healing."""
    return next((t for t in fired if t >= span.at and (span.healed is None or t <= span.healed)), None)
