"""What the JVM makes of Spark's classes, kept for the next session.

A session loads some twenty thousand classes from 250 archives, and a call that judges one small run would be a third of its
time at that. Java can write down what it has made of them when it ends ("dynamic class data sharing", JEP 350), and a later
one maps that file instead. An archive that does not fit (another Java, other jars) is ignored by Java; so it is named after them.
"""

import hashlib
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"  # Java says on stdout what it can't use, and that is ours


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of one session in `folder`. One that is there is used; else the session makes `made` when it ends, some 190 MB.

    The name ends with the size: Java dies of an archive that is not whole.
    """

    folder: Path
    key: str
    made: Path

    @property
    def options(self) -> str:
        """What Java must be told."""
        whole = [it for it in self.folder.glob(f"{self.key}-*.jsa") if it == self._named(it)]
        what = f"SharedArchiveFile={whole[0]}" if whole else f"ArchiveClassesAtExit={self.made}"
        return f'"-XX:{what}" {_QUIET}'

    def keep(self) -> None:
        """Move what the session has made to where the next one looks, in place of those that fit no more. What can't be kept
        is made again."""
        if not self.made.is_file():
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            beside = self.folder / f"{self.made.parent.name}.part"
            try:
                shutil.copyfile(self.made, beside)  # perhaps to another file system
                kept = beside.replace(self._named(beside))
            finally:
                beside.unlink(missing_ok=True)
            for other in self.folder.glob("*.jsa"):
                if other != kept:
                    other.unlink()

    def _named(self, file: Path) -> Path:
        return self.folder / f"{self.key}-{file.stat().st_size}.jsa"


def of(folder: Path, place: Path, java: str) -> Archive:
    """The archive in `folder` for this Java (`java -version`) and these jars; one that is made is made in `place`."""
    jars = Path(pyspark.__file__).parent / "jars"
    told = f"{java} {jars} {jars.stat().st_mtime_ns} {pyspark.__version__}"
    return Archive(folder, hashlib.sha256(told.encode()).hexdigest()[:16], place / "classes.jsa")
