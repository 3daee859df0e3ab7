"""Draws the transactions of a load: which keys they read and write."""

import random

from zab_chaos.faults.scenario import Operation
from zab_chaos.harness.client.transaction import Transaction
from zab_chaos.harness.workload.operations import LoadParameters, key_path
from zab_chaos.node.tree.requests import Get, Set

KEYS = (2, 2, 2, 3, 4)  # how many keys a transaction has, if there are so many
READ, WRITE, BOTH = "read", "write", "both"


class TransactionDraw:
    """Draws one client's transactions: each has the key of its operation, and others. A transaction reads some of its keys,
    writes some, and reads and then writes others; at least one is written."""

    def __init__(self, load: LoadParameters, seed: int, client: int) -> None:
        self._client = client
        self._keys = load.keys
        self._random = random.Random(f"{seed}/{client}/transactions")
        self._filler = self._random.randbytes(load.payload_bytes)
        self._count = 0

    def request(self, operation: Operation) -> Transaction:
        keys = [key_path(key) for key in self._draw_keys(operation.key)]
        if operation.do == "multi-get":
            return Transaction([Get(key) for key in keys])
        uses = [self._random.choice((READ, WRITE, BOTH)) for _ in keys]
        if set(uses) == {READ}:
            uses[0] = BOTH
        reads = [Get(key) for key, use in zip(keys, uses, strict=True) if use != WRITE]
        writes = [Set(key, self._payload()) for key, use in zip(keys, uses, strict=True) if use != READ]
        return Transaction([*reads, *writes])

    def _draw_keys(self, key: int) -> list[int]:
        others = [other for other in range(self._keys) if other != key]
        return [key, *self._random.sample(others, min(len(others), self._random.choice(KEYS) - 1))]

    def _payload(self) -> bytes:
        """Return data that no other write of the run has. The `t` distinguishes it from that of single writes."""
        self._count += 1
        mark = f"{self._client}.t{self._count}.".encode()
        return mark + self._filler[len(mark) :]
