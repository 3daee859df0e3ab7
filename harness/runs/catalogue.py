"""Finds scenarios by name: the shipped ones, or any file by its path."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.machine import checkout


def folder() -> Path:
    """Where the shipped scenarios lie: inside the installed package, or beside it in a checkout."""
    installed = checkout.PACKAGE / "scenarios"
    return installed if installed.is_dir() else checkout.PACKAGE.parent / "scenarios"


def shipped() -> dict[str, Path]:
    """Name to file, sorted; a defect's scenario is named `defects/<name>`."""
    root = folder()
    files = sorted(root.rglob("*.toml"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in files}


def find(name: str) -> Path:
    """The file of a shipped scenario, or the path itself if it is a file. Raises BadInput with suggestions."""
    known = shipped()
    if name in known:
        return known[name]
    if Path(name).is_file():
        return Path(name)
    if name.endswith(".toml") or "/" in name:
        raise BadInput(f"no scenario file at {name}. {did_you_mean(name, known)}")
    raise BadInput(f"no scenario is called {name!r}. {did_you_mean(name, known)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest names, or all of them when none is near."""
    names = sorted(known)
    stem = Path(name).stem if name.endswith(".toml") else name
    near = difflib.get_close_matches(stem, names, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Known: {', '.join(names) or '(none)'}."
