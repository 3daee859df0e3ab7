"""What is known of a run's file, and how Spark names files and takes their names."""

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

FILE = r"(?:run\.json|ops\.jsonl|faults\.jsonl|harness\.jsonl|trace/node-\d+-\d+\.jsonl)"
LOCAL = ("^file:/+", "file:///")  # Spark has file:/x as well as file:///x: what to replace by what
_PATH = "/-_.!~'()*:@&=+$,;"  # what Java leaves as it is in the path of a URI, besides letters and digits


@dataclass(frozen=True, slots=True)
class File:
    """One file of a run. `path` is as Spark names it (a URI, percent-encoded)."""

    path: str
    name: str  # relative to the run's folder
    size: int
    modified: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a file: its SHA-256, whether its last line has an end, the text of a run.json, and the number of lines if
    somebody counted them."""

    digest: str
    whole: bool
    text: str | None
    lines: int | None = None


NOTHING = Contents(sha256().hexdigest(), whole=True, text=None, lines=0)


def uri(path: str) -> str:
    """An absolute path of this machine as Spark names it: percent-encoded, but for what is not ASCII and can be seen."""
    return "file://" + "".join(one if one > "~" and one.isprintable() else quote(one, _PATH) for one in path)


def named(uri: str) -> str:
    """A URI that Spark gave as `uri` gives it."""
    return re.sub(*LOCAL, uri)


def path_of(uri: str) -> Path:
    """The path of a `file:` URI as Spark names it."""
    return Path(readable(unquote(uri)))


def locate(place: str) -> str:
    """A place with its file system: without one it is on this machine, whatever the cluster's default is."""
    return place if re.match(r"[a-z][a-z0-9+.-]*:/", place) else f"file://{Path(place).absolute()}"


def readable(root: str) -> str:
    """A folder as people write it."""
    return re.sub(LOCAL[0], "/", root)


def as_pattern(path: str) -> str:
    """A file's URI as something that Spark, which reads patterns, takes literally."""
    return literally(unquote(path))


def located(folder: str) -> str:
    """A run's folder, as `runs.path` has it, as something that Spark reads."""
    return literally(locate(folder))


def is_pattern(place: str) -> bool:
    """Whether a place may stand for several."""
    return bool(set(place) & set("\\[]{}*?"))


def literally(path: str) -> str:
    """A path as a pattern that nothing but this path matches."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)
