"""The data of a campaign's page: for each of its runs the verdict, the recovery times, and which states the faults hit.

A run comes from its folder (`read_campaign`, with its stored verdict) or from the analysis (`run_from_verdict`).
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from zab_chaos.harness.report.html.evidence import read_shown_verdict
from zab_chaos.harness.report.html.lanes import lane_segments
from zab_chaos.harness.report.html.lifetimes import read_ended_lives
from zab_chaos.harness.results.fault_spans import MENDS, read_spans
from zab_chaos.harness.results.index import NOT_JUDGED
from zab_chaos.harness.results.run_folder import below, read_json
from zab_chaos.harness.results.source import Source
from zab_chaos.model.verdict import expected_ending
from zab_chaos.pipeline.naming import experiment

CSV = (
    "path", "campaign", "scenario", "defect", "seed", "verdict", "expected", "as_expected", "violated", "reasons", "command",
)  # fmt: skip


class RecoveryTime(NamedTuple):
    """The time from a fault to the next commit (None: never). `role`: of the node that was hit, "" if not determined."""

    do: str
    role: str
    seconds: float | None


@dataclass(slots=True)
class CampaignRun:
    """One run of a campaign."""

    folder: Path
    scenario: str
    defect: str | None
    command: str
    expected: str = "PASS"  # how it should have ended: `expected_ending`, or a violation if it has a defect
    verdict: str = NOT_JUDGED
    properties: dict[str, str] = field(default_factory=dict)  # name -> judgement
    recoveries: list[RecoveryTime] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    seed: int | None = None
    numbers: dict[str, float] = field(default_factory=dict)  # the verdict's metrics, by name
    hits: list[tuple[str, str]] = field(default_factory=list)  # (kind of fault, role and phase of the node that it hit)
    campaign: str = ""  # the name of its campaign, if two are compared

    @property
    def name(self) -> str:
        return experiment(self.scenario, self.defect)

    @property
    def violated(self) -> list[str]:
        return [name for name, judgement in self.properties.items() if judgement == "VIOLATION"]

    @property
    def unavailable(self) -> float:
        """The longest time, in seconds, in which a write was waiting and none was served."""
        return self.numbers.get("longest_unavailability_s", 0.0)

    @property
    def as_expected(self) -> bool:
        """Whether it ended as the scenario expects; for a run with a defect, whether the defect was caught."""
        return self.verdict == self.expected


def read_campaign(root: Path) -> list[CampaignRun]:
    """Return every run at any depth below `root`, ordered by scenario and time."""
    return sorted(map(_read, below(root)), key=lambda run: (run.name, run.folder.name))


def _read(folder: Path) -> CampaignRun:
    source, facts = Source(folder), read_json(folder / "run.json")
    verdict = read_shown_verdict(source).verdict
    run = _run(folder, facts, facts.get("expect"), None if verdict is None else msgspec.to_builtins(verdict))
    run.hits = list(_hits(source))
    return run


def run_from_verdict(path: str, facts: dict[str, Any], verdict: dict[str, Any], campaign: str = "") -> CampaignRun:
    """Return a run that the pipeline has judged. `facts`: its row in `runs`; `verdict`: as in results/README.md."""
    run = _run(Path(path), facts, json.loads(facts["expect"] or "{}"), verdict)
    faults = verdict["metrics"].get("faults", [])
    run.campaign = campaign
    run.hits = [(fault["do"], was) for fault in faults if fault["do"] not in MENDS for was in fault["was"]]
    return run


def _run(folder: Path, facts: dict[str, Any], expect: Any, verdict: dict[str, Any] | None) -> CampaignRun:
    """`facts`: the fields of run.json, any of which may be missing. `verdict`: the content of verdict.json."""
    seed = facts.get("seed")
    run = CampaignRun(
        folder=folder,
        scenario=str(facts.get("scenario") or folder.parent.name),
        defect=str(facts["defect"]) if facts.get("defect") else None,
        command=str(facts.get("command") or ""),
        seed=seed if isinstance(seed, int) else None,
    )
    if verdict is not None:
        metrics = verdict["metrics"]
        run.verdict, run.reasons = verdict["verdict"], verdict["reasons"]
        run.properties = {item["name"]: item["verdict"] for item in verdict["properties"]}
        run.recoveries = list(_recoveries(metrics))
        run.numbers = {name: value for name, value in metrics.items() if type(value) in (int, float)}
    wanted = {"verdict": "VIOLATION"} if run.defect else expect if isinstance(expect, dict) else {}
    run.expected = expected_ending(wanted, run.verdict, run.violated)
    return run


def _recoveries(metrics: dict[str, Any]) -> Iterator[RecoveryTime]:
    """Yield the recoveries of the verdict's `metrics.faults`, without those that repair something (`restart`, `resume`).

    There are none if no commit was recorded, as in every run of a system whose nodes record nothing.
    """
    faults = metrics.get("faults")
    for one in faults if isinstance(faults, list) and metrics.get("delivered") != 0 else []:
        if isinstance(one, dict) and one.get("do") not in MENDS:
            seconds = one.get("seconds")
            role = str(one.get("role") or "")
            yield RecoveryTime(str(one.get("do")), role, float(seconds) if isinstance(seconds, int | float) else None)


def campaign_csv(runs: list[CampaignRun]) -> str:
    """Format the runs as CSV: a line for each, with its verdict and every number of its metrics."""
    names = sorted({name for run in runs for name in run.numbers})
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*CSV, *names])
    for run in runs:
        row = (
            run.folder, run.campaign, run.scenario, run.defect, run.seed, run.verdict, run.expected, run.as_expected,
            "; ".join(run.violated), "; ".join(run.reasons), run.command,
        )  # fmt: skip
        writer.writerow([*row, *(run.numbers.get(name) for name in names)])
    return text.getvalue()


def _hits(source: Source) -> Iterator[tuple[str, str]]:
    """Yield, for each fault and each node that it hit, the kind of fault and the node's role and phase at that moment."""
    spans = read_spans(source)
    lives = read_ended_lives(source, spans)
    lanes = lane_segments(lives, max((life.last for life in lives), default=0))
    for span in spans:
        for node in span.nodes if span.do not in MENDS else []:
            was = next((one for one in lanes if one.node == node and one.begin < span.at <= one.end), None)
            if was is not None:
                yield span.do, "down" if was.state == "down" else f"{was.role} {was.phase}".strip() or "starting"
