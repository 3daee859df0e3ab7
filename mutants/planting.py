"""A mutant: one place of one file, said in other words; and a copy of the tree with it."""

import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ROOT = HERE.parent
WRITTEN = tuple(sorted({path.parent.name for path in HERE.glob("*/*.toml")}))  # folders of hand-written ones
COPIED = ("zab_chaos", "node", "model", "faults", "harness", "scenarios", "pyproject.toml")


class Stale(Exception):
    """The file no longer has the place that the mutant changes, or has it more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """In `file`, `old` becomes `new`. `why`: how one could come to write it so. `equivalent`: why nobody can tell the
    difference, if nobody can."""

    name: str
    room: str
    file: str
    old: str
    new: str
    why: str = ""
    equivalent: str = ""

    def text(self) -> str:
        """The file with the mutant in it. Raises Stale."""
        content = (ROOT / self.file).read_text(encoding="utf-8")
        found = content.count(self.old)
        if found != 1:
            raise Stale(f"{self.name}: {self.file} has the text {found} times, it must be once")
        return content.replace(self.old, self.new)


def written(*folders: str) -> list[Mutant]:
    """Those of these folders, file by file."""
    found = []
    for folder in folders:
        for path in sorted((HERE / folder).glob("*.toml")):
            for table in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
                found.append(Mutant(room=path.stem, **table))
    return found


@contextmanager
def planted(file: str, text: str) -> Iterator[Path]:
    """A tree in which `file` holds `text`, for as long as it is needed."""
    with TemporaryDirectory(prefix="zab-mutant-") as folder:
        tree = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, tree / name, symlinks=True
                )  # with the times, so that what is compiled stays valid
            else:
                shutil.copy2(ROOT / name, tree / name)
        (tree / file).write_text(text, encoding="utf-8")
        yield tree
