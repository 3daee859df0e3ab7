"""The open-loop workload for a foreign system: each client has a thread, and sends one request at a time."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from zab_chaos.faults.scenario import LISTS
from zab_chaos.harness.backends.system.agenda import SystemAgenda
from zab_chaos.harness.backends.system.clients import SystemClient
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.lists import ListKeys
from zab_chaos.harness.backends.system.mistakes import ADVICE, CALL_SECONDS, BackendMistake, place_of_thread
from zab_chaos.harness.client.transaction import ListTransaction
from zab_chaos.harness.results.final_state import StateByNode
from zab_chaos.harness.workload.open_loop import Counters, Lane, OpenLoop
from zab_chaos.harness.workload.operations import LoadParameters, key_path
from zab_chaos.harness.workload.thread import ThreadedLoad
from zab_chaos.node.tree.requests import Create, Request, Set

POLL_SECONDS = 0.05
RAISED_SECONDS = 10.0  # of a client that only raises exceptions; the nodes may not be ready at once
CONNECT_SECONDS = 30.0  # in which some client must have connected to a node; all nodes accept connections by then


class SystemLoad(ThreadedLoad):
    """Implements `zab_chaos.harness.backends.backend.Load`.

    `client` returns the client with a number, from 1. With `creates`, keys are written first by `create`, otherwise by `set`.
    If there are only transactions on lists, these take the place of the keys, and get a first element.
    """

    def __init__(
        self,
        client: Callable[[int], SystemClient],
        load: LoadParameters,
        seed: int,
        history: HistoryFile,
        *,
        creates: bool,
        patience: float = RAISED_SECONDS,
        opaque: bool = False,
        lists: ListKeys | None = None,
    ) -> None:
        """`patience`: a client that does nothing but raise exceptions for so many seconds is taken for wrong. `opaque`:
        versions do not count, so conditions name versions that the client was told. `lists`: the keys of its lists, if others
        use them too."""
        super().__init__()
        self._load = load
        self._creates = creates
        self._patience = patience
        self._lock = threading.Lock()  # of `_loop`, which all clients' threads use
        self._clients = clients = [client(number) for number in range(1, load.clients + 1)]
        for each in clients:
            each.lock = self._lock
        self._lists = ListKeys(load.keys) if lists is None else lists
        agenda = partial(SystemAgenda, created=[], lists=self._lists, opaque=opaque, creates=creates)
        self._loop = OpenLoop(load, seed, history, clients, agenda, self._first_write)
        self._grace_end = float("inf")
        self._threads = [
            threading.Thread(target=self._run, args=one, name=f"client-{one[0].number}", daemon=True)
            for one in zip(clients, self._loop.lanes, strict=True)
        ]

    @property
    def counters(self) -> Counters:
        with self._lock:
            return self._loop.counters(time.monotonic_ns())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """Return nothing: the system may have no way to read the state of a single node."""
        return {}

    def stop(self, grace: float = 5.0) -> Counters:
        """Send no more requests, and wait at most `grace` seconds for outstanding answers.

        Raises WorkloadError, and BackendMistake if a client does not end.
        """
        self._grace_end = time.monotonic() + grace
        self._stopping.set()
        end = self._grace_end + self._load.timeout + CALL_SECONDS
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))
                if thread.is_alive():
                    raise BackendMistake(
                        f"a client of the backend does not end{place_of_thread(thread)}. `client` must return within "
                        "its timeout, and `hang_up` at once"
                    )
        self._raise()
        return self.counters

    def _first_write(self, key: int, data: bytes) -> Request:
        if self._load.kinds <= {*LISTS}:
            return cast(Request, ListTransaction([self._lists.append(key)]))
        return (Create if self._creates else Set)(key_path(key), data)

    def _run(self, client: SystemClient, lane: Lane) -> None:
        begun = time.monotonic()
        try:
            while not self._stopping.is_set():
                self._turn(client, lane)
                if self._loop.begun:
                    self._begun.set()
                else:
                    self._check_beginning(client, time.monotonic() - begun)
            while client.outstanding and time.monotonic() < self._grace_end:
                client.poll(POLL_SECONDS)
        except Exception as error:
            self._fail(error)
        try:
            client.close()
        except Exception as error:
            self._fail(error)

    def _check_beginning(self, client: SystemClient, seconds: float) -> None:
        """Raise BackendMistake if the backend is the reason why no request was answered in so many seconds."""
        if seconds >= self._patience and (mistake := client.mistake) is not None:
            raise BackendMistake(f"no request was answered for {seconds:.0f} s, because `ask` has {mistake}. {ADVICE}")
        connected = any(each.has_connected for each in self._clients)
        if seconds >= CONNECT_SECONDS and not connected and client.unreachable is not None:
            raise BackendMistake(
                f"no client has connected to any node for {seconds:.0f} s, although all of them accept connections. The "
                f"latest exception of `client`: {client.unreachable}"
            )

    def _fail(self, error: Exception) -> None:
        """Note the first error, which `_raise` raises in the main thread."""
        self._error = self._error or error
        self._begun.set()

    def _turn(self, client: SystemClient, lane: Lane) -> None:
        """Wait for the answer to the client's request. If it has none, submit the next one, or wait until that is due."""
        if client.outstanding:
            client.poll(POLL_SECONDS)
            return
        now = time.monotonic_ns()
        with self._lock:
            self._loop.effective_faults = self._effective_faults
            due = self._loop.submit_due(lane, now)
            self.answered = self._loop.answered
        if not client.outstanding:
            self._stopping.wait(POLL_SECONDS if due is None else min(POLL_SECONDS, (due - now) / 1e9))
