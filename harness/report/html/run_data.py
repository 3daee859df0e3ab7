"""Reads everything that a run's page shows from the run's folder. Times are nanoseconds, in the page's JSON microseconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zab_chaos.harness.report.chain import Chain, chain_of
from zab_chaos.harness.report.html.diagram import Diagram, read_diagram
from zab_chaos.harness.report.html.evidence import ShownVerdict, read_shown_verdict
from zab_chaos.harness.report.html.lag import Lag, lags
from zab_chaos.harness.report.html.lanes import LaneSegment, lane_segments
from zab_chaos.harness.report.html.lifetimes import (
    TracedLife,
    are_several_releases,
    determine_ends,
    read_lives,
    set_releases,
    times_up,
)
from zab_chaos.harness.report.html.operations import Operations, read_operations
from zab_chaos.harness.report.progress import UNSHOWN, Steps
from zab_chaos.harness.report.sentences import describe_line
from zab_chaos.harness.results.fault_spans import MENDS, FaultSpan, LinkFault, pauses, read_spans, touched_links
from zab_chaos.harness.results.run_folder import read_json
from zab_chaos.harness.results.source import MilestoneLine, Source
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.peer import Peer

HOST_CLOCK = ("processes", "containers")  # backends whose nodes have the host's clock, unless a fault changes it
SHORT_CHAIN = 0.1  # share of the run: if the chain with its margins takes less, the pictures show it first
MARGIN = 2_000_000  # nanoseconds before and after such a chain, at least
SHORTEST_OUTAGE = 100_000_000  # nanoseconds; shorter times without a successful write are not listed
LETTER = 0.006  # assumed width of a letter, as a share of the run's length; a fault's name is in its bar or beside it


@dataclass(slots=True)
class RunData:
    """The data of one run.

    `zero` is the start of the workload, from which all shown times are counted. `begin` and `end` are those of the run.
    """

    folder: Path
    facts: dict[str, Any]  # run.json
    source: Source
    judged: ShownVerdict
    lives: list[TracedLife]
    lanes: list[LaneSegment]
    spans: list[FaultSpan]
    links: dict[tuple[int, int], list[LinkFault]]
    pauses: dict[int, list[tuple[int, int]]]
    operations: Operations
    outages: list[tuple[int, int]]
    lags: list[Lag]
    milestones: list[MilestoneLine]
    diagram: Diagram
    chain: Chain | None
    zero: int
    begin: int
    end: int

    @property
    def nodes(self) -> list[int]:
        """The ids of all nodes, ascending: those that run.json declares, and those that left a trace."""
        declared = self.facts.get("nodes")
        count = declared if isinstance(declared, int) and 0 <= declared <= 1000 else 0
        return sorted({*range(1, count + 1), *(life.node for life in self.lives)})

    @property
    def opening(self) -> tuple[int, int] | None:
        """The time that the pictures show first: that of a chain which is far shorter than the run; None: all of the run."""
        if self.chain is None:
            return None
        begin, end = self.chain.events[0].t, self.chain.events[-1].t
        margin = max(end - begin, MARGIN)
        shown = begin - margin, end + margin
        return shown if shown[1] - shown[0] < SHORT_CHAIN * (self.end - self.begin) else None

    def seconds(self, t: int) -> float:
        """Convert a time to seconds since the start of the workload, as it is shown."""
        return (t - self.zero) / 1e9

    def as_json(self) -> dict[str, Any]:
        """Return the data that the scripts draw, with times in microseconds since `zero`; assets/data.js reads it."""
        return {
            "begin": self._micros(self.begin),
            "end": self._micros(self.end),
            "open": self.opening and [self._micros(t) for t in self.opening],
            "nodes": self.nodes,
            "lanes": [one.as_json(self.zero) for one in self.lanes],
            "alive": [
                {"node": node, **self._between(one)}
                for node in {*self.nodes} - {life.node for life in self.lives}
                for one in times_up(node, self.spans, self.milestones, self.begin, self.end)
            ],
            "pauses": [{"node": node, **self._between(one)} for node, all_of in self.pauses.items() for one in all_of],
            "amnesia": [
                {"node": life.node, **self._between((life.begin, min(until, life.end or self.end)))}
                for life in self.lives
                if (until := life.amnesiac_until) is not None
            ],
            "events": self._events(),
            "faults": self._faults(),
            "links": [
                {
                    "link": f"{one}→{other}",
                    "times": [{**self._between((it.begin, it.end)), "cut": it.cut} for it in times],
                }
                for (one, other), times in self.links.items()
            ],
            "milestones": [{"t": self._micros(line.t), "words": line.words} for line in self._milestones()],
            "operations": self.operations.as_json(self.zero),
            "windows": [self._between(one) for one in self.outages],
            "lags": [lag.as_json(self.zero) for lag in self.lags],
            "marks": [
                {"t": self._micros(mark.t), "node": mark.node, "number": mark.number, "words": mark.words}
                for mark in self.judged.marks
                if mark.t is not None
            ],
            "diagram": self.diagram.as_json(self.zero),
            "chain": None if self.chain is None else self._chain(self.chain),
        }

    def _chain(self, chain: Chain) -> dict[str, Any]:
        """Return the chain as indices into the diagram's data, with its transactions as (epoch, counter)."""
        begin = min([*([chain.fault.at] if chain.fault else []), *(event.t for event in chain.events)])
        return {
            "begin": self._micros(begin),
            "end": self._micros(max(event.t for event in chain.events)),
            "messages": [event.message for event in chain.events if event.message is not None],
            "steps": [event.step for event in chain.events if event.step is not None],
            "requests": [event.request for event in chain.events if event.request is not None],
            "zxids": [list(zx.pair(zx.Zxid(zxid))) for zxid in chain.zxids],
        }

    def _milestones(self) -> list[MilestoneLine]:
        """Return the milestones, but those of releases only if there are several."""
        several = are_several_releases(self.milestones)
        return [line for line in self.milestones if several or line.event != "release"]

    def _micros(self, t: int) -> int:
        return (t - self.zero) // 1000

    def _between(self, times: tuple[int, int]) -> dict[str, int]:
        return {"begin": self._micros(times[0]), "end": self._micros(times[1])}

    def _events(self) -> list[dict[str, Any]]:
        """Return the events that are drawn as signs on the lanes: everything but changes of role and phase."""
        names = {"established", "truncate", "snapshot", "abort", "member"}
        found = []
        for life in self.lives:
            for event in life.events:
                if event.event in names or (event.event == "fault" and event.state == "fired"):
                    line = {name: getattr(event, name) for name in event.__struct_fields__}
                    words = describe_line("trace/", {**line, "node": life.node, "life": life.number})
                    found.append({"t": self._micros(event.t), "node": life.node, "kind": event.event, "words": words})
        return found

    def _faults(self) -> list[dict[str, Any]]:
        """Return the faults, each on the first row that has room for its bar and its name."""
        rows: list[int] = []
        found = []
        for span in self.spans:
            name = f"{span.do} {span.on}"
            healed, room = span.end or span.at, int(LETTER * (len(name) + 3) * (self.end - self.begin))
            until = healed if healed - span.at >= room else healed + room
            row = next((index for index, free in enumerate(rows) if free <= span.at), len(rows))
            rows[row : row + 1] = [until]
            found.append(
                {
                    "begin": self._micros(span.at),
                    "end": None if span.end is None else self._micros(span.end),
                    "row": row,
                    "name": name,
                    "mends": span.do in MENDS,
                    "confirmed": span.confirmed,
                    "detail": span.detail,
                }
            )
        return found


