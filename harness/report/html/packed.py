"""Packs columns of whole numbers and lists of words into one text for a page: small, and fast to read for its script.

Layout before deflate and base64: the length of a JSON head (four bytes), the head, then the columns one after the other.
A column's numbers are little-endian, and its bytes are arranged in planes: first all lowest bytes, then all next ones. The
higher bytes are nearly all equal, so this compresses well. `assets/exchange.js` unpacks it.
"""

import sys
import zlib
from array import array
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

INT32_LIMIT = 2**31


def pack(columns: Mapping[str, Sequence[int]], words: Mapping[str, Sequence[str]]) -> str:
    """Pack columns and words, each with a name. A column is written as 32-bit integers if they suffice, else as doubles."""
    planes, head = [], []
    for name, values in columns.items():
        code = "i" if not values or (min(values) >= -INT32_LIMIT and max(values) < INT32_LIMIT) else "d"
        column = array(code, values)
        if sys.byteorder == "big":
            column.byteswap()
        data = column.tobytes()
        head.append((name, code, len(values)))
        planes += [data[plane :: column.itemsize] for plane in range(column.itemsize)]
    said = msgspec.json.encode({"columns": head, "words": words})
    return urlsafe_b64encode(zlib.compress(b"".join([len(said).to_bytes(4, "little"), said, *planes]))).decode()


def differences(values: Sequence[int]) -> list[int]:
    """Return the difference of each value to the one before; the first value's to 0."""
    return [after - before for before, after in pairwise([0, *values])]
