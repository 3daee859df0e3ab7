"""Digests: of one transaction's bytes, and running over a committed history (LADIS 2008, section 2).

A transaction's digest is the CRC-32 of its bytes, computed once in a node and used three times: in the trace, in the
log record's checksum, and here. The running digest is a 64-bit FNV-1a-like fold over (zxid, CRC), so two nodes that
delivered the same transactions in the same order have the same digest, and (up to 2^-32 a transaction) only those.
"""

from zlib import crc32

_MASK = 2**64 - 1
_PRIME = 0x100000001B3
EMPTY = 0xCBF29CE484222325  # the digest of an empty history


txn_digest = crc32  # of a transaction's bytes: 0 .. 2**32 - 1


def fold(digest: int, zxid: int, txn: int) -> int:
    """The running digest after one more delivered transaction: `txn` is its `txn_digest`."""
    return ((digest ^ zxid) * _PRIME ^ txn) * _PRIME & _MASK


def show(digest: int) -> str:
    """16 hexadecimal digits: how traces write a 64-bit digest."""
    return f"{digest:016x}"
