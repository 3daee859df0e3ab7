"""A running ensemble: it is used and broken by hand, and judged at the end like any other run.

    with Ensemble(on="sim", nodes=3) as cluster, cluster.client() as client:
        client.create("/a", b"1")
        with cluster.partitioned("leader"):
            client.set("/a", b"2")
        print(cluster.finish().verdict)

It is a run (`zab_chaos.harness.runs.run`) whose phases are called from here, and it leaves the same folder. In the simulated
world time passes only during these calls: an operation lets it pass until the answer, a wait until its condition holds.
"""

import contextlib
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Status
from zab_chaos.faults.kind import FaultError, Kind
from zab_chaos.faults.network import NetworkError, Pair, Traffic
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.scheduler import FaultRecord
from zab_chaos.harness.backends.ensemble_state import statuses
from zab_chaos.harness.backends.fitting import disk_mistakes, preparation_mistakes, step_mistakes
from zab_chaos.harness.client.hidden_frames import hidden_for
from zab_chaos.harness.client.session import STEP, Session
from zab_chaos.harness.errors import BadInput, did_you_mean
from zab_chaos.harness.live.clients import InteractiveLoad
from zab_chaos.harness.live.fault_methods import FaultInjector, InjectedFault, kind_of, method_names
from zab_chaos.harness.live.scenario import build_scenario, scenario_text
from zab_chaos.harness.machine.interrupt import GRACE, Forced, Interrupt, Stopped
from zab_chaos.harness.report.progress import UNSHOWN, Quiet, Steps
from zab_chaos.harness.results import run_folder as results
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import RunOptions, defect_option, implied_backend
from zab_chaos.harness.runs.phases import FINISHED, INTERRUPTED, RunPhases, Unfinished
from zab_chaos.harness.runs.run import Run, end_and_judge, reason, running
from zab_chaos.harness.workload.open_loop import Counters
from zab_chaos.model.verdict import Verdict

SETTLE_SECONDS = (
    5.0  # wait at the start for nodes beyond the quorum, so that no first write meets a node without a leader
)
OPERATION_SECONDS = 10.0  # after which a client's operation is unknown

__tracebackhide__ = hidden_for(BadInput, FaultError, TimeoutError)


