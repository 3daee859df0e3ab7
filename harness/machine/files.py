"""Looking for files in folders that others change at the same time."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path


def below(root: Path, names: Collection[str]) -> Iterator[Path]:
    """The files of these names at any depth below `root`. Folders that go meanwhile are passed over, where `Path.glob` would
    raise; links to folders are not followed."""
    for folder, _, found in os.walk(root):
        yield from (Path(folder, name) for name in found if name in names)
