"""Transactions on lists: what a load draws, what a backend's client may answer, and what is recorded."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.unit.harness.backends.system.test_system_load import OfStore, load_on
from zab_chaos.faults.scenario import Operation, Scenario, ScenarioError, parse
from zab_chaos.harness.backends.attributes import wrong_attributes
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.fitting import fitted, mistakes
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.registry import find
from zab_chaos.harness.backends.system import (
    Append,
    Client,
    Failed,
    Get,
    ListTransaction,
    Place,
    ReadList,
    Request,
    SystemBackend,
    Transaction,
    Unknown,
    committed,
    done,
)
from zab_chaos.harness.backends.system.clients import SystemClient
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.lists import APPENDS_MAX, RECENTLY_RETIRED, ListDraw, ListKeys
from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.run import initial_facts
from zab_chaos.harness.workload.operations import LoadParameters

ENOUGH = 300  # answers
KEYS = 4

# ---- what is drawn ----


def drawn(do: str, keys: int = KEYS, number: int = 300, seed: int = 1) -> list[ListTransaction]:
    draw = ListDraw(LoadParameters(keys=keys), seed, 1, ListKeys(keys))
    return [draw.request(Operation(at=0.0, do=do, key=at % keys)) for at in range(number)]


def appends(transactions: Sequence[ListTransaction]) -> list[Append]:
    return [step for one in transactions for step in one.steps if isinstance(step, Append)]


def test_a_list_append_has_one_to_four_steps_and_at_least_one_append() -> None:
    found = drawn("list-append")
    assert {len(one.steps) for one in found} == {1, 2, 3, 4}
    assert {one.op for one in found} == {"list-append"}
    shapes = {"".join(type(step).__name__[0] for step in one.steps) for one in found}
    assert {"RA", "AR", "AA", "ARA"} <= shapes


def test_a_list_read_only_reads() -> None:
    found = drawn("list-read")
    assert {type(step) for one in found for step in one.steps} == {ReadList}
    assert {one.op for one in found} == {"list-read"}


def test_a_transaction_may_read_and_append_to_the_same_list() -> None:
    found = set()
    for at, one in enumerate(drawn("list-append", keys=1000, number=100)):
        kinds = [type(step).__name__ for step in one.steps if step.path == f"/list-{at + 1}"]
        found.add("".join(name[0] for name in kinds))
    assert {"RA", "AR", "AA"} <= found  # by chance they would seldom concern the same one of a thousand lists


def test_the_list_of_the_drawn_key_is_among_the_steps() -> None:
    """So a written operation says which list it concerns."""
    for at, one in enumerate(drawn("list-append", number=20)):
        assert f"/list-{at % KEYS + 1}" in {step.path for step in one.steps}


def test_the_elements_of_each_list_count_up_from_one_whoever_appends() -> None:
    lists, load = ListKeys(KEYS), LoadParameters(keys=KEYS)
    draws = [ListDraw(load, 1, client, lists) for client in (1, 2)]
    found = appends([draws[at % 2].request(Operation(at=0.0, do="list-append", key=at % KEYS)) for at in range(100)])
    for path in {one.path for one in found}:
        elements = [one.element for one in found if one.path == path]
        assert elements == list(range(1, len(elements) + 1))


def test_a_full_list_is_replaced_by_a_new_one() -> None:
    found = appends(drawn("list-append", number=2000))
    most = Counter(one.path for one in found)
    assert max(most.values()) == APPENDS_MAX
    assert len(most) > 2 * KEYS
    for at in range(len(found)):  # at any time there are as many lists in use as the workload has keys
        assert len({one.path for one in found[max(0, at - 10) : at]}) <= 2 * KEYS
    assert set(most) == {f"/list-{number}" for number in range(1, len(most) + 1)}


def test_a_replaced_list_is_still_read_for_a_while() -> None:
    """Its last elements may be lost before anybody has read them."""
    lists = ListKeys(1)
    draw = ListDraw(LoadParameters(keys=1), 1, 1, lists)
    for _ in range((RECENTLY_RETIRED + 2) * APPENDS_MAX):
        lists.append(0)
    read = {step.path for _ in range(1000) for step in draw.request(Operation(at=0.0, do="list-read", key=0)).steps}
    assert read == {f"/list-{number}" for number in range(3, RECENTLY_RETIRED + 4)}


def test_the_same_seed_draws_the_same_transactions() -> None:
    assert drawn("list-append") == drawn("list-append")
    assert drawn("list-append") != drawn("list-append", seed=2)


def test_the_key_after_the_last_one_has_a_list_of_its_own() -> None:
    lists = ListKeys(2)
    assert [lists.path(2), lists.append(2).path, lists.path(0), lists.path(1)] == [
        "/list-3", "/list-3", "/list-1", "/list-2",
    ]  # fmt: skip


# ---- what may be answered ----

ASKED = ListTransaction([ReadList("/a"), Append("/a", 3), ReadList("/b")])


def answered(folder: Path, answer: object, operations: set[str] | None = None, asked: Request = ASKED) -> list[Any]:
    history, told = HistoryFile(folder / "ops.jsonl", OutcomeCounts()), []
    client = SystemClient({1: lambda: OfStore(lambda _: answer)}, 1, 1, 1.0, operations=operations)
    line = SocketLine(client, history)
    line.submit(asked, told.append)  # type: ignore[arg-type]
    line.wait(lambda: bool(told), 1.0)
    assert (history.appended, history.written) == (["/a"] if asked is ASKED else [], [])
    return told


@pytest.mark.parametrize(
    "answer",
    [
        committed([[1, 2], []]),
        committed(((1, 2), ())),
        Failed("conflict", ""),
        Failed("no leader", ""),
        Failed("overloaded", ""),
        Unknown("who knows"),
    ],
)
def test_each_kind_of_outcome_is_accepted(tmp_path: Path, answer: object) -> None:
    assert answered(tmp_path, answer) == [answer]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (done(b"1"), r"answer to list-append must be committed\(\.\.\.\)"),
        (committed([[1, 2]]), r"a list of ints .* for each of the 2 reads, which is empty .*, not \[\[1, 2\]\]"),
        (committed([[1, 2], None]), "a list of ints .* for each of the 2 reads"),  # type: ignore[list-item]
        (committed([[1, 2], ["3"]]), "a list of ints .* for each of the 2 reads"),  # type: ignore[list-item]
        (committed([[True], []]), "a list of ints .* for each of the 2 reads"),
        (committed([b"1", None]), "a list of ints .* for each of the 2 reads"),
        (committed(iter([[1], []])), "a list of ints .* for each of the 2 reads"),  # type: ignore[arg-type]
        (Failed("no node", ""), "no key is a reason to refuse a transaction.*'conflict'"),
    ],
)
def test_wrong_answers_are_named(tmp_path: Path, answer: object, words: str) -> None:
    with pytest.raises(BackendMistake, match=words):
        answered(tmp_path, answer)


def test_a_transaction_on_values_has_no_lists(tmp_path: Path) -> None:
    with pytest.raises(BackendMistake, match=r"a value .* for each of the 1 reads, bytes or None"):
        answered(tmp_path, committed([[1]]), asked=Transaction([Get("/a")]))


def test_a_backend_without_lists_gets_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the clients of this backend have no list-append"):
        answered(tmp_path, committed(), operations={"get", "list-read"})


# ---- what is recorded ----


def test_the_steps_and_what_the_reads_found_are_recorded(tmp_path: Path) -> None:
    answered(tmp_path, committed([[1, 2], []]))
    invoke, complete = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert (invoke["op"], invoke["path"]) == ("list-append", "/b")
    assert invoke["steps"] == [
        {"op": "read", "path": "/a"},
        {"op": "append", "path": "/a", "value": 3},
        {"op": "read", "path": "/b"},
    ]
    assert (complete["outcome"], complete["lists"]) == ("ok", [[1, 2], []])
    assert not {"values", "value", "zxid"} & complete.keys()


def test_of_a_transaction_without_reads_no_list_is_recorded(tmp_path: Path) -> None:
    answered(tmp_path, committed(), asked=ListTransaction([]))
    assert json.loads((tmp_path / "ops.jsonl").read_text().splitlines()[1])["lists"] == []


class Store:
    """A store that has nothing but lists, with one transaction at a time."""

    def __init__(self) -> None:
        self.lists: dict[str, list[int]] = {}
        self.asked: list[Request] = []
        self.enough = threading.Event()
        self._lock = threading.Lock()

    def ask(self, request: Request) -> object:
        assert isinstance(request, ListTransaction)
        with self._lock:
            self.asked.append(request)
            if len(self.asked) >= ENOUGH:
                self.enough.set()
            return committed([found for step in request.steps for found in self._do(step)])

    def _do(self, step: ReadList | Append) -> list[list[int]]:
        held = self.lists.setdefault(step.path, [])
        if isinstance(step, ReadList):
            return [list(held)]
        held.append(step.element)
        return []


def test_a_load_that_has_only_lists_begins_with_an_append_to_each(tmp_path: Path) -> None:
    store, history = Store(), HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=3, rate=1000.0, keys=KEYS, mix={"list-append": 2, "list-read": 1, "set": 0})
    load = load_on(lambda: OfStore(store.ask), history, work, creates=False)
    load.start()
    assert store.enough.wait(60)
    load.stop()
    history.close()
    assert store.asked[:KEYS] == [ListTransaction([Append(f"/list-{number}", 1)]) for number in range(1, KEYS + 1)]
    kinds = Counter(one.op for one in store.asked if isinstance(one, ListTransaction))
    assert kinds["list-append"] > kinds["list-read"] > 0
    for held in store.lists.values():  # no two appends to a list have the same element
        assert sorted(held) == list(range(1, len(held) + 1))
    lines = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert {line["outcome"] for line in lines if line["type"] == "complete"} == {"ok"}


# ---- the backend and the level ----


class Lists(SystemBackend):
    name = "lists"
    operations = frozenset({"list-append", "list-read"})

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        return []

    def client(self, place: Place, timeout: float) -> Client:
        raise NotImplementedError


class Weak(Lists):
    isolation: ClassVar[str] = "read-committed"


class Half(Lists):
    operations = frozenset({"get", "list-append"})


class Plain(Lists):
    operations = frozenset({"get", "set"})


HEAD = '[scenario]\nname = "asked"\n'
LEVEL = f'{HEAD}[expect]\nisolation = "snapshot-isolation"\n'


@pytest.mark.parametrize(
    ("backend", "text", "level"),
    [
        (Lists, HEAD, "strict-serializable"),
        (Weak, HEAD, "read-committed"),
        (Weak, LEVEL, "snapshot-isolation"),
        (Plain, HEAD, None),
    ],
)
def test_a_run_is_judged_by_the_backends_level_unless_the_scenario_names_one(
    backend: type[SystemBackend], text: str, level: str | None, tmp_path: Path
) -> None:
    facts = initial_facts(parse(text), RunOptions(seed=1, results=tmp_path, command=""), RunFolder(tmp_path), backend())
    assert facts["expect"].get("isolation") == level
    assert ("isolation" in facts["expect"]) is (level is not None)


def test_our_own_backends_have_no_level(tmp_path: Path) -> None:
    options = RunOptions(seed=1, results=tmp_path, command="")
    for name in ("sim", "processes"):
        assert "isolation" not in initial_facts(parse(HEAD), options, RunFolder(tmp_path), find(name))["expect"]


@pytest.mark.parametrize("level", ["serialisable", "", None, 3, ["serializable"]])
def test_a_backend_has_one_of_the_levels(level: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong_attributes(Weak(), Weak.forms) == []
    monkeypatch.setattr(Weak, "isolation", level)
    (wrong,) = wrong_attributes(Weak(), Weak.forms)
    assert wrong.startswith("`isolation` must be one of 'strict-serializable', ")
    assert wrong.endswith(f"not {level!r}")


def test_a_level_is_refused_where_there_are_no_transactions_on_lists() -> None:
    assert mistakes(Lists(), parse(LEVEL)) == []
    for backend in (Plain(), find("sim"), find("zookeeper")):
        (wrong,) = mistakes(backend, parse(LEVEL))
        assert wrong == (
            f"[expect] isolation = 'snapshot-isolation' can't be judged on {backend.name}: its clients have no transactions "
            "on lists, which are list-append and list-read"
        )


def test_a_backend_has_both_kinds_of_transactions_on_lists_or_none() -> None:
    assert mistakes(Half(), parse(HEAD)) == [
        "`operations` of lists must have all of 'list-append', 'list-read', or none of them"
    ]


def test_the_default_load_of_a_backend_that_has_only_lists_consists_of_these() -> None:
    mix = fitted(Lists(), parse(HEAD)).workload.mix
    assert set(mix) == {"list-append", "list-read"}
    assert set(fitted(Plain(), parse(HEAD)).workload.mix) == {"get", "set"}


def operation(do: str) -> Scenario:
    return parse(f'{HEAD}[[operation]]\nat = 1\ndo = "{do}"\nkey = 2\n')


@pytest.mark.parametrize("do", ["list-append", "list-read"])
def test_a_scenario_may_list_them_one_by_one(do: str) -> None:
    assert mistakes(Lists(), operation(do)) == []
    (wrong,) = mistakes(Plain(), operation(do))
    assert wrong == f"{do} can't be asked for on lists; its clients know get, set"
    (one,) = operation(do).operations
    asked = ListDraw(LoadParameters(keys=KEYS), 1, 1, ListKeys(KEYS)).request(one)
    assert asked.op == do
    assert "/list-3" in {step.path for step in asked.steps}


def test_levels_are_read_and_written_with_a_scenario() -> None:
    assert parse(LEVEL).expect.isolation == "snapshot-isolation"
    assert parse(parse(LEVEL).to_toml()) == parse(LEVEL)
    assert "isolation" not in parse(HEAD).to_toml()
    with pytest.raises(
        ScenarioError, match=r"'serializeable' .*Allowed: one of strict-serializable, .*Did you mean serializable"
    ):
        parse(LEVEL.replace("snapshot-isolation", "serializeable"))
