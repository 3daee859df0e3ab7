"""Transactions of several keys, which the clients of foreign systems may send. Our own nodes take none."""

from collections.abc import Sequence
from typing import final

import msgspec

from zab_chaos.node.tree import outcomes, requests
from zab_chaos.node.tree.requests import Get, Set


@final
class Transaction(msgspec.Struct, frozen=True, tag="transaction"):
    """Reads and writes of several keys that take effect at one instant, or not at all.

    `steps`: first the reads, then the writes, each without a condition. No key is read twice, or written twice.
    """

    steps: list[Get | Set]

    @property
    def op(self) -> str:
        """Return the name that a scenario's mix and ops.jsonl have for it: a transaction that only reads is a `multi-get`."""
        return "transaction" if any(type(step) is Set for step in self.steps) else "multi-get"


@final
class ReadList(msgspec.Struct, frozen=True, tag="read"):
    """A step of a `ListTransaction`: read the whole list of a key. A key that nobody has appended to has an empty list."""

    path: str


@final
class Append(msgspec.Struct, frozen=True, tag="append"):
    """A step of a `ListTransaction`: append an element to the list of a key. `element`: from 1; no other append of the run to
    this key has it."""

    path: str
    element: int


@final
class ListTransaction(msgspec.Struct, frozen=True, tag="list-transaction"):
    """Reads of lists and appends to them, as in Elle's list-append workload (Kingsbury and Alvaro, "Elle", VLDB 2020).

    `steps`: one to four, in the order in which they are done. Several may concern the same key.
    """

    steps: list[ReadList | Append]

    @property
    def op(self) -> str:
        """Return the name that a scenario's mix and ops.jsonl have for it: a transaction that only reads is a `list-read`."""
        return "list-append" if any(type(step) is Append for step in self.steps) else "list-read"


@final
class Committed(msgspec.Struct, frozen=True, tag="ok"):
    """The outcome of a transaction that took effect. `values`: what each of its reads found, in order. Of a `Transaction` that
    is a value, None if there is no such key; of a `ListTransaction` it is the elements of the list."""

    values: Sequence[bytes | None] | Sequence[Sequence[int]]


Request = requests.Request | Transaction | ListTransaction
Outcome = outcomes.Outcome | Committed