class Ensemble:
    """An ensemble that runs while this is entered, and is judged when it is left.

    `on`: the backend's name. `defect`: a name that `zab defects` lists. `timing`, `limits`: as a scenario's tables.
    `zookeeper`: a release of ZooKeeper's servers, which implies `on`. `min_acked`: so many writes must have been
    acknowledged, or the verdict is UNKNOWN; None means one, but 0 once `hosts` was read, because writes of clients that
    connect there are not counted. `command`: the command that repeats the run, for the report.

    After `__enter__` a leader is established, and as a rule all nodes follow it. After `__exit__` only the run's folder is
    left; it is judged, also if the block ended with an interrupt. Use the ensemble from one thread, on real processes from the
    main thread; there, clients may be opened and used in other threads, one client by one thread.
    """

    def __init__(
        self,
        *,
        on: str = "processes",
        zookeeper: str | None = None,
        nodes: int = 3,
        seed: int = 1,
        name: str = "ensemble",
        record: bool = True,
        defect: str | None = None,
        disk: str = "faithful",
        timing: Mapping[str, int] | None = None,
        limits: Mapping[str, int] | None = None,
        min_acked: int | None = None,
        converges_within: float = 20.0,
        results: Path | str = "results",
        keep_data: bool = False,
        command: str | None = None,
    ) -> None:
        """Check the arguments. Raises BadInput with all mistakes at once."""
        head = {"name": name, "about": "An ensemble that was used and broken by hand.", "nodes": nodes, "seed": seed}
        head |= {"record": record, "disk": disk}
        expect = {"min_acked": 1 if min_acked is None else min_acked, "converges_within": converges_within}
        tables = {"scenario": head, "timing": dict(timing or {}), "limits": dict(limits or {}), "expect": expect}
        on = implied_backend(on) if zookeeper is not None else on
        backend, self.scenario = build_scenario(tables, on, defect)
        self._min_acked_given = min_acked is not None
        self._options = RunOptions(
            seed=seed,
            results=Path(results),
            command=command or "",
            defect=defect_option(backend, defect),
            record=self.scenario.record,
            keep_data=keep_data,
            on=on,
            release=backend.release(zookeeper) if zookeeper is not None else None,
        )
        self.interrupt = Interrupt(GRACE)
        self.folder: RunFolder | None = None
        self.verdict: Verdict | None = None  # once it is finished
        self._entered = ExitStack()
        self._owner = threading.get_ident()
        self.faults: list[FaultRecord] = []  # all faults so far, in the order in which they were injected
        self._sessions: list[Session] = []
        self._sessions_lock = threading.Lock()
        self._open = False
        self._phases: RunPhases | None = None  # once the ensemble is being started

    # ---- start and end ----

    def __enter__(self) -> Self:
        """Start the ensemble. Raises HarnessError, or `zab_chaos.harness.runs.phases.Unfinished` if no leader is established
        in time."""
        self._run = Run(self.scenario, self._options)
        self.folder, self._deployment = self._run.folder, self._run.deployment
        for name in ("verdict", "exit", "violates"):
            del self._run.facts["expect"][name]  # there is no scenario that expects them
        if not self._run.backend.exact:
            self._run.facts["expect"]["clients_are_awake"] = False  # a session looks only while its program waits
        self._open = True
        with results.private():
            try:
                self._entered.enter_context(running(self._deployment, self._options.seed))
                self._start()
            except BaseException as error:
                self.abandon(error)
                raise
        return self

    def _start(self) -> None:
        deployment, backend = self._deployment, self._run.backend
        self._led = Ability.LEADER in backend.abilities
        load = InteractiveLoad(deployment.outcomes, self._sessions)
        self._phases = phases = RunPhases(
            self.scenario, self._options.seed, deployment, backend.abilities, Quiet(), self.interrupt, load
        )
        phases.start_ensemble()
        self._scheduler = phases.start_load()
        self.faults = self._scheduler.records
        assert deployment.monitor.begun is not None
        self._begun = deployment.monitor.begun
        self._injector = FaultInjector(self._scheduler, self._wait_until, self._begun, self._mistakes)
        with contextlib.suppress(TimeoutError):  # with a defect the nodes may never converge; the caller shall see that
            self.until_converged(SETTLE_SECONDS)

    def _mistakes(self, step: FaultStep) -> list[str]:
        backend = self._run.backend
        return (
            step_mistakes(backend, step)
            or disk_mistakes(backend, self.scenario, step)
            or preparation_mistakes(backend, self.scenario, self._options, step)
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._open:
            return
        if error is None or isinstance(error, Exception):
            self.finish()
        else:
            self.abandon(error)

    def finish(self, steps: Steps = UNSHOWN) -> Verdict:
        """Heal everything, wait for the nodes to converge, end them, judge the run and return the verdict.

        May be called again. While `interrupt` is entered, the first signal ends it with what is known so far. `steps`: shows
        how far the judgement is. Raises ValueError if the ensemble was never entered, or ended with an error.
        """
        if self.verdict is None:
            if not self._open:
                raise ValueError("this ensemble was never entered, or was given up: there is nothing to judge")
            with results.private():
                judge = partial(self._run.judge, steps)
                self.verdict = end_and_judge(self.interrupt, self._end, self._record_end, judge)
                wanted = self.verdict.exit != 0 or self._options.keep_data
                self._run.store(self.verdict, keep=wanted and not self.interrupt.requested.is_set())
        return self.verdict

    def _end(self) -> tuple[str, str]:
        """Converge and end the nodes. Return the run's outcome (run.json) and, if the harness failed, its traceback."""
        outcome, trouble = FINISHED, ""
        with self._entered:
            try:
                self._converge()
            except Exception as error:
                outcome, trouble = _outcome(error), traceback.format_exc()
            finally:
                self._open = False
                if self._phases is not None and not self.interrupt.forced:
                    self._phases.close()
        return outcome, trouble

    def _converge(self) -> None:
        """Heal everything and wait until the nodes have converged. Raises Stopped if the user has interrupted the run."""
        if self._phases is None or self.interrupt.requested.is_set():
            raise Stopped
        self._deployment.check()
        self._phases.converge()

    def abandon(self, error: BaseException) -> None:
        """End the ensemble at once because of an error: kill the nodes.

        An Exception is recorded as the run's outcome, and the run is not judged. Any other error is an interrupt: the run is
        judged by what was recorded, unless the error is the second interrupt.
        """
        if not self._open:
            return
        if isinstance(error, Exception | Forced):
            self._kill(_outcome(error))
        else:
            with self.interrupt:
                self.interrupt.requested.set()
                self.finish()

    def _kill(self, outcome: str) -> None:
        self._open = False
        for session in self._sessions:
            session.close()
        if outcome == INTERRUPTED:
            self._deployment.records.milestone("interrupted")
        self._entered.__exit__(Forced, Forced(), None)
        self._record_end(outcome)

    def _record_end(self, outcome: str, trouble: str = "") -> None:
        """Write the outcome to run.json, and the injected faults to scenario.toml."""
        self._run.record_outcome(outcome, trouble)
        text = scenario_text(self.scenario, self.faults)
        self._run.folder.file("scenario.toml").write_text(text, encoding="utf-8")

    # ---- its state; reading it lets no time pass ----

    @property
    def seed(self) -> int:
        return self._options.seed

    @property
    def on(self) -> str:
        """The name of the backend."""
        return self._options.on

    @property
    def nodes(self) -> list[int]:
        """The ids of all nodes."""
        return list(self._deployment.cluster.nodes)

    @property
    def addresses(self) -> dict[int, str]:
        """The client address of each node, `host:port`; empty in the simulated world."""
        return self._deployment.addresses

    def is_paused(self, node: int) -> bool:
        """Return whether the node's process is paused."""
        return self._deployment.cluster.paused(node)

    @property
    def leader(self) -> int | None:
        """The current established leader of the highest epoch; None if there is none."""
        return self._deployment.cluster.leader()

    @property
    def now(self) -> float:
        """Seconds since the ensemble was ready, on the backend's clock."""
        return self._deployment.host.now() - self._begun

    @property
    def counters(self) -> Counters:
        """The numbers of operations of all clients so far, by outcome."""
        return self._deployment.outcomes.counters

    def alive(self, node: int) -> bool:
        """Return whether the node's process exists, paused or not."""
        return self._deployment.cluster.alive(node)

    def status(self) -> dict[int, Status]:
        """Return the current status of each node; nodes that are down, paused or silent are left out."""
        return statuses(self._deployment.cluster)

    def traffic(self) -> Mapping[Pair, Traffic]:
        """Return what each link has carried; nothing if the nodes count that themselves, or it can't be read."""
        try:
            return self._deployment.network.traffic() if self._deployment.network is not None else {}
        except NetworkError:
            return {}

    # ---- using it ----

    def client(self, node: int | None = None, timeout: float = OPERATION_SECONDS) -> Session:
        """Return a new client. It connects to `node` first, or to the nodes in turn if None is given.

        An operation is unknown after `timeout` seconds. Raises BadInput if there is no such node.
        """
        if node is not None and node not in self.nodes:
            raise BadInput(f"there is no node {node}; the nodes are {', '.join(map(str, self.nodes))}")
        with self._sessions_lock:  # no two clients have one number
            number = len(self._sessions) + 1
            first = self.nodes[(number - 1) % len(self.nodes)] if node is None else node
            session = Session(self._deployment.line(number, first, timeout), self.advance_faults)
            self._sessions.append(session)
        return session

    @property
    def hosts(self) -> str:
        """The connection string for ZooKeeper's own clients, such as kazoo: `host:port,host:port`.

        What these clients do is judged by what the servers log. Raises BadInput if the nodes are not ZooKeeper's servers.
        """
        found = self._deployment.hosts
        if found is None:
            raise BadInput(
                f"an ensemble on {self.on} has no hosts for ZooKeeper's clients: they can connect to on='zookeeper' only. "
                "Use client(), which every backend has"
            )
        if not self._min_acked_given:
            self._expect_no_acknowledgements()
        return found

    def _expect_no_acknowledgements(self) -> None:
        self.scenario = replace(self.scenario, expect=replace(self.scenario.expect, min_acked=0))
        self._run.facts["expect"] |= {"min_acked": 0}

    def advance_faults(self) -> None:
        """Heal the faults whose time is over, and switch links that flap. Every call that waits does this, too."""
        if threading.get_ident() == self._owner and self._open:
            self._deployment.check()
            self._scheduler.due(self._deployment.host.now())

    def sleep(self, seconds: float) -> None:
        """Let so much time pass, on the clock of the backend. In the simulated world this takes almost no real time."""
        host = self._deployment.host
        end = host.now() + seconds
        while (left := end - host.now()) > 0:
            host.sleep(min(STEP, left))
            self.advance_faults()

    def until_established(self, timeout: float = 30.0) -> int:
        """Wait for an established leader that a quorum follows, and return its id. Raises TimeoutError.

        Of a foreign system that has no leader, wait until most nodes accept clients, and return 0.
        """
        found = [0]

        def established() -> bool:
            found[0] = self.leader or 0
            return found[0] > 0 or (not self._led and self._deployment.formed())

        words = "no leader was established" if self._led else "most nodes did not accept clients"
        self._wait_until(established, timeout, words)
        return found[0]

    def until_converged(self, timeout: float | None = None) -> None:
        """Wait until all nodes are up and have delivered the same. Raises TimeoutError, which says which nodes differ."""
        why = ["not asked yet"]

        def converged() -> bool:
            why[:] = filter(None, [self._deployment.disagreement()])
            return not why

        seconds = self.scenario.expect.converges_within if timeout is None else timeout
        self._wait_until(converged, seconds, lambda: f"the nodes did not converge: {'; '.join(why)}")

    def until(self, condition: Callable[[], bool], timeout: float = 30.0) -> None:
        """Wait until a condition of the caller holds. Raises TimeoutError."""
        self._wait_until(condition, timeout, "the condition did not come to hold")

    def _wait_until(self, condition: Callable[[], bool], timeout: float, words: str | Callable[[], str]) -> None:
        host = self._deployment.host
        end = host.now() + timeout
        while not condition():
            if host.now() >= end:
                raise TimeoutError(f"{words if isinstance(words, str) else words()} (after {timeout:g} s)")
            host.sleep(STEP)
            self.advance_faults()

    # ---- faults ----

    def heal(self) -> None:
        """Undo every fault, and start every node that is down."""
        self._scheduler.heal_all()

    def inject(self, kind: Kind, table: Mapping[str, Any]) -> InjectedFault:
        """Inject a fault now, given as a scenario's [[fault]] table without a time. See `FaultInjector.inject`."""
        return self._injector.inject(kind, table)

    def __getattr__(self, word: str) -> Callable[..., InjectedFault]:
        """Return the method of this name that injects a kind of fault: method(target, lasts=, name=, its keys).

        See `zab_chaos.harness.live.fault_methods` and `FaultInjector.inject_verb`.
        """
        kind = None if word.startswith("_") else kind_of(word)
        if kind is None:
            raise AttributeError(f"an ensemble has no {word!r}. {did_you_mean(word, dir(self))}")
        return partial(self._injector.inject_verb, kind)

    def __dir__(self) -> list[str]:
        return [*(name for name in super().__dir__() if not name.startswith("_")), *method_names()]


def _outcome(error: BaseException) -> str:
    """Return the outcome in run.json of an ensemble that ended with this error."""
    if isinstance(error, Unfinished):
        return str(error)
    return f"harness-error: {reason(error)}" if isinstance(error, Exception) else INTERRUPTED
