"""A reader for the files of a run's folder: it yields typed records, and reports what is unreadable with file and line."""

import re
from collections.abc import Callable, Iterator
from heapq import merge
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zab_chaos.model.events import (
    TRACE_FOLDER,
    UNREADABLE,
    Event,
    FinalZnode,
    Heal,
    Inject,
    Line,
    Milestone,
    Run,
    SessionEvent,
    event_from_json,
    operation_from_json,
    trace_name,
)
from zab_chaos.model.oracle.facts import Damage

BLOCK_BYTES = 2**15  # that are read from a file at once
OnRead = Callable[[int], None]  # called with the number of bytes that were read since its last call
_L = TypeVar("_L", bound=Line)

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "ops.jsonl": operation_from_json,
    "faults.jsonl": msgspec.json.Decoder(Inject | Heal).decode,
    "harness.jsonl": msgspec.json.Decoder(Milestone).decode,
    "sessions.jsonl": msgspec.json.Decoder(SessionEvent).decode,
    "tree.jsonl": msgspec.json.Decoder(FinalZnode).decode,
}
_OF_ONE_PROCESS = frozenset({"faults.jsonl", "harness.jsonl"})  # the harness writes them in order of time


def unheard(_count: int) -> None:
    """Take no notice of what was read."""


class NotARun(Exception):
    """The folder has no run that can be judged. The text says what to do."""


def read_run(folder: Path) -> Run:
    """Read run.json. Raises NotARun."""
    path = folder / "run.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise NotARun(
            f"{path} can't be read ({error.strerror}); give the folder of one run, with its run.json"
        ) from error
    except UNREADABLE as error:
        raise NotARun(f"{path} does not describe a run: {error}") from error


def lives_in(folder: Path, suffix: str) -> list[tuple[int, int]]:
    """Return (node, life) of each file in a folder that is of one life, `node-N-L.suffix`, ascending.

    A file with larger numbers than a run can have is somebody else's: the lives before it would all be missing.
    """
    name = re.compile(rf"node-([0-9]{{1,5}})-([0-9]{{1,5}})\.{suffix}")
    matches = (name.fullmatch(path.name) for path in folder.glob("node-*"))
    return sorted((int(match[1]), int(match[2])) for match in matches if match is not None)


def decoder(name: str) -> Callable[[bytes], Any]:
    """Return the function that decodes one line of the file `name` (relative to the run's folder), which may be a trace.

    The function raises msgspec.MsgspecError for a line without the documented form.
    """
    return _DECODERS.get(name, event_from_json)


class RunReader:
    """Reads the files of one run's folder. `on_damage` is called for each place that can't be read."""

    def __init__(self, folder: Path, on_damage: Callable[[Damage], None], on_read: OnRead = unheard) -> None:
        self.folder = folder
        self._on_damage = on_damage
        self._on_read = on_read

    def events(self) -> Iterator[Event]:
        """Return all trace events of all nodes, merged by time, then node and life. The order within each life is kept."""
        streams = [self._trace(node, life) for node, life in self._lives()]
        return merge(*streams, key=lambda event: (event.t, event.node, event.life))

    def lines(self, name: str) -> Iterator[Any]:
        """Return the lines of the file `name`, which is no trace, as `decoder` makes them."""
        lines = self._lines(name)
        return self._ascending(lines) if name in _OF_ONE_PROCESS else lines

    def _lives(self) -> list[tuple[int, int]]:
        """Return the (node, life) that have a trace, ascending. Missing lives are damage."""
        lives = lives_in(self.folder / TRACE_FOLDER, "jsonl")
        last = dict(lives)  # the last life of each node
        known = {(node, life) for node in last for life in range(1, last[node])}
        for node, life in sorted(known - set(lives)):
            self._on_damage(Damage(trace_name(node, life), 0, "is missing", node))
        return lives

    def _trace(self, node: int, life: int) -> Iterator[Event]:
        for event in self._ascending(self._lines(trace_name(node, life), node), node):
            if (event.node, event.life) == (node, life):
                yield event
                continue
            what = f"is of node {event.node}, life {event.life}"
            self._on_damage(Damage(trace_name(node, life), event.line, what, node))

    def _ascending(self, lines: Iterator[_L], node: int | None = None) -> Iterator[_L]:
        """Pass on the lines of one process. Their times must ascend."""
        latest = 0
        for line in lines:
            if line.t < latest:
                self._on_damage(Damage(line.file, line.line, "is earlier than the line before it", node))
            latest = max(latest, line.t)
            yield line

    def _lines(self, name: str, node: int | None = None) -> Iterator[Any]:
        """Read each line of a file. An incomplete last line is damage, which a kill excuses."""
        decode = decoder(name)
        for number, text in enumerate(self._texts(name, node), 1):
            try:
                line = decode(text)
            except UNREADABLE as error:
                complete = text.endswith(b"\n")
                why = f"is not readable: {error}" if complete else "is incomplete, and nothing says that it was killed"
                self._on_damage(Damage(name, number, why, node, excusable=not complete))
                continue
            line.line = number
            yield line

    def _texts(self, name: str, node: int | None) -> Iterator[bytes]:
        """Read the lines of a file, none if it does not exist. One that can't be read is damage.

        Between two blocks the file is closed: a long run has more lives than a process may have open files.
        """
        at, lines = 0, [b""]
        try:
            while lines:
                with (self.folder / name).open("rb") as file:
                    file.seek(at)
                    lines = file.readlines(BLOCK_BYTES)
                    before, at = at, file.tell()
                self._on_read(at - before)
                yield from lines
        except FileNotFoundError:
            return
        except OSError as error:
            self._on_damage(Damage(name, 0, f"can't be read: {error.strerror}", node))
