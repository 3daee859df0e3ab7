"""Reading a run's folder for showing: whatever can be read is shown, whatever can't is named with file and line.

The judge's reader (`zab_chaos.model.runfiles`) keeps only what is judged; a picture also needs the words (`why`, `detail`),
and it must come out of runs that nobody can judge any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from zab_chaos.model.events import UNREADABLE

LISTED = 50  # places that are named; a file of garbage has a million
Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]  # a time, an id, a count: what is beyond it is none
L = TypeVar("L", bound="Timed")


class Timed(msgspec.Struct, kw_only=True):
    """Any line of a run's folder. `t`: nanoseconds of the host's monotonic clock."""

    t: Number


class TraceLine(Timed, kw_only=True):
    """A trace event, as far as it is shown (results/README.md)."""

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
    last_zxid: Any = None
    zxid: Any = None
    kind: str = ""
    state: str = ""
    do: str = ""
    detail: str = ""
    code: int = 0
    quorum: list[int] = []


class OperationLine(Timed, kw_only=True):
    """Half of an operation: `invoke` has `due` and `op`, `complete` has `outcome`. A session's number is any of 64 bits."""

    type: str
    client: Annotated[int, msgspec.Meta(ge=0)]
    seq: Number
    node: Number = 0
    due: Number = 0
    op: str = ""
    outcome: str = ""


class FaultLine(Timed, kw_only=True):
    """Half of a fault: `inject`, and later perhaps `heal`."""

    type: str
    id: Any
    do: str = ""
    target: Any = ""
    nodes: list[int] = []
    params: dict[str, Any] = {}
    pairs: list[tuple[int, int]] | None = None
    confirmed: bool | None = None


class MilestoneLine(Timed, kw_only=True):
    """A milestone of the harness."""

    event: str
    node: int = 0
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that can't be read. `line` counts from 1; 0 is the whole file."""

    file: str
    line: int
    why: str


class Source:
    """A run's folder. `damages` fills while it is read; `more` counts those beyond the ones that are listed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damages: list[Damage] = []
        self.more = 0

    def lines(self, name: str, kind: type[L], *, may_be_cut: bool = False) -> Iterator[tuple[int, L]]:
        """Number and content of every readable line of a file; none if there is no such file.

        `may_be_cut`: the last line may be incomplete, because its writer was killed.
        """
        decoder = msgspec.json.Decoder(kind)
        try:
            with (self.folder / name).open("rb") as file:
                for number, text in enumerate(file, 1):
                    line = self._decode(decoder, name, number, text, excused=may_be_cut)
                    if line is not None:
                        yield number, line
        except FileNotFoundError:
            return
        except OSError as error:
            self.damaged(name, 0, f"can't be read: {error.strerror}")

    def damaged(self, file: str, line: int, why: str) -> None:
        """Note one place."""
        if len(self.damages) < LISTED:
            self.damages.append(Damage(file, line, why))
        else:
            self.more += 1

    def _decode(
        self, decoder: msgspec.json.Decoder[L], name: str, number: int, text: bytes, *, excused: bool
    ) -> L | None:
        try:
            return decoder.decode(text)
        except UNREADABLE as error:
            whole = text.endswith(b"\n")
            if whole or not excused:
                self.damaged(name, number, f"is not readable: {error}" if whole else "is incomplete")
            return None
