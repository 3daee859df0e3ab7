"""The worlds that an ensemble can stand in: what is the same in all of them, and what each does in its own way."""

from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from zab_chaos.faults.scenario import Scenario
from zab_chaos.faults.scheduler import Scheduler
from zab_chaos.harness.backends.registry import BACKENDS, stage_on
from zab_chaos.harness.backends.simulator import run
from zab_chaos.harness.backends.simulator.run import SimGround
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.log import Book
from zab_chaos.harness.client.session import Line
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.live.transport import OutcomeCounts, SimLine
from zab_chaos.harness.machine.interrupt import Forced
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs import judgement
from zab_chaos.harness.runs import run as real
from zab_chaos.harness.runs.monitor import Watch
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.walk import Ground, Onlooker, Records
from zab_chaos.model.verdict import Verdict


class World(Protocol):
    """One ensemble's world: entered, it is there with no node up; left, nothing of it is."""

    @property
    def ground(self) -> Ground: ...
    @property
    def records(self) -> Records: ...
    @property
    def onlooker(self) -> Onlooker: ...

    facts: dict[str, Any]  # run.json
    tally: OutcomeCounts

    @classmethod
    def possible(cls, on: str) -> None:
        """Raises HarnessError if this machine cannot have it, before anything is made."""

    def __init__(self, scenario: Scenario, wish: RunOptions, folder: RunFolder) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """With an exception the nodes are not asked to end but killed."""

    @property
    def addresses(self) -> dict[int, str]:
        """Where each node takes clients, `host:port`; empty where nobody else can connect."""

    def line(self, number: int, node: int, timeout: float) -> Line:
        """A new client's, which begins at `node`; after `timeout` seconds an operation is unknown."""

    def check(self) -> None:
        """Raise what went wrong beside us."""

    def judge(self, outcome: str) -> Verdict:
        """Once it was left."""


class OnStage:
    """Real nodes, processes or containers, with toxiproxy between them."""

    @classmethod
    def possible(cls, on: str) -> None:
        stage_on(on).check()

    def __init__(self, scenario: Scenario, wish: RunOptions, folder: RunFolder) -> None:
        self.facts = real.facts_of(scenario, wish, folder)
        self.records = folder
        self.tally = OutcomeCounts()
        self._folder = folder
        self._stage = stage_on(wish.on)(folder, scenario, wish.defect[1] if wish.defect else None, wish.record)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.ground = stack.enter_context(self._stage)
            self.facts["versions"]["toxiproxy"] = self._stage.toxiproxy_version
            self._book = Book(self._folder.file("ops.jsonl"), self.tally.add)
            stack.callback(self._book.close)
            self.onlooker = stack.enter_context(Watch(self._stage.cluster, self._folder, Quiet(), 0.0))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        hurry = (Forced, Forced(), None) if kind is not None else (None, None, None)
        self._stack.__exit__(*hurry)
        self.facts["ended"] = real.utc()
        self.records.milestone("stopped")

    @property
    def addresses(self) -> dict[int, str]:
        cluster = self._stage.cluster
        return {each: cluster.client_address(each) for each in cluster.nodes}

    def line(self, number: int, node: int, timeout: float) -> SocketLine:
        return SocketLine(
            Client(self.addresses, self._stage.client_keys, node, number=number, timeout=timeout), self._book
        )

    def check(self) -> None:
        if self.onlooker.error is not None:
            raise HarnessError(f"the nodes' watch broke off: {self.onlooker.error!r}") from self.onlooker.error

    def judge(self, outcome: str) -> Verdict:
        return judgement.judge(self._folder.path, stored=False)


@dataclass(slots=True)
class _NoThread:
    """In the simulated world nothing goes on beside us, so nobody has to look."""

    phase: str = "starting"
    begun: float | None = None
    scheduler: Scheduler | None = None
    workload: Any = None


class OnSim:
    """The simulated world: time passes while somebody waits, and everything is drawn from the seed."""

    @classmethod
    def possible(cls, on: str) -> None:
        """Anywhere."""

    def __init__(self, scenario: Scenario, wish: RunOptions, folder: RunFolder) -> None:
        self.facts = run.facts_of(scenario, wish)
        self.ground = SimGround(scenario, wish.seed, wish.defect[1] if wish.defect else None, folder, wish.record)
        self.records = self.ground.records
        self.onlooker = _NoThread()
        self.tally = OutcomeCounts()
        self._scenario = scenario
        self._folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        late = self.ground.cluster.close()
        if late:
            self.records.milestone("leftovers", nodes=late)
        self.records.milestone("stopped")
        self.records.close()

    @property
    def addresses(self) -> dict[int, str]:
        return {}

    def line(self, number: int, node: int, timeout: float) -> SimLine:
        machines = [self.ground.machines[each] for each in self.ground.cluster.nodes]
        return SimLine(self.ground.world, machines, self.records, self.tally, number, node, timeout)

    def check(self) -> None:
        return

    def judge(self, outcome: str) -> Verdict:
        verdict = judgement.with_replay(self.ground.judge(outcome), self._folder.path)
        if verdict.exit:
            self.ground.cluster.export_disks(self._folder.file("data"))
        return verdict


WORLDS: dict[str, type[World]] = {**dict.fromkeys(BACKENDS, OnStage), "sim": OnSim}
