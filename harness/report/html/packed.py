"""Columns of whole numbers and lists of words, as one text that a page can carry: small, and quickly read by its script.

Layout before deflate and base64: the length of a JSON head as four bytes, the head, then the columns one after the other.
A column's numbers are little-endian, and its bytes lie in planes: all lowest bytes first, then all next ones, because the
higher ones are nearly all alike. `assets/data.js` reads it.
"""

import sys
import zlib
from array import array
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

SMALL = 2**31


def pack(columns: Mapping[str, Sequence[int]], words: Mapping[str, Sequence[str]]) -> str:
    """`columns`: by name; what fits into 32 bits is written so, the rest as a double. `words`: by name, as they are."""
    planes, head = [], []
    for name, values in columns.items():
        code = "i" if not values or (min(values) >= -SMALL and max(values) < SMALL) else "d"
        column = array(code, values)
        if sys.byteorder == "big":
            column.byteswap()
        data = column.tobytes()
        head.append((name, code, len(values)))
        planes += [data[plane :: column.itemsize] for plane in range(column.itemsize)]
    said = msgspec.json.encode({"columns": head, "words": words})
    return urlsafe_b64encode(zlib.compress(b"".join([len(said).to_bytes(4, "little"), said, *planes]))).decode()


def differences(values: Sequence[int]) -> list[int]:
    """Each as the difference to the one before, the first to 0."""
    return [after - before for before, after in pairwise([0, *values])]
