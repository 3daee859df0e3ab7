"""The operations of one client of a foreign system: also transactions, and reads of keys that other clients have created."""

import random
from typing import cast

from msgspec import structs

from zab_chaos.faults.scenario import LISTS, TRANSACTIONS, Operation
from zab_chaos.harness.backends.system.lists import ListDraw, ListKeys
from zab_chaos.harness.backends.system.transactions import TransactionDraw
from zab_chaos.harness.backends.system.versions import ToldVersions
from zab_chaos.harness.workload.operations import SHARED_RATIO, Agenda, LoadParameters, key_path
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import ANY, Create, Delete, Exists, Get, Request

CREATED_SHARE = 0.5  # of random reads that ask for a key which a client has created, if there is one
RECENTLY_CREATED = 50  # the latest created keys, among which such a read chooses


class SystemAgenda(Agenda):
    """The agenda of a client. `created`: the keys that clients have created, a list that all agendas share, like `lists`, the
    keys of lists. `opaque`: versions do not count, so conditions name versions that the client was told. Without `creates`,
    clients can't create a key on condition that it does not exist, so they delete the workload's keys, which any `set` creates
    again."""

    def __init__(
        self, load: LoadParameters, seed: int, number: int, *,
        created: list[str], lists: ListKeys, opaque: bool, creates: bool,
    ) -> None:  # fmt: skip
        super().__init__(load, seed, number)
        self._at_random = not load.operations
        self._transactions = TransactionDraw(load, seed, number)
        self._lists = ListDraw(load, seed, number, lists)
        self._draws = random.Random(f"{seed}/{number}/made")
        self._created = created
        self._told = ToldVersions()
        self._opaque = opaque
        self._creates = creates
        self._keys = load.keys
        self._shares = self._at_random and {"create", "delete"} <= load.mix.keys() and "sequential" not in load.mix
        self._shared = random.Random(f"{seed}/{number}/shared")

    def request(self, operation: Operation) -> Request:
        if operation.do in TRANSACTIONS:
            # Our own nodes, which share the open loop, take no transactions.
            return cast(Request, self._transactions.request(operation))
        if operation.do in LISTS:
            return cast(Request, self._lists.request(operation))
        if self._shares:
            operation = self._maybe_shared(operation)
        if operation.do == "delete" and not self._creates:
            request: Request = Delete(key_path(operation.key), ANY if operation.version is None else operation.version)
        else:
            request = super().request(operation)
        if isinstance(request, Delete) and operation.version is None and not self.has_seen_version(request.path):
            request = Delete(request.path)  # the system may have no versions
        if self._at_random:
            request = self._maybe_read_created(request)
        return self._told.conditional(request) if self._opaque and operation.version is None else request

    def learn(self, request: Request, outcome: Outcome) -> None:
        super().learn(request, outcome)
        self._told.learn(request, outcome)
        if isinstance(request, Create) and isinstance(outcome, Ok):
            self._created.append(outcome.path or request.path)

    def _maybe_shared(self, operation: Operation) -> Operation:
        """Redirect a share of the creations and deletions to a key that all clients create and delete, as `Draw` does if the
        mix has sequential ones, too: a system without locks lets two clients create it."""
        if operation.do not in ("create", "delete") or self._shared.random() >= SHARED_RATIO:
            return operation
        return structs.replace(operation, do=self._shared.choice(("create", "delete")), key=self._keys)

    def _maybe_read_created(self, request: Request) -> Request:
        """Redirect a share of the reads to keys that clients have created: a key that is lost during the run may be back at the
        end."""
        if not isinstance(request, Get | Exists) or self._draws.random() >= CREATED_SHARE or not self._created:
            return request
        return type(request)(self._draws.choice(self._created[-RECENTLY_CREATED:]))
