"""Reads a run's folder for reports. Lines that can't be read are noted with file and number, and the others are read.

The oracle's reader (`zab_chaos.model.runfiles`) reads only what is judged. A report also needs the words (`why`, `detail`),
and must be possible for runs that can't be judged any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from zab_chaos.model.events import UNREADABLE
from zab_chaos.model.runfiles import OnRead, unheard

DAMAGES_MAX = 50  # damaged places that are listed; a file of garbage has a million
Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]  # a time, an id or a count; a greater number is damage
L = TypeVar("L")


class Timed(msgspec.Struct, kw_only=True):
    """Any line of a run's folder. `t`: nanoseconds of the host's monotonic clock."""

    t: Number


class TraceLine(Timed, kw_only=True):
    """The fields of a trace event that reports show (results/README.md)."""

    event: str
    role: str = ""
    leader: int | None = None
    why: str = ""
    phase: str = ""
    epoch: Number = 0
    disk: str = ""
    first: Number = 0
    digests: str = ""
    keep: tuple[int, int] = (0, 0)
    last: Any = None
    followed_by: Any = None
    last_zxid: Any = None
    zxid: Any = None
    kind: str = ""
    state: str = ""
    do: str = ""
    detail: str = ""


class OperationLine(Timed, kw_only=True):
    """A line of ops.jsonl: `invoke` has `due` and `op`, `complete` has `outcome`. `client` is any number of 64 bits."""

    type: str
    client: Annotated[int, msgspec.Meta(ge=0)]
    seq: Number
    node: Number = 0
    due: Number = 0
    op: str = ""
    outcome: str = ""
    error: str | None = None


class FaultLine(Timed, kw_only=True):
    """A line of faults.jsonl: the injection or the healing of a fault."""

    type: str
    id: Any
    do: str = ""
    target: Any = ""
    nodes: list[int] = []
    params: dict[str, Any] = {}
    pairs: list[tuple[int, int]] | None = None
    confirmed: bool | None = None
    evidence: Any = None


class MilestoneLine(Timed, kw_only=True):
    """A line of harness.jsonl."""

    event: str
    node: int = 0
    life: int = 0
    code: int | None = None
    release: str = ""  # of `release`

    @property
    def words(self) -> str:
        return f"node {self.node}: release {self.release}" if self.event == "release" else self.event


@dataclass(frozen=True, slots=True)
class UnreadablePlace:
    """A place that can't be read. `line` counts from 1; 0 means the whole file."""

    file: str
    line: int
    why: str


class Source:
    """Reads the files of a run's folder.

    `damages`: the unreadable places found so far, at most DAMAGES_MAX; `more`: the number of those beyond that.
    """

    def __init__(self, folder: Path, on_read: OnRead = unheard) -> None:
        self.folder = folder
        self._on_read = on_read
        self.damages: list[UnreadablePlace] = []
        self.more = 0

    def lines(self, name: str, kind: type[L], *, may_be_cut: bool = False) -> Iterator[tuple[int, L]]:
        """Yield the number and the content of every readable line of a file; nothing if there is no such file.

        `may_be_cut`: the last line may be incomplete, because its writer was killed.
        """
        decoder = msgspec.json.Decoder(kind)
        try:
            with (self.folder / name).open("rb") as file:
                for number, text in enumerate(file, 1):
                    self._on_read(len(text))
                    line = self._decode(decoder, name, number, text, may_be_cut=may_be_cut)
                    if line is not None:
                        yield number, line
        except FileNotFoundError:
            return
        except OSError as error:
            self.damaged(name, 0, f"can't be read: {error.strerror}")

    def damaged(self, file: str, line: int, why: str) -> None:
        """Note a damaged place."""
        if len(self.damages) < DAMAGES_MAX:
            self.damages.append(UnreadablePlace(file, line, why))
        else:
            self.more += 1

    def _decode(
        self, decoder: msgspec.json.Decoder[L], name: str, number: int, text: bytes, *, may_be_cut: bool
    ) -> L | None:
        try:
            return decoder.decode(text)
        except UNREADABLE as error:
            complete = text.endswith(b"\n")
            if complete or not may_be_cut:
                self.damaged(name, number, f"is not readable: {error}" if complete else "is incomplete")
            return None