def read_run_data(folder: Path, core: type[Peer] | str = Peer, steps: Steps = UNSHOWN) -> RunData:
    """Read the data of a run. Missing or damaged files raise nothing; `source.damages` lists them.

    `core`: the class that the nodes ran, or why it is not known. The recorded lives are re-executed with it, to find their
    messages. `steps` shows how far that is.
    """
    source = Source(folder, steps.reading(folder))
    facts = read_json(folder / "run.json")
    if not facts:
        source.damaged("run.json", 0, "does not describe a run")
    milestones = [line for _, line in source.lines("harness.jsonl", MilestoneLine)]
    judged = read_shown_verdict(source)
    spans, lives, operations = read_spans(source, judged.verdict), read_lives(source), read_operations(source)
    determine_ends(lives, spans, milestones)
    set_releases(lives, milestones)
    zero, begin, end = _times(milestones, spans, lives, operations)
    stopped = next((line.t for line in milestones if line.event == "workload-stopped"), None)
    answered = [due + took for due, took in zip(operations.due, operations.took, strict=True)]
    worked_until = stopped if stopped is not None else max([*answered, *operations.due], default=end)
    fired = {
        node: [
            e.t for life in lives if life.node == node for e in life.events if e.event == "fault" and e.state == "fired"
        ]
        for node in {life.node for life in lives}
    }
    diagram = read_diagram(folder, core, own_clocks=have_own_clocks(facts, spans), progress=steps)
    return RunData(
        folder=folder,
        facts=facts,
        source=source,
        judged=judged,
        lives=lives,
        lanes=lane_segments(lives, end),
        spans=spans,
        links=touched_links(spans, end),
        pauses=pauses(spans, fired, end),
        operations=operations,
        outages=operations.outages(worked_until, SHORTEST_OUTAGE),
        lags=lags(lives, end - begin),
        milestones=milestones,
        diagram=diagram,
        chain=chain_of(judged.verdict, diagram, spans) if judged.verdict is not None else None,
        zero=zero,
        begin=begin,
        end=end,
    )


def have_own_clocks(facts: dict[str, Any], spans: list[FaultSpan]) -> bool:
    """Return whether the clocks of the run's nodes may differ from the host's."""
    return facts.get("backend") not in HOST_CLOCK or any(span.do.startswith("clock") for span in spans)


def _times(
    milestones: list[MilestoneLine], spans: list[FaultSpan], lives: list[TracedLife], operations: Operations
) -> tuple[int, int, int]:
    """Return zero, begin and end of the run. It begins with the first process, not while the harness still prepares the run."""
    known = [line.t for line in milestones] + [span.at for span in spans] + [span.end or span.at for span in spans]
    known += [life.begin for life in lives] + [life.last for life in lives]
    if operations.due:
        known += [min(operations.due), max(operations.due)]
    began = [life.begin for life in lives] + [span.at for span in spans] + operations.due[:1].tolist()
    begin, end = min(began or known, default=0), max(known, default=0)
    zero = next((line.t for line in milestones if line.event == "workload-started"), begin)
    return zero, begin, max(end, begin + 1_000_000)
