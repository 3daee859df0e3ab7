"""The faults of a run as stretches of time: what was broken from when to when, which links were touched, who was paused."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from zab_chaos.harness.results.source import FaultLine, Source

KILLS = {"crash", "crash-at", "power-cut", "wipe", "stop", "disk-full", "disk-error"}
CUTS = {"partition", "flap", "stall", "net-disconnect"}  # nothing gets through; other faults of links only disturb them
MENDS = {"restart", "resume"}  # these put something right: a moment, not a stretch


@dataclass(slots=True)
class FaultSpan:
    """One fault. Times in nanoseconds; `healed` None: it is over at once, or was never healed."""

    id: Any
    do: str
    target: str
    nodes: list[int]
    params: dict[str, Any]
    pairs: list[tuple[int, int]]
    at: int
    healed: int | None = None
    confirmed: bool = True

    @property
    def on(self) -> str:
        """`leader = 2`: what the scenario said and what it was."""
        numbers = " ".join(map(str, self.nodes))
        return self.target if not numbers or self.target == f"node-{numbers}" else f"{self.target} = {numbers}"

    @property
    def detail(self) -> str:
        """Its parameters, as far as they say something, and the cut links."""
        words = [f"{name} {value}" for name, value in self.params.items() if value not in (None, "", [], "never")]
        links = ", ".join(f"{one}→{other}" for one, other in self.pairs)
        return "; ".join(words[:8] + ([f"links {links}"] if links else []))

    @property
    def end(self) -> int | None:
        """Where a picture ends it: what mends is a moment, although it may be confirmed later."""
        return None if self.do in MENDS else self.healed

    def seconds(self, zero: int) -> tuple[float, float | None]:
        """When it began, counted from `zero`, and how long it lasted; None as `healed`."""
        at = (self.at - zero) / 1e9
        return at, None if self.healed is None else (self.healed - zero) / 1e9 - at


def read_spans(source: Source) -> list[FaultSpan]:
    """All faults, in the order in which they were injected."""
    spans: dict[str, FaultSpan] = {}
    for number, line in source.lines("faults.jsonl", FaultLine):
        key = repr(line.id)
        if line.type == "inject":
            spans[key] = _begun(line)
        elif line.type == "heal" and key in spans:
            span = spans[key]
            span.healed = max(line.t, span.at)
            span.confirmed = span.confirmed and line.confirmed is not False
        else:
            source.damaged("faults.jsonl", number, f"is a {line.type!r} of fault {line.id!r}, which was not injected")
    return sorted(spans.values(), key=lambda span: span.at)


def _begun(line: FaultLine) -> FaultSpan:
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


def _target_words(target: Any) -> str:
    """What the scenario calls its target; several are written one after the other. None: the shape or the pairs say it."""
    if target is None:
        return "links"
    return ", ".join(map(str, target)) if isinstance(target, list) else str(target)


class LinkFault(NamedTuple):
    """When a fault touched a link; whether it was cut, or only disturbed."""

    begin: int
    end: int
    cut: bool


def touched_links(spans: list[FaultSpan], end: int) -> dict[tuple[int, int], list[LinkFault]]:
    """For each ordered pair of nodes when a fault touched its link; what was never healed lasts to `end`."""
    touched: dict[tuple[int, int], list[LinkFault]] = {}
    for span in spans:
        for one, other in span.pairs:
            until = end if span.healed is None else span.healed
            touched.setdefault((one, other), []).append(LinkFault(span.at, until, span.do in CUTS))
    return dict(sorted(touched.items()))


def pauses(spans: list[FaultSpan], fired: dict[int, list[int]], end: int) -> dict[int, list[tuple[int, int]]]:
    """For each node when its process was stopped (SIGSTOP). `fired`: when a `pause-at` caught each node."""
    found: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        if span.do not in ("pause", "pause-at"):
            continue
        for node in span.nodes:
            begin = _caught(span, fired.get(node, [])) if span.do == "pause-at" else span.at
            ends = [one.at for one in spans if one.do == "resume" and node in one.nodes and one.at > span.at]
            until = min([end if span.healed is None else span.healed, *ends])
            if begin is not None and begin < until:
                found.setdefault(node, []).append((begin, until))
    return found


def _caught(span: FaultSpan, fired: list[int]) -> int | None:
    """When a node reached the point at which it was to be stopped; None if it never did while the fault stood."""
    return next((t for t in fired if t >= span.at and (span.healed is None or t <= span.healed)), None)
