"""Random edits of files in a stored run's folder, as accidents or a person could make them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

Edit = Callable[[bytes, Random], bytes]


def flip_a_bit(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


def cut_a_line(content: bytes, random: Random) -> bytes:
    """Cut off the end of one line."""
    lines = content.splitlines(keepends=True)
    number = random.randrange(len(lines))
    lines[number] = lines[number][: random.randrange(len(lines[number]))]
    return b"".join(lines)


def remove_a_line(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[random.randrange(len(lines))]
    return b"".join(lines)


def swap_two_lines(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def duplicate_a_line(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    number = random.randrange(len(lines))
    lines.insert(number, lines[number])
    return b"".join(lines)


def truncate(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


EDITS: tuple[Edit, ...] = (flip_a_bit, cut_a_line, remove_a_line, swap_two_lines, duplicate_a_line, truncate)


def says(name: str, content: bytes) -> object:
    """Return the content of a file in a form that is equal for files of JSON lines that differ only in blanks."""
    if not name.endswith(".jsonl"):
        return content
    said: list[object] = []
    for line in content.split(b"\n"):
        try:
            said.append(json.loads(line) if line else None)
        except ValueError:
            said.append(line)
    return [it for it in said if it is not None]


@contextmanager
def edited(path: Path, name: str, random: Random, *, delete: bool = True) -> Iterator[str | None]:
    """Apply one edit to a file, and undo it afterwards. Yield the edit's name; None if the content is the same as before."""
    before = path.read_bytes()
    edit = random.choice([*EDITS, None] if delete else EDITS)
    if edit is None or not before:
        path.unlink()
        what: str | None = "delete"
    else:
        after = edit(before, random)
        path.write_bytes(after)
        what = edit.__name__ if says(name, after) != says(name, before) else None
    try:
        yield what
    finally:
        path.write_bytes(before)
