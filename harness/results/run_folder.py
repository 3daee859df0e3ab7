"""The folder of one run: creates, finds, reads and writes it. results/README.md documents the formats."""

import json
import os
import shlex
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.machine import files
from zab_chaos.harness.machine.umask import umask
from zab_chaos.harness.results.source import Source
from zab_chaos.model import manifest
from zab_chaos.model.events import UNREADABLE, Milestone
from zab_chaos.model.verdict import Outcome, Verdict

_MILESTONE_LOCK = threading.Lock()  # several threads write milestones, which must be in the order of their times
PARTS = ("trace", "log", "record", "data", "config")
RUN = "run.json"
FACTS: dict[str, Any] = {  # the types of those fields of run.json that are shown; the others are only passed on
    "scenario": str, "seed": int, "nodes": int, "backend": str, "expect": dict, "defect": str | None,
    "ticket": str, "ticket_violates": list, "command": str | None, "commit": str | None, "dump": str | None, "outcome": str,
}  # fmt: skip


class RunFolder:
    """A run folder, `results/<scenario>/<utc-time>-<seed>/`. `create` makes a new one, `find` finds a stored one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    def file(self, *parts: str) -> Path:
        """Return a path inside the folder."""
        return self.path.joinpath(*parts)

    def milestone(self, event: str, **fields: Any) -> None:
        """Append one line to harness.jsonl, with the time at which it is written."""
        with _MILESTONE_LOCK, self.file("harness.jsonl").open("a", encoding="utf-8") as file:
            line = json.dumps({"t": time.monotonic_ns(), "event": event, **fields})
            file.write(line + "\n")

    def write_run(self, facts: dict[str, Any]) -> None:
        """Write run.json atomically, so that a reader never sees half of it."""
        write_atomically(self.file(RUN), json.dumps(facts, indent=2, ensure_ascii=False) + "\n")

    def read_run(self) -> dict[str, Any]:
        """Read run.json; empty if it is missing or unreadable. Fields without their documented type are left out."""
        facts = read_json(self.file(RUN))
        return {key: value for key, value in facts.items() if isinstance(value, FACTS.get(key, object))}

    def read_verdict(self) -> Verdict | None:
        """Read verdict.json; None if it is missing or not a verdict."""
        try:
            return msgspec.json.decode(self.file("verdict.json").read_bytes(), type=Verdict)
        except (OSError, *UNREADABLE):
            return None

    def lines(self, name: str, kind: Any = dict[str, Any]) -> Iterator[Any]:
        """Read the lines of a .jsonl file that have the form of `kind`.

        Reporting the other lines is the judge's task (`zab_chaos.model.runfiles`).
        """
        return (line for _, line in Source(self.path).lines(name, kind))

    def origin(self) -> int:
        """Return the schedule's time zero in monotonic nanoseconds: the start of the workload, else the first milestone."""
        times = {line.event: line.t for line in reversed(list(self.lines("harness.jsonl", Milestone)))}
        return int(times.get("workload-started", min(times.values(), default=0)))

    def store(self, verdict: Verdict, *, keep_data: bool) -> None:
        """Write the verdict and then the manifest, after which the folder is complete."""
        self.file("verdict.json").write_bytes(verdict.to_json())
        if verdict.verdict is Outcome.PASS and not keep_data:
            self.remove_disks()
        manifest.seal(self.path)

    def remove_disks(self) -> None:
        """Remove the nodes' disks, which are only needed to examine a failed run."""
        shutil.rmtree(self.file("data"), ignore_errors=True)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file, or the one that a link leads to, atomically. If that fails, nothing is left beside it. What is no file,
    such as a pipe or a device, is written to."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()
    with manifest.written_beside(path, text.encode()) as new:
        new.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; empty if the file is missing or is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def private() -> AbstractContextManager[None]:
    """Create files that only their owner can read, in this process and in those that it starts."""
    return umask(0o077)


def create(results: Path, scenario: str, seed: int) -> RunFolder:
    """Create the folder of a new run, for its owner only, and point `latest` at it. Raises HarnessError if it can't be
    written."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        str(results.absolute()).encode()
    except UnicodeEncodeError:
        raise HarnessError(
            f"the results cannot be in {str(results.absolute())!a}: files of the run name it, and it is not UTF-8. "
            "Choose another place with --results; if the locale is not UTF-8, set PYTHONUTF8=1."
        ) from None
    with files.writing(results, "--results"):
        path = _create_unique(results / scenario, f"{stamp}-{seed}")
        for part in PARTS:
            path.joinpath(part).mkdir(mode=0o700)
        _point_latest(results, path)
    return RunFolder(path.resolve())


def _create_unique(parent: Path, name: str) -> Path:
    """Create a new folder: two runs of one seed within one second get different names."""
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return path


def _point_latest(results: Path, run: Path) -> None:
    """Replace the link `latest` atomically; another process may be reading through it."""
    link = results / "latest"
    temporary = results / f".latest.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(run.relative_to(results))
    temporary.replace(link)


def runs(root: Path) -> Iterator[Path]:
    """Yield the folder of every run at any depth below `root`."""
    return (path.parent for path in files.below(root, [RUN]))


def below(root: Path) -> set[Path]:
    """Return the folder of every run below `root`, resolved: a run that links lead to is there once."""
    return {folder.resolve() for folder in runs(root)}


def _newest(root: Path) -> list[Path]:
    """Return the folder of every run below `root`, the newest first: their names begin with the time."""
    return sorted(runs(root), key=lambda folder: folder.name, reverse=True)


def find(results: Path, name: str) -> RunFolder:
    """Find a stored run by its path, by its path below the results folder, or as `latest`. Raises BadInput."""
    for path in (Path(name), results / name):
        if path.joinpath(RUN).is_file():
            return RunFolder(path.resolve())
    if inside := _newest(Path(name)):
        raise BadInput(
            f"{name} is a folder of runs. `zab results --results {shlex.quote(name)}` lists them. The newest is {inside[0]}"
        )
    newest = _newest(results)[:5]
    some = "\n".join(f"  {folder.relative_to(results)}" for folder in newest) or "  (none yet)"
    raise BadInput(f"no run at {name}: there is no run.json. The newest runs in {results}:\n{some}")
