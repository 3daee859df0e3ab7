"""Draws the transactions on lists of a load: which lists they read, and to which ones they append."""

import random
from collections.abc import Sequence
from itertools import count
from threading import Lock

from zab_chaos.faults.scenario import Operation
from zab_chaos.harness.client.transaction import Append, ListTransaction, ReadList
from zab_chaos.harness.workload.operations import LoadParameters

APPENDS_MAX = 64  # to one list: a read returns all of it, so a longer one is replaced
STEPS_MAX = 4  # of a transaction
SAME_RATIO = 0.3  # of the further steps: they concern the list of the transaction's operation, else any one
RETIRED_RATIO = 0.1  # of the reads: they ask for a list that was replaced, whose last elements nobody may have read yet
RECENTLY_RETIRED = 20  # the latest replaced lists, among which such a read chooses


class ListKeys:
    """The keys of the lists that are in use, `/list-1` and so on: one for each of the workload's keys, by its number from 0.
    All agendas share it. A list that has got APPENDS_MAX elements is retired, and another one takes its place.

    Any thread may use it.
    """

    def __init__(self, keys: int) -> None:
        self._lock = Lock()
        self._numbers = count(1)
        self._in_use = {key: next(self._numbers) for key in range(keys)}
        self._appends: dict[int, int] = {}  # by key: to the list that is in use
        self._retired: list[int] = []

    @property
    def keys(self) -> list[int]:
        """The numbers of the keys."""
        with self._lock:
            return list(self._in_use)

    def path(self, key: int) -> str:
        """Return the path of the list in use for a key. A key after the workload's last one gets a list of its own."""
        with self._lock:
            return self._path(key)

    def append(self, key: int) -> Append:
        """Return an append to the list in use for a key: its element is the number of the append, from 1."""
        with self._lock:
            path = self._path(key)
            element = self._appends[key] = self._appends.get(key, 0) + 1
            if element == APPENDS_MAX:
                self._retired.append(self._in_use.pop(key))
                self._in_use[key] = next(self._numbers)
                del self._appends[key]
            return Append(path, element)

    @property
    def retired(self) -> Sequence[str]:
        """The paths of the lists that were retired last."""
        with self._lock:
            return [_path_of(number) for number in self._retired[-RECENTLY_RETIRED:]]

    def _path(self, key: int) -> str:
        if key not in self._in_use:
            self._in_use[key] = next(self._numbers)
        return _path_of(self._in_use[key])


def _path_of(number: int) -> str:
    return f"/list-{number}"


class ListDraw:
    """Draws one client's transactions on lists: one to four steps in any order, also several on one list. Of a `list-append`
    half of the steps, and at least one, are appends."""

    def __init__(self, load: LoadParameters, seed: int, client: int, lists: ListKeys) -> None:
        self._keys = load.keys
        self._lists = lists
        self._random = random.Random(f"{seed}/{client}/lists")

    def request(self, operation: Operation) -> ListTransaction:
        keys = [operation.key, *(self._further_key(operation.key) for _ in range(self._random.randrange(STEPS_MAX)))]
        self._random.shuffle(keys)
        appends = [operation.do == "list-append" and self._random.random() < 0.5 for _ in keys]
        if operation.do == "list-append" and not any(appends):
            appends[self._random.randrange(len(keys))] = True
        return ListTransaction(
            [
                self._lists.append(key) if appended else self._read(key)
                for key, appended in zip(keys, appends, strict=True)
            ]
        )

    def _further_key(self, first: int) -> int:
        return first if self._random.random() < SAME_RATIO else self._random.randrange(self._keys)

    def _read(self, key: int) -> ReadList:
        """Return a read of the key's list, or sometimes of one that was retired, if there is one."""
        redirected, which = self._random.random() < RETIRED_RATIO, self._random.random()
        retired = self._lists.retired if redirected else ()
        return ReadList(retired[int(which * len(retired))] if retired else self._lists.path(key))
