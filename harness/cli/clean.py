"""`zab clean`: remove what killed runs left on the container engine and in the file system."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from zab_chaos.harness.backends.processes import stale_files
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import Exit, HarnessError
from zab_chaos.harness.extras import MissingExtra, extra
from zab_chaos.harness.report.console import say

if TYPE_CHECKING:
    from zab_chaos.harness.backends.containers.leftovers import RunOnEngine


def clean_command(results: Path, *, everything: bool, json: bool) -> int:
    """Remove what killed runs have left, and print what was removed. Raises HarnessError.

    `everything`: also remove what runs of other machines, or runs before a reboot, have left on the container engine.
    """
    console = console_for(json=json)
    files = [str(path) for path in stale_files.remove_stale_files(results)]
    removed, kept = _clean_engine(everything, console)
    named = [path for path in files if not path.endswith(".lock")]
    for path in named:
        say(console, f"removed {path}")
    if len(files) > len(named):
        say(console, f"removed the locks of {len(files) - len(named)} ports")
    for folder, names in removed.items():
        say(console, f"removed {', '.join(names)}, left by the run {folder}")
    for left in kept:
        say(console, f"kept the resources of the run {left.folder}: {_why_kept(left)}")
    if not files and not removed:
        say(console, "nothing to remove")
    if json:
        print_json({"files": files, "removed": removed, "kept": [left.folder for left in kept]})
    return Exit.PASS


def _clean_engine(everything: bool, console: Console) -> tuple[dict[str, list[str]], list["RunOnEngine"]]:
    """Clean the container engine, if there is one. Return the removed names by run folder, and the runs that were kept."""
    removed: dict[str, list[str]] = {}
    kept: list[RunOnEngine] = []
    try:
        with extra("containers", "cleaning up containers"):
            from zab_chaos.harness.backends.containers import engine, leftovers
    except MissingExtra as error:
        say(console, f"the container engine was not checked: {error}", "dim")
        return removed, kept
    try:
        with contextlib.closing(engine.connect()) as client:
            for left in leftovers.runs(client):
                if left.over or (everything and not left.ours):
                    removed[left.folder] = leftovers.remove(client, left.token)
                else:
                    kept.append(left)
    except HarnessError as error:
        if os.environ.get("DOCKER_HOST") or Path(engine.STANDARD.removeprefix("unix://")).exists():
            raise
        say(console, f"the container engine was not checked: {error}", "dim")
    return removed, kept


def _why_kept(left: "RunOnEngine") -> Any:
    if left.ours:
        return "it is still running"
    return "it was started on another machine, or before this one was rebooted; if it is over, --all removes it"
