"""Digests: of one transaction's bytes, and running over a committed history (LADIS 2008, section 2).

A transaction's digest has 64 bits: two different transactions do not share one by accident. It is computed once in a node
and used twice: in the trace, and here. The running digest folds (zxid, digest) pairs, so two nodes that delivered the same
transactions in the same order have the same one.

All nodes of an ensemble use one algorithm, for transactions and for the tree. It is a setting (`NodeConfig.digest`), and
what was made before there was a choice used BLAKE2b. XXH3 takes a twentieth of the time for 1 KiB. It guards against
accidents only: who wants to can make two transactions that share a digest, with BLAKE2b not for less than 2**32 tries.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable
from sys import byteorder
from typing import Literal

from xxhash import xxh3_64_intdigest

_MASK = 2**64 - 1
_PRIME = 0x100000001B3
EMPTY = 0xCBF29CE484222325  # the digest of an empty history
DIGITS = 16  # hexadecimal ones of a digest
_HEXADECIMAL = b"0123456789abcdef"


Algorithm = Literal["blake2b", "xxh3"]
Hash = Callable[[bytes], int]  # 0 .. 2**64 - 1
NEWEST: Algorithm = "xxh3"  # what a new ensemble gets


def blake2b(data: bytes) -> int:
    """64 bits of BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


HASHES: dict[Algorithm, Hash] = {"blake2b": blake2b, "xxh3": xxh3_64_intdigest}


def fold(digest: int, zxid: int, txn: int) -> int:
    """The running digest after one more delivered transaction: `txn` is that one's digest."""
    return ((digest ^ zxid) * _PRIME ^ txn) * _PRIME & _MASK


def fold_all(digest: int, first: int, txns: Iterable[int]) -> list[int]:
    """The running digest after each of some more transactions, with the zxids `first`, `first + 1`, ..."""
    found = []
    for zxid, txn in enumerate(txns, first):
        digest = ((digest ^ zxid) * _PRIME ^ txn) * _PRIME & _MASK  # as `fold`
        found.append(digest)
    return found


def show(digest: int) -> str:
    """16 hexadecimal digits: how traces write a 64-bit digest."""
    return digest.to_bytes(8, "big").hex()


def count(text: str) -> int:
    """How many digests a text of `show_all` has."""
    return len(text) // DIGITS


def show_all(digests: list[int]) -> str:
    """`DIGITS` for each: how traces write the digests of consecutive transactions."""
    if len(digests) == 1:  # as most are when little is asked for
        return show(digests[0])
    numbers = array("Q", digests)
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes().hex()


def is_shown(text: str) -> bool:
    """Whether the text is of the form that `show` and `show_all` write."""
    return len(text) % DIGITS == 0 and text.isascii() and not text.encode().translate(None, _HEXADECIMAL)


def read_all(text: str) -> "array[int]":
    """The other way round. Raises ValueError if the text is not `DIGITS` for each."""
    if len(text) == DIGITS:
        return array("Q", (int(text, 16),))
    numbers = array("Q")
    numbers.frombytes(bytes.fromhex(text))
    if byteorder == "little":
        numbers.byteswap()
    return numbers
