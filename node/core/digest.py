"""Digests of single transactions and running digests of committed histories (LADIS 2008, section 2).

A transaction's digest has 64 bits, so two different transactions do not share one by accident. A node computes it once and
uses it twice: in the trace and in the running digest. The running digest folds (zxid, digest) pairs: two nodes that
delivered the same transactions in the same order have the same one.

All nodes of an ensemble use one algorithm, for transactions and for the tree. It is a setting (`NodeConfig.digest`).
Ensembles made before the setting existed use BLAKE2b. XXH3 takes a twentieth of the time for 1 KiB. The digests guard
against accidents, not attacks: anyone can make two transactions with the same XXH3 digest, and with BLAKE2b in 2**32 tries.
"""

import hashlib
from array import array
from binascii import unhexlify
from collections.abc import Callable, Iterable
from functools import lru_cache
from sys import byteorder
from typing import Literal

from xxhash import xxh3_64_intdigest

_MASK = 2**64 - 1
_PRIME = 0x100000001B3
EMPTY = 0xCBF29CE484222325  # the digest of an empty history
DIGITS = 16  # hexadecimal digits of one digest
_HEXADECIMAL = b"0123456789abcdef"


Algorithm = Literal["blake2b", "xxh3"]
Hash = Callable[[bytes], int]  # 0 .. 2**64 - 1
NEWEST: Algorithm = "xxh3"  # for new ensembles


def blake2b(data: bytes) -> int:
    """Return 64 bits of BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


HASHES: dict[Algorithm, Hash] = {"blake2b": blake2b, "xxh3": xxh3_64_intdigest}


def fold(digest: int, zxid: int, txn: int) -> int:
    """Return the running digest after one more delivered transaction, whose own digest is `txn`."""
    return ((digest ^ zxid) * _PRIME ^ txn) * _PRIME & _MASK


def fold_all(digest: int, first: int, txns: Iterable[int]) -> list[int]:
    """Return the running digest after each of the transactions `first`, `first + 1`, ... with the digests `txns`."""
    found, zxid = [], first
    for txn in txns:
        digest = ((digest ^ zxid) * _PRIME ^ txn) * _PRIME & _MASK  # as `fold`
        found.append(digest)
        zxid += 1
    return found


def show(digest: int) -> str:
    """Return the digest as 16 hexadecimal digits, the form that traces use."""
    return digest.to_bytes(8, "big").hex()


def count(text: str) -> int:
    """Return how many digests a text written by `show_all` has."""
    return len(text) // DIGITS


def show_all(digests: list[int]) -> str:
    """Return the digests of consecutive transactions as traces write them, `DIGITS` digits each."""
    if len(digests) == 1:  # the usual case under a light load
        return show(digests[0])
    numbers = array("Q", digests)
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes().hex()


def is_shown(text: str) -> bool:
    """Return whether `show` or `show_all` could have written the text."""
    return len(text) % DIGITS == 0 and text.isascii() and not text.encode().translate(None, _HEXADECIMAL)


@lru_cache(maxsize=256)
def read_all(text: str) -> "array[int]":
    """Return the digests in a text that `show_all` wrote. Raises ValueError if it does not have `DIGITS` digits for each.

    The result is remembered and must not be changed: all nodes accept and deliver the transactions that one has broadcast.
    """
    numbers = array("Q", unhexlify(text))
    if byteorder == "little":
        numbers.byteswap()
    return numbers
