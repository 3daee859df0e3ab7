"""Where a re-execution and its record part, in words."""

from itertools import zip_longest

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.model.replay import descriptions as words
from zab_chaos.node.core.ready import Ready
from zab_chaos.node.recording import content, ready_from


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where re-execution and record part: `expected` is what was recorded, `got` what the model makes of the same inputs.

    `input` counts the life's inputs from 1 (its boot); `event` is the number of the last trace event that was still
    equal; `place` is a line of a trace, or a byte offset in a recording. `inputs` are the last ones, in words.
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
        said = f"; recorded: {self.expected}; re-executed: {self.got}" if self.expected or self.got else ""
        return (
            f"node {self.node}, life {self.life}, input {self.input}, after event {self.event} "
            f"({self.file}, {where}): {self.what}{said}"
        )


class Different(Exception):
    """Found one; `line` of the trace, if it is there."""

    def __init__(self, what: str, expected: str = "", got: str = "", line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.got = got
        self.line = line


def record_name(node: int, life: int) -> str:
    return f"record/node-{node}-{life}.bin"


def of_output(expected: bytes | tuple[int, int], ready: Ready | None) -> Different:
    """How an answer differs: the first obligation that does, or, of a large one, its size and checksum."""
    if isinstance(expected, tuple):
        data = content(ready)
        got = data if isinstance(data, tuple) else (len(data), crc32(data))
        return Different("an output differs", _size(expected), f"{_size(got)}: {_list(ready)}")
    recorded = ready_from(expected)
    then: list[tuple[str, ...]] = [*words.obligations(recorded)]
    now: list[tuple[str, ...]] = [*words.obligations(ready)]
    for one, other in zip_longest(then, now, fillvalue=("nothing",)):
        if one != other:
            return Different("an output differs", ": ".join(one), ": ".join(other))
    return Different("an output differs in its details", repr(recorded), repr(ready))


def _size(value: tuple[int, int]) -> str:
    return f"{value[0]} bytes with CRC-32 {value[1]:08x}"


def _list(ready: Ready | None) -> str:
    return ", ".join(f"{kind} {said}" for kind, said in words.obligations(ready)) or "nothing"
