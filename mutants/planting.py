"""Mutants: the hand-written ones of mutants/*/*.toml, and a copy of the source tree with one planted."""

import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ROOT = HERE.parent
HANDWRITTEN = tuple(sorted({path.parent.name for path in HERE.glob("*/*.toml")}))  # folders of hand-written mutants
PROCESSES = "processes"  # the one that is explored on real processes: the simulator does not run this code
HARNESS = "harness"  # the one of what explores and reports: only tests can catch its mutants
COPIED = ("zab_chaos", "node", "model", "faults", "harness", "pipeline", "scenarios", "pyproject.toml")


class Stale(Exception):
    """The file no longer has the place that the mutant changes, or has it more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A hand-written mutant: in `file`, the text `old` is replaced by `new`.

    `why`: how a programmer could come to write this. `equivalent`: if not empty, why no run can show a difference.
    """

    name: str
    room: str
    file: str
    old: str
    new: str
    why: str = ""
    equivalent: str = ""

    def text(self) -> str:
        """Return the text of the mutated file. Raises Stale."""
        content = (ROOT / self.file).read_text(encoding="utf-8")
        found = content.count(self.old)
        if found != 1:
            raise Stale(f"{self.name}: {self.file} has the text {found} times, it must be once")
        return content.replace(self.old, self.new)


def handwritten_mutants(*folders: str) -> list[Mutant]:
    """Return the mutants of these folders, file by file."""
    found = []
    for folder in folders:
        for path in sorted((HERE / folder).glob("*.toml")):
            for table in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
                found.append(Mutant(room=path.stem, **table))
    return found


@contextmanager
def planted_tree(file: str, text: str) -> Iterator[Path]:
    """Make a temporary copy of the source tree in which `file` contains `text`, and yield its path."""
    with TemporaryDirectory(prefix="zab-mutant-") as folder:
        tree = Path(folder)
        tree.chmod(0o755)  # some tests run it as another user
        for name in COPIED:
            if (ROOT / name).is_dir():
                # copytree keeps the modification times, so that compiled files stay valid
                shutil.copytree(ROOT / name, tree / name, symlinks=True)
            else:
                shutil.copy2(ROOT / name, tree / name)
        if (ROOT / ".cache").exists():
            (tree / ".cache").symlink_to(ROOT / ".cache")  # of downloaded programs
        (tree / file).write_text(text, encoding="utf-8")
        yield tree
