"""Versions that do not count the writes of a key: numbers for those that are text, and conditions that a client was told."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.backends.system.test_system_load import OfStore
from zab_chaos.faults.grammar import build
from zab_chaos.harness.backends.fitting import mistakes
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system import Check, Create, Delete, Failed, Get, Request, Set, SystemBackend, done
from zab_chaos.harness.backends.system.clients import SystemClient
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.versions import ToldVersions, VersionNumbers
from zab_chaos.harness.backends.system.workload import SystemLoad
from zab_chaos.harness.workload.operations import LoadParameters
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.node.tree.requests import ANY

ENOUGH = 400  # requests


def test_text_is_recorded_as_a_number_and_asked_as_text() -> None:
    numbers = VersionNumbers()
    recorded = [numbers.recorded(done(version=version)) for version in ("x", "y", "x", 70, None)]
    assert recorded == [done(version=version) for version in (0, 1, 0, 70, None)]
    assert numbers.recorded(Failed("no node", "")) == Failed("no node", "")
    for number, version in enumerate("xy"):
        for request in (Set("/a", b"", number), Delete("/a", number), Check("/a", number)):
            assert getattr(numbers.asked(request), "version") == version  # noqa: B009
    for request in (Set("/a", b""), Delete("/a", 70), Get("/a")):
        assert numbers.asked(request) is request


def test_conditions_name_versions_that_were_told_for_the_key() -> None:
    told = ToldVersions()
    assert told.conditional(Set("/a", b"", 0)) == Get("/a")  # to be told one
    assert told.conditional(Delete("/a", 0)) == Delete("/a", ANY)
    told.learn(Get("/a"), done(b"", version=70))
    assert told.conditional(Set("/a", b"", 5)) == Set("/a", b"", 70)
    told.learn(Set("/a", b""), done(version=90))
    told.learn(Get("/a"), done(b"", version=90))
    assert told.conditional(Set("/a", b"", 90)) == Set("/a", b"", 90)
    assert told.conditional(Set("/a", b"", 89)) == Set("/a", b"", 70)  # an outdated one was drawn
    assert told.conditional(Set("/b", b"", 89)) == Get("/b")
    for request in (Set("/a", b""), Create("/a", b""), Get("/a")):
        assert told.conditional(request) is request


class Tagged:
    """A store whose versions are text. If it is `careless`, it does not look at the version in a condition."""

    def __init__(self, careless: bool) -> None:
        self._careless = careless
        self._held: dict[str, tuple[bytes, str]] = {}
        self._lock = threading.Lock()
        self.asked = 0
        self.refused = 0
        self.enough = threading.Event()

    def ask(self, request: Request) -> object:
        with self._lock:
            self.asked += 1
            if self.asked >= ENOUGH:
                self.enough.set()
            return self._answer(request)

    def _answer(self, request: Any) -> object:
        value, tag = self._held.get(request.path, (None, None))
        if isinstance(request, Get):
            return Failed("no node", "") if value is None else done(value, version=tag)
        assert isinstance(request, Set)
        assert request.version == ANY or isinstance(request.version, str)
        if request.version not in (ANY, tag) and not self._careless:
            self.refused += 1
            return Failed("bad version", "")
        self._held[request.path] = request.data, f"tag-{self.asked}"
        return done(version=f"tag-{self.asked}")


@pytest.mark.parametrize(("careless", "violated"), [(False, []), (True, ["linearizable keys"])])
def test_a_store_with_tags_is_used_and_judged(tmp_path: Path, careless: bool, violated: list[str]) -> None:
    store, numbers = Tagged(careless), VersionNumbers()
    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=3, rate=1000.0, keys=2, mix={"cas": 2, "get": 1, "set": 1})

    def client(number: int) -> SystemClient:
        return SystemClient({1: lambda: OfStore(store.ask)}, number, 1, 10.0, versions=numbers)

    load = SystemLoad(client, work, 1, history, creates=False, opaque=True)
    load.start()
    assert store.enough.wait(60)
    load.stop()
    history.close()
    lines = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    milestones = [
        {"t": lines[-1]["t"] + 1, "event": name} for name in ("workload-stopped", "safety-ended", "converged")
    ]
    tmp_path.joinpath("harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in milestones))
    expect = {"min_acked": 1, "progress_within": 60, "opaque_versions": True}
    run = {"nodes": 1, "outcome": "finished", "expect": expect, "evidence": "history"}
    tmp_path.joinpath("run.json").write_text(json.dumps(run))
    verdict = judge(tmp_path, stored=False)
    assert verdict.violated == violated
    assert verdict.exit == bool(violated)
    assert careless or store.refused > 10


class Opaque(SystemBackend):
    name = "opaque"
    opaque_versions = True
    operations = frozenset({"get", "set", "cas"})

    def command(self, place: Any, defect: str | None) -> list[str]:
        return []

    def client(self, place: Any, timeout: float) -> Any:
        raise NotImplementedError


def test_a_written_operation_can_not_name_a_version() -> None:
    operation = {"at": 1, "do": "cas", "value": "x"}
    scenario = {"scenario": {"name": "one", "record": False}, "operation": [operation]}
    assert mistakes(Opaque(), build(scenario, "one")) == []
    scenario["operation"] = [operation | {"version": 3}]
    assert mistakes(Opaque(), build(scenario, "one")) == [
        "[[operation]] version can't be given on opaque: its versions are not known before it has answered"
    ]
