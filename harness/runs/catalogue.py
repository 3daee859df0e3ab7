"""Finds scenarios: those that are shipped, by name, and any other file by its path."""

from collections.abc import Iterable
from pathlib import Path

from zab_chaos.harness.errors import BadInput, did_you_mean
from zab_chaos.harness.machine import checkout


def folder() -> Path:
    """Return the folder of the shipped scenarios: inside the installed package, or beside it in a checkout."""
    installed = checkout.PACKAGE / "scenarios"
    return installed if installed.is_dir() else checkout.PACKAGE.parent / "scenarios"


def shipped() -> dict[str, Path]:
    """Return the file of each shipped scenario, by name and sorted. A defect's scenario is named `defects/<name>`."""
    root = folder()
    files = sorted(root.rglob("*.toml"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in files}


def find(name: str) -> Path:
    """Return the file of a shipped scenario, or the path itself if it is a file. Raises BadInput with suggestions."""
    known = shipped()
    if name in known:
        return known[name]
    if Path(name).is_file():
        return Path(name)
    if name and Path(name).is_dir():
        raise BadInput(f"{name} is a folder, not a scenario file. Give one file, or a name that `zab scenarios` lists.")
    if name and Path(name).exists():
        raise BadInput(f"{name} is a pipe or a device. Write the scenario to a file, so that the run can be repeated.")
    own = (path.as_posix() for path in Path(name).parent.glob("*.toml"))
    named = " or ".join(_in_folders(name, known))
    other = f"Did you mean {named}?" if named else "`zab scenarios` lists those that are included."
    hint = did_you_mean(name, [*known, *own], other)
    if name.endswith(".toml") or "/" in name:
        raise BadInput(f"no scenario file at {name}. {hint}")
    raise BadInput(f"no scenario is called {name!r}. {hint}")


def _in_folders(name: str, known: Iterable[str]) -> list[str]:
    """Return the scenarios that have this name in a folder."""
    return [one for one in known if one.rpartition("/")[2] == without_project(name)]


def without_project(name: str) -> str:
    """Return the name of a ticket as the scenario that shows it has it: ZOOKEEPER-4643 is `4643`."""
    return name.upper().removeprefix("ZOOKEEPER-").lower()
