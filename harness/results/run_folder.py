"""The folder of one run: its name, what lies where in it, its milestones. The formats are in results/README.md."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.model import manifest
from zab_chaos.model.events import UNREADABLE
from zab_chaos.model.verdict import Outcome, Verdict

PARTS = ("trace", "log", "record", "data", "config")
FACTS: dict[str, Any] = {  # of run.json: what people are told of; the rest is only passed on
    "scenario": str, "seed": int, "nodes": int, "backend": str, "expect": dict, "defect": str | None,
    "command": str | None, "commit": str | None, "dump": str | None, "outcome": str,
}  # fmt: skip


class RunFolder:
    """`results/<scenario>/<utc-time>-<seed>/`, made by `create`, found again by `find`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    def file(self, *parts: str) -> Path:
        """A path inside the folder."""
        return self.path.joinpath(*parts)

    def milestone(self, event: str, **fields: Any) -> None:
        """Append one line to harness.jsonl, with the time at which it is written."""
        line = json.dumps({"t": time.monotonic_ns(), "event": event, **fields})
        with self.file("harness.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def write_run(self, facts: dict[str, Any]) -> None:
        """Write run.json whole or not at all, so that a reader never sees half of it."""
        write_whole(self.file("run.json"), json.dumps(facts, indent=2, ensure_ascii=False) + "\n")

    def read_run(self) -> dict[str, Any]:
        """What run.json says; empty if there is none or it is not readable. What has another type than it is documented to
        have is left out: somebody has edited it."""
        facts = read_json(self.file("run.json"))
        return {key: value for key, value in facts.items() if isinstance(value, FACTS.get(key, object))}

    def read_verdict(self) -> Verdict | None:
        """What verdict.json says; None if there is none, or what is there is none."""
        try:
            return msgspec.json.decode(self.file("verdict.json").read_bytes(), type=Verdict)
        except (OSError, *UNREADABLE):
            return None

    def lines(self, name: str, kind: Any = dict[str, Any]) -> Iterator[Any]:
        """The lines of one of the folder's .jsonl files that have the form of `kind`; an incomplete last one is left out.
        What else is there is for a judge to tell (`zab_chaos.model.runfiles`)."""
        decoder = msgspec.json.Decoder(kind)
        try:
            with self.file(name).open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        with suppress(*UNREADABLE):
                            yield decoder.decode(line)
        except OSError:
            return

    def store(self, verdict: Verdict, *, keep_data: bool, faults_due: int = 0) -> None:
        """The run is over and judged: its verdict, then its manifest, after which nothing is written any more."""
        self.file("verdict.json").write_bytes(verdict.to_json())
        if verdict.verdict is Outcome.PASS and not keep_data:
            self.remove_disks()
        manifest.seal(self.path, faults_due)

    def remove_disks(self) -> None:
        """Remove what only a failed run is looked into for: the nodes' disks."""
        shutil.rmtree(self.file("data"), ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if the file is missing or is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@contextmanager
def private() -> Iterator[None]:
    """What is made meanwhile, by this process and by those that it starts, only its owner may read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def create(results: Path, scenario: str, seed: int) -> RunFolder:
    """Make the folder of a new run, for its owner only, and point `latest` at it. Raises HarnessError if nothing can be
    written there."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        path = _fresh(results / scenario, f"{stamp}-{seed}")
        for part in PARTS:
            path.joinpath(part).mkdir(mode=0o700)
        _point_latest(results, path)
    except OSError as error:
        raise HarnessError(
            f"the results folder {results} cannot be written: {error.strerror or error}\n"
            "Choose another one with --results DIR, or make this one writable."
        ) from error
    return RunFolder(path.resolve())


def _fresh(parent: Path, name: str) -> Path:
    """A folder that nobody else has: two runs of one seed in one second get different names."""
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
    """Move the `latest` link in one step; someone may be reading through it."""
    link = results / "latest"
    beside = results / f".latest.{os.getpid()}"
    beside.unlink(missing_ok=True)
    beside.symlink_to(run.relative_to(results))
    beside.replace(link)


def find(results: Path, name: str) -> RunFolder:
    """A stored run by its path, by its place under the results folder, or `latest`. Raises BadInput."""
    for path in (Path(name), results / name):
        if path.joinpath("run.json").is_file():
            return RunFolder(path.resolve())
    known = sorted(str(run.parent.relative_to(results)) for run in results.glob("**/run.json"))
    some = "\n".join(f"  {run}" for run in known[-5:]) or "  (none yet)"
    raise BadInput(f"no run at {name}: there is no run.json. The newest runs in {results}:\n{some}")
