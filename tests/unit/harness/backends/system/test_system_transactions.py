"""Transactions of several keys: what a load draws, what a backend's client may answer, and what is recorded and judged."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.backends.system.test_system_load import OfStore, load_on
from zab_chaos.faults.scenario import Operation
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system import Failed, Get, Request, Set, Transaction, Unknown, committed, done
from zab_chaos.harness.backends.system.clients import SystemClient
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.backends.system.transactions import TransactionDraw
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.workload.operations import LoadParameters
from zab_chaos.model.oracle.oracle import judge

ENOUGH = 300  # answers
MIX = {"transaction": 3, "multi-get": 2, "set": 1, "get": 1}


def drawn(do: str, keys: int, number: int = 200) -> list[Transaction]:
    draw = TransactionDraw(LoadParameters(keys=keys, payload_bytes=8), 1, 1)
    return [draw.request(Operation(at=0.0, do=do, key=at % keys)) for at in range(number)]


def test_a_transaction_reads_first_then_writes_and_touches_each_key_once() -> None:
    kinds = set()
    for at, one in enumerate(drawn("transaction", 5)):
        reads = [step.path for step in one.steps if isinstance(step, Get)]
        writes = [step.path for step in one.steps if isinstance(step, Set)]
        assert [step.path for step in one.steps] == reads + writes
        assert len(set(reads)) == len(reads)
        assert len(set(writes)) == len(writes) > 0
        assert f"/key-{at % 5}" in reads + writes
        assert 2 <= len({*reads, *writes}) <= 4
        kinds |= {"both" if path in writes else "read" for path in reads} | {"write" for path in {*writes} - {*reads}}
        assert one.op == "transaction"
    assert kinds == {"read", "write", "both"}


def test_a_multi_get_only_reads() -> None:
    assert {type(step) for one in drawn("multi-get", 5) for step in one.steps} == {Get}
    assert {one.op for one in drawn("multi-get", 5)} == {"multi-get"}


def test_no_two_writes_have_the_same_data() -> None:
    data = [step.data for one in drawn("transaction", 5) for step in one.steps if isinstance(step, Set)]
    assert len(set(data)) == len(data)


def test_with_one_key_it_is_read_and_written() -> None:
    assert {len(one.steps) for one in drawn("transaction", 1)} == {1, 2}


ASKED = Transaction([Get("/a"), Get("/b"), Set("/c", b"3")])


def answered(folder: Path, answer: object, request: Request = ASKED, operations: set[str] | None = None) -> list[Any]:
    history, told = HistoryFile(folder / "ops.jsonl", OutcomeCounts()), []
    client = SystemClient({1: lambda: OfStore(lambda _: answer)}, 1, 1, 1.0, operations=operations)
    line = SocketLine(client, history)
    line.submit(request, told.append)
    line.wait(lambda: bool(told), 1.0)
    assert history.written == ["/c"]
    return told


@pytest.mark.parametrize(
    "answer", [committed([b"1", None]), Failed("conflict", ""), Failed("no leader", ""), Unknown("who knows")]
)
def test_each_kind_of_outcome_is_accepted(tmp_path: Path, answer: object) -> None:
    assert answered(tmp_path, answer) == [answer]


def test_the_steps_and_what_the_reads_found_are_recorded(tmp_path: Path) -> None:
    answered(tmp_path, committed([b"1", None]))
    invoke, complete = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert (invoke["op"], [step["op"] for step in invoke["steps"]]) == ("transaction", ["get", "get", "set"])
    assert (complete["outcome"], complete["values"]) == ("ok", [0x83DCEFB7, None])  # the CRC-32 of 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (done(b"1"), r"answer to transaction must be committed\(\.\.\.\)"),
        (committed([b"1"]), "a value .* for each of the 2 reads"),
        (committed([b"1", 2]), "a value .* for each of the 2 reads"),  # type: ignore[list-item]
        (Failed("bad version", ""), "no key is a reason to refuse a transaction.*'conflict'"),
    ],
)
def test_wrong_answers_are_named(tmp_path: Path, answer: object, words: str) -> None:
    with pytest.raises(BackendMistake, match=words):
        answered(tmp_path, answer)


def test_only_a_transaction_is_committed(tmp_path: Path) -> None:
    with pytest.raises(BackendMistake, match=r"answer to set must be done\(\.\.\.\)"):
        answered(tmp_path, committed(), Set("/c", b"3"))


def test_a_backend_without_transactions_gets_none(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match="the clients of this backend have no transaction; its `operations` are get, set"
    ):
        answered(tmp_path, committed(), operations={"get", "set"})


class Store:
    """A store whose transactions are atomic, or else see and show each other's halves."""

    def __init__(self, atomic: bool) -> None:
        self.held: dict[str, bytes] = {}
        self.answers = 0
        self.enough = threading.Event()
        self._atomic = atomic
        self._lock = threading.RLock()
        self._half_way = threading.Barrier(2)  # where two transactions wait for each other

    def ask(self, request: Request) -> object:
        with self._lock:
            self.answers += 1
            if self.answers >= ENOUGH:
                self.enough.set()
        if not isinstance(request, Transaction):
            with self._lock:
                return self._do(request)
        if self._atomic:
            with self._lock:
                return committed([found for step in request.steps for found in self._read(step)])
        first, *rest = request.steps
        found = self._read(first)
        try:
            self._half_way.wait(0.05)
        except threading.BrokenBarrierError:
            self._half_way.reset()
        return committed([*found, *(value for step in rest for value in self._read(step))])

    def _read(self, step: Get | Set) -> list[bytes | None]:
        """Do one step. Return what it found, if it is a read."""
        if isinstance(step, Get):
            return [self.held.get(step.path)]
        self.held[step.path] = step.data
        return []

    def _do(self, request: Request) -> object:
        if isinstance(request, Get):
            found = self.held.get(request.path)
            return done(found) if found is not None else Failed("no node", "")
        assert isinstance(request, Set)
        self.held[request.path] = request.data
        return done()


@pytest.mark.parametrize("atomic", [True, False])
def test_a_store_whose_transactions_are_not_atomic_is_found_out(tmp_path: Path, atomic: bool) -> None:
    store, history = Store(atomic), HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=4, rate=1000.0, keys=3, mix=MIX, payload_bytes=8)
    load = load_on(lambda: OfStore(store.ask), history, work, creates=False)
    load.start()
    assert store.enough.wait(60)
    load.stop()
    history.close()
    at = 1 + max(json.loads(line)["t"] for line in (tmp_path / "ops.jsonl").read_text().splitlines())
    milestones = [{"t": at, "event": name} for name in ("workload-stopped", "safety-ended", "converged")]
    tmp_path.joinpath("harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in milestones))
    said = {"nodes": 1, "outcome": "finished", "expect": {"min_acked": 1, "progress_within": 60}, "evidence": "history"}
    tmp_path.joinpath("run.json").write_text(json.dumps(said))
    verdict = judge(tmp_path, stored=False)
    assert verdict.violated == ([] if atomic else ["linearizable keys"]), verdict.reasons
    assert verdict.property("linearizable keys").checked > ENOUGH
