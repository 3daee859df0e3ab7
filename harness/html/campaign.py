"""Many runs at once, as far as a report on a campaign shows them: what was judged, how fast it recovered, what was hit when."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.html.evidence import read_verdict
from harness.html.lanes import stretches
from harness.html.lives import read_lives, settle_ends
from harness.html.source import MilestoneLine, Source
from harness.html.spans import MENDS, read_spans
from harness.results import read_json

NOT_JUDGED = "NOT-JUDGED"


@dataclass(slots=True)
class Run:
    """One run of the campaign."""

    folder: Path
    scenario: str
    defect: str | None
    command: str
    expected: str
    verdict: str = NOT_JUDGED
    properties: dict[str, str] = field(default_factory=dict)  # name -> judgement
    recoveries: list[tuple[str, float | None]] = field(
        default_factory=list
    )  # fault, seconds to the next commit or never
    unavailable: float = 0.0  # seconds of the longest time in which a write was due and none succeeded
    hits: list[tuple[str, str]] = field(default_factory=list)  # fault, what the node was when it was hit

    @property
    def name(self) -> str:
        """A scenario with a defect is another experiment than the one without."""
        if self.defect is None:
            return self.scenario
        own = self.scenario.rsplit("/", 1)[-1] == self.defect
        return f"{self.scenario} (defective)" if own else f"{self.scenario} with {self.defect}"

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the scenario's; with a defect, whether the defect was caught."""
        return self.verdict == ("VIOLATION" if self.defect else self.expected)


def read_campaign(root: Path) -> list[Run]:
    """Every run at any depth below `root`, by scenario and time; one that links lead to is counted once."""
    folders = {path.parent.resolve() for path in root.glob("**/run.json")}
    return sorted((_read(folder) for folder in folders), key=lambda run: (run.name, run.folder.name))


def _read(folder: Path) -> Run:
    source, facts = Source(folder), read_json(folder / "run.json")
    expect = facts.get("expect")
    run = Run(
        folder=folder,
        scenario=str(facts.get("scenario", folder.parent.name)),
        defect=str(facts["defect"]) if facts.get("defect") else None,
        command=str(facts.get("command", "")),
        expected=str(expect.get("verdict", "PASS")) if isinstance(expect, dict) else "PASS",
    )
    run.hits = list(_hits(source))
    verdict = read_verdict(source).verdict
    if verdict is not None:
        run.verdict = str(verdict.verdict)
        run.properties = {item.name: str(item.verdict) for item in verdict.properties}
        run.recoveries = list(_recoveries(verdict.metrics.get("faults")))
        longest = verdict.metrics.get("longest_unavailability_s")
        run.unavailable = float(longest) if isinstance(longest, int | float) else 0.0
    return run


def _recoveries(faults: Any) -> Iterator[tuple[str, float | None]]:
    """The verdict's `metrics.faults`; what mends is not recovered from."""
    for one in faults if isinstance(faults, list) else []:
        if isinstance(one, dict) and one.get("do") not in MENDS:
            seconds = one.get("seconds")
            yield str(one.get("do")), float(seconds) if isinstance(seconds, int | float) else None


def _hits(source: Source) -> Iterator[tuple[str, str]]:
    """For each fault and each node that it hit: the fault, and the node's role and phase at that moment."""
    spans, lives = read_spans(source), read_lives(source)
    settle_ends(lives, spans, [line for _, line in source.lines("harness.jsonl", MilestoneLine)])
    lanes = stretches(lives, max((life.last for life in lives), default=0))
    for span in spans:
        for node in span.nodes if span.do not in MENDS else []:
            was = next((one for one in lanes if one.node == node and one.begin < span.at <= one.end), None)
            if was is not None:
                yield span.do, "down" if was.state == "down" else f"{was.role} {was.phase}".strip() or "starting"
