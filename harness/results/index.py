"""Lists the stored runs below a folder, with their times, scenarios and verdicts."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from zab_chaos.harness.results.run_folder import RunFolder, below

NOT_JUDGED = "NOT-JUDGED"
_STAMP = re.compile(r"(\d{8}T\d{6}Z)-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One stored run. `made`: when it was made, in UTC."""

    folder: RunFolder
    made: datetime
    scenario: str
    seed: int | None
    backend: str
    verdict: str

    @property
    def page(self) -> Path:
        return self.folder.file("report.html")


def read_index(root: Path) -> list[StoredRun]:
    """Return every run at any depth below `root`, the newest first."""
    return sorted(
        map(_entry, map(RunFolder, below(root))), key=lambda one: (one.made, str(one.folder.path)), reverse=True
    )


def matching(entries: list[StoredRun], *, scenario: str | None, verdict: str | None) -> Iterator[StoredRun]:
    """Yield the runs whose scenario's name contains `scenario` and that have this verdict; None matches all."""
    for one in entries:
        if (scenario is None or scenario in one.scenario) and (verdict is None or verdict.upper() == one.verdict):
            yield one


def _entry(folder: RunFolder) -> StoredRun:
    facts, verdict = folder.read_run(), folder.read_verdict()
    return StoredRun(
        folder=folder,
        made=_creation_time(folder),
        scenario=facts.get("scenario", folder.path.parent.name) + (" (defective)" if facts.get("defect") else ""),
        seed=facts.get("seed"),
        backend=facts.get("backend", ""),
        verdict=NOT_JUDGED if verdict is None else str(verdict.verdict),
    )


def _creation_time(folder: RunFolder) -> datetime:
    """Return when a run was made: from the folder's name, or if that has no time, from the mtime of run.json."""
    stamp = _STAMP.match(folder.name)
    if stamp is not None:
        with suppress(ValueError):  # digits that are no time
            return datetime.strptime(stamp[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return datetime.fromtimestamp(folder.file("run.json").stat().st_mtime, UTC)
