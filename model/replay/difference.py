"""A difference between a re-execution and its recording, with a description of where it is and what was expected."""

from itertools import zip_longest

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.model.replay import descriptions as words
from zab_chaos.node.core.ready import Ready
from zab_chaos.node.recording import decode_ready, encode_ready


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference of a life: `expected` was recorded, `got` came out of the re-execution.

    `input` counts the life's inputs from 1 (its boot). `event` is the number of the last trace event that was equal. `place` is
    a line of a trace, or a byte offset in a recording. `inputs` describes the inputs before the difference.
    """

    node: int
    life: int
    input: int
    event: int
    what: str
    expected: str
    got: str
    file: str
    place: int
    inputs: list[str]

    def __str__(self) -> str:
        where = f"line {self.place}" if self.file.endswith("jsonl") else f"offset {self.place}"
        values = f"; recorded: {self.expected}; re-executed: {self.got}" if self.expected or self.got else ""
        return (
            f"node {self.node}, life {self.life}, input {self.input}, after event {self.event} "
            f"({self.file}, {where}): {self.what}{values}"
        )


class DifferenceFound(Exception):
    """Raised when a difference is found. `line`: its line in the trace, or None if it is in the recording."""

    def __init__(self, what: str, expected: str = "", got: str = "", line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.got = got
        self.line = line


def record_name(node: int, life: int) -> str:
    return f"record/node-{node}-{life}.bin"


def output_difference(expected: bytes | tuple[int, int], ready: Ready | None) -> DifferenceFound:
    """Describe how an answer of the core differs: by its first different obligation or, if it is large, by size and checksum.

    `expected`: the recorded answer, or its (size, CRC-32).
    """
    if isinstance(expected, tuple):
        data = encode_ready(ready)
        got = data if isinstance(data, tuple) else (len(data), crc32(data))
        return DifferenceFound("an output differs", _size(expected), f"{_size(got)}: {_list(ready)}")
    recorded = decode_ready(expected)
    before: list[tuple[str, ...]] = [*words.obligations(recorded)]
    now: list[tuple[str, ...]] = [*words.obligations(ready)]
    for one, other in zip_longest(before, now, fillvalue=("nothing",)):
        if one != other:
            return DifferenceFound("an output differs", ": ".join(one), ": ".join(other))
    return DifferenceFound("an output differs in its details", repr(recorded), repr(ready))


def _size(value: tuple[int, int]) -> str:
    return f"{value[0]} bytes with CRC-32 {value[1]:08x}"


def _list(ready: Ready | None) -> str:
    return ", ".join(f"{kind} {description}" for kind, description in words.obligations(ready)) or "nothing"
