"""Transactions of several keys, which the clients of foreign systems may send. Our own nodes take none."""

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
class Committed(msgspec.Struct, frozen=True, tag="ok"):
    """The outcome of a transaction that took effect. `values`: what each of its reads found, in order; None: no such key."""

    values: list[bytes | None]


Request = requests.Request | Transaction
Outcome = outcomes.Outcome | Committed
