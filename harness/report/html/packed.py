"""Packs columns of whole numbers and lists of words into one text for a page: small, and fast to read for its script.

Layout before deflate and base64: the length of a JSON head (four bytes), the head, then the columns one after the other.
A column's numbers are little-endian, and its bytes are arranged in planes: first all lowest bytes, then all next ones. The
higher bytes are nearly all equal, so this compresses well. `assets/exchange.js` unpacks it.
"""

import sys
import zlib
from array import array
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import msgspec


def pack(columns: Mapping[str, Iterable[int]], words: Mapping[str, Sequence[str]]) -> str:
    """Pack columns and words, each with a name. A column is written as 32-bit integers if they suffice, else as doubles.

    The columns are read one after the other, and the words after them: reading a column may add to them.
    """
    packed = {name: _narrow(values) for name, values in columns.items()}
    head = [(name, column.typecode, len(column)) for name, column in packed.items()]
    said = msgspec.json.encode({"columns": head, "words": words})
    zipper = zlib.compressobj()
    parts = [zipper.compress(len(said).to_bytes(4, "little")), zipper.compress(said)]
    for column in packed.values():
        if sys.byteorder == "big":
            column.byteswap()
        data = column.tobytes()
        parts += [zipper.compress(data[plane :: column.itemsize]) for plane in range(column.itemsize)]
    return urlsafe_b64encode(b"".join([*parts, zipper.flush()])).decode()


def _narrow(values: Iterable[int]) -> "array[int] | array[float]":
    """Return a column as 32-bit integers if they suffice, else as doubles."""
    column, rest = array("i"), iter(values)
    for value in rest:
        try:
            column.append(value)
        except OverflowError:
            return array("d", chain(column, [value], rest))
    return column


def differences(values: Iterable[int]) -> Iterator[int]:
    """Return the difference of each value to the one before; the first value's to 0."""
    return (after - before for before, after in pairwise(chain([0], values)))
