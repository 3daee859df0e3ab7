"""The open-loop workload for a foreign system: each client has a thread, and sends one request at a time."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from zab_chaos.faults.scenario import TRANSACTIONS
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system.clients import SystemLine
from zab_chaos.harness.backends.system.mistakes import CALL_SECONDS, BackendMistake, describe, place_of_thread
from zab_chaos.harness.backends.system.transactions import TransactionDraw
from zab_chaos.harness.backends.system.versions import ToldVersions
from zab_chaos.harness.client.transaction import Committed, Outcome, Request, Transaction
from zab_chaos.harness.results.final_state import StateByNode
from zab_chaos.harness.workload.open_loop import RECREATE_NS, Counters, RecentAnswers, reason
from zab_chaos.harness.workload.operations import Agenda, Draw, LoadParameters, key_path, nodes_named
from zab_chaos.harness.workload.thread import ThreadedLoad
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.refusal import NODE_EXISTS
from zab_chaos.node.tree.requests import Create, Delete, Exists, Get, Set

POLL_SECONDS = 0.05
RAISED_SECONDS = 10.0  # of a client that only raises exceptions; the nodes may not be ready at once
CREATED_SHARE = 0.5  # of random reads that ask for a key which a client has created, if there is one
RECENTLY_CREATED = 50  # the latest created keys, among which such a read chooses


class SystemLoad(ThreadedLoad):
    """Implements `zab_chaos.harness.backends.backend.Load`.

    Every key is written once before the load begins. Random reads also ask for keys that clients have created. `line` returns
    the line of the client with a number, from 1. With `creates`, keys are written first by `create`, otherwise by `set`.
    """

    def __init__(
        self,
        line: Callable[[int], SystemLine],
        load: LoadParameters,
        seed: int,
        outcomes: OutcomeCounts,
        *,
        creates: bool,
        patience: float = RAISED_SECONDS,
        opaque: bool = False,
    ) -> None:
        """`patience`: a client that does nothing but raise exceptions for so many seconds is taken for wrong. `opaque`:
        versions do not count, so conditions name versions that the client was told."""
        super().__init__()
        self._line = line
        self._load = load
        self._seed = seed
        self._outcomes = outcomes
        self._creates = creates
        self._patience = patience
        self._opaque = opaque
        self._created: list[str] = []
        self._recent = RecentAnswers()
        self._lock = threading.Lock()  # for what all clients' threads write: `_recent`, `answered`
        self._trouble = ""  # as in Counters
        self._start_ns = 0
        self._grace_end = float("inf")
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"client-{number}", daemon=True)
            for number in range(1, load.clients + 1)
        ]

    @property
    def counters(self) -> Counters:
        with self._lock:
            counters = self._recent.add_to(self._outcomes.counters, time.monotonic_ns())
        return replace(counters, trouble=self._trouble)

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

    def _run(self, number: int) -> None:
        line = self._line(number)
        try:
            if number == 1:
                self._write_all_keys(line)
                self._start_ns = time.monotonic_ns()
                self._begun.set()
            while not self._begun.is_set() and not self._stopping.is_set():
                self._begun.wait(POLL_SECONDS)
            self._work(line, Agenda(self._load, self._seed, number))
        except Exception as error:  # `_raise` raises it in the main thread
            self._error = error
            self._begun.set()
        finally:
            line.close()

    def _write_all_keys(self, line: SystemLine) -> None:
        """Write every key once. Raises BackendMistake if all that comes for a while are exceptions in the client."""
        draw = Draw(self._load, self._seed, client=0)
        begun, only_raised = time.monotonic(), True
        for key in range(self._load.keys):
            written = False
            while not written and not self._stopping.is_set():
                path, data = key_path(key), draw.payload()
                outcome = self._ask(line, Create(path, data) if self._creates else Set(path, data), None)
                only_raised &= line.raised is not None and not isinstance(line.raised, OSError)
                if only_raised and line.raised is not None and time.monotonic() - begun >= self._patience:
                    raise BackendMistake(
                        f"no request was answered for {self._patience:g} s, because `ask` has raised {describe(line.raised)}. "
                        "This is a mistake in the backend's client, not in the system. If an answer may come later, return "
                        "Unknown(...), or raise OSError"
                    ) from line.raised
                written = isinstance(outcome, Ok) or (isinstance(outcome, Failed) and outcome.error == NODE_EXISTS)
                if not written:
                    self._trouble = reason(outcome) if isinstance(outcome, Failed | Unknown) else self._trouble
                    self._stopping.wait(RECREATE_NS / 1e9)

    def _work(self, line: SystemLine, agenda: Agenda) -> None:
        draws = random.Random(f"{self._seed}/{line.number}/made")
        at_random, told = not self._load.operations, ToldVersions()
        transactions = TransactionDraw(self._load, self._seed, line.number)
        while not self._stopping.is_set():
            due = agenda.due_ns
            if due is None or not self._wait_until(self._start_ns + due):
                return
            due_ns = self._start_ns + due
            while agenda.waits_for_fault(self._effective_faults):
                if self._stopping.wait(POLL_SECONDS):
                    return
                due_ns = time.monotonic_ns()  # not before the fault has taken effect
            asked = agenda.take()
            request = transactions.request(asked) if asked.do in TRANSACTIONS else agenda.request(asked)
            if isinstance(request, Delete) and asked.version is None and not agenda.has_seen_version(request.path):
                request = Delete(request.path)  # the system may have no versions
            nodes = nodes_named(asked.node, self._effective_faults)
            if nodes:
                line.move(nodes[0])
            if at_random:
                request = self._maybe_read_created(request, draws)
            if self._opaque and asked.version is None:
                request = told.conditional(request)
            outcome = self._ask(line, request, due_ns)
            if isinstance(request, Create) and isinstance(outcome, Ok):
                self._created.append(outcome.path or request.path)
            if outcome is not None:
                if not isinstance(request, Transaction) and not isinstance(outcome, Committed):
                    agenda.learn(request, outcome)
                told.learn(request, outcome)
                if asked.name is not None and not isinstance(outcome, Unknown):
                    with self._lock:
                        self.answered |= {asked.name}

    def _maybe_read_created(self, request: Request, draws: random.Random) -> Request:
        """Redirect a share of the reads to keys that clients have created: a key that is lost during the run may be back at the
        end."""
        if not isinstance(request, Get | Exists) or draws.random() >= CREATED_SHARE or not self._created:
            return request
        return type(request)(draws.choice(self._created[-RECENTLY_CREATED:]))

    def _wait_until(self, at_ns: int) -> bool:
        """Wait until a time; return False if the load stops before."""
        return not self._stopping.wait(max(0.0, (at_ns - time.monotonic_ns()) / 1e9))

    def _ask(self, line: SystemLine, request: Request, due_ns: int | None) -> Outcome | None:
        """Send a request and return its outcome; None if the grace period ended before."""
        answers: list[Outcome] = []
        asked_ns = time.monotonic_ns()
        line.submit(request, answers.append, due_ns)
        while not answers and time.monotonic() < self._grace_end:
            line.wait(lambda: bool(answers), POLL_SECONDS)
        if answers and isinstance(answers[0], Ok | Committed):
            now = time.monotonic_ns()
            with self._lock:
                self._recent.add(now, asked_ns if due_ns is None else due_ns)
        return answers[0] if answers else None
