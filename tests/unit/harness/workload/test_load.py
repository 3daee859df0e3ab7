"""The operations of the workload: they are drawn from the seed, and every write is unique."""

import collections
import re

import pytest

from zab_chaos.faults.scenario import AT_ROOT, NUMBERED, OPERATIONS, REFUSED, REPLACE, Operation
from zab_chaos.harness.workload.operations import (
    AHEAD_MAX,
    VERSION_MAX,
    Agenda,
    Draw,
    LoadParameters,
    written_operations,
)
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Failed, Ok, Stat
from zab_chaos.node.tree.requests import ANY, Check, Create, Delete, Get, Multi, Request, Set

EVERYTHING = dict.fromkeys(OPERATIONS, 1.0)


def draw(load: LoadParameters, seed: int = 1, client: int = 1, count: int = 400) -> list[Request]:
    drawn = Draw(load, seed, client)
    return [drawn.request(drawn.choose()) for _ in range(count)]


def path_of(request: Request) -> str:
    assert isinstance(request, Create)
    assert not request.sequential
    return request.path


def test_one_seed_one_sequence_for_each_client() -> None:
    load = LoadParameters(mix=EVERYTHING)
    assert draw(load) == draw(load)
    assert draw(load) == draw(LoadParameters(mix=dict(reversed(EVERYTHING.items()))))
    assert draw(load) != draw(load, seed=2)
    assert draw(load) != draw(load, client=2)


def test_operations_are_drawn_with_the_weights_of_the_mix() -> None:
    counts = collections.Counter(
        type(request).__name__.lower() for request in draw(LoadParameters(mix={"set": 3, "get": 1}), count=4000)
    )
    assert set(counts) == {"set", "get"}
    assert 2800 < counts["set"] < 3200
    drawn = Draw(LoadParameters(mix=EVERYTHING), 1, 1)
    assert {drawn.choose().do for _ in range(400)} == set(OPERATIONS)


@pytest.mark.parametrize("size", [0, 3, 100])
def test_every_payload_is_unique_and_padded(size: int) -> None:
    load = LoadParameters(payload_bytes=size)
    payloads = [d.payload() for d in (Draw(load, 1, 1), Draw(load, 1, 2), Draw(load, 1, 11)) for _ in range(200)]
    assert len(set(payloads)) == 600
    assert all(len(payload) == 100 for payload in payloads) or size < 100
    assert all(re.match(rb"(1|2|11)\.\d+\.", payload) for payload in payloads)


def test_deletes_take_the_clients_own_children_oldest_first() -> None:
    requests = draw(LoadParameters(mix={"create": 1, "delete": 1}))
    assert {request.version for request in requests if isinstance(request, Delete)} == {ANY, 0, 1}
    created = [request.path for request in requests if isinstance(request, Create)]
    deleted = [request.path for request in requests if isinstance(request, Delete)]
    first = list(dict.fromkeys(deleted))
    assert first
    assert first == list(dict.fromkeys(created))[: len(first)]


def test_the_child_that_was_deleted_last_is_now_and_then_deleted_or_created_once_more() -> None:
    last, again = None, collections.Counter[type]()
    seen = set()
    for request in draw(LoadParameters(mix={"create": 1, "delete": 1})):
        assert isinstance(request, Create | Delete)
        if request.path in seen and isinstance(request, Create):
            assert request.path == last
            again[Create] += 1
        elif request.path == last:
            again[Delete] += 1
        elif isinstance(request, Delete):
            last = request.path
        seen.add(request.path)
    assert again[Create] > 0
    assert again[Delete] > 0


def test_a_check_names_the_version_seen_last() -> None:
    drawn = Draw(LoadParameters(mix={"check": 1}, keys=1), 1, 1)
    assert drawn.request(drawn.choose()) == Check("/key-0", ANY)
    drawn.learn(Set("/key-0", b""), Ok(Zxid(1), 4))
    drawn.learn(Multi([Set("/key-0", b"")]), Ok(Zxid(2)))
    drawn.learn(Set("/key-0", b""), Failed("bad version", ""))
    assert drawn.request(drawn.choose()) == Check("/key-0", 4)


def test_a_condition_names_the_version_seen_last_or_the_one_before() -> None:
    drawn = Draw(LoadParameters(mix={"cas": 1}, keys=1), 1, 1)
    drawn.learn(Set("/key-0", b""), Ok(Zxid(1), 4))
    requests = [drawn.request(drawn.choose()) for _ in range(200)]
    versions = collections.Counter(request.version for request in requests if isinstance(request, Set))
    assert set(versions) == {3, 4}
    assert versions[4] > versions[3]


def test_sequential_children_are_deleted_under_the_name_that_the_answer_told() -> None:
    drawn = Draw(LoadParameters(mix={"sequential": 1}, keys=1), 1, 7)
    asked = drawn.request(drawn.choose())
    assert isinstance(asked, Create)
    assert asked.sequential
    drawn.learn(asked, Ok(Zxid(1), 0, path="/key-0/7-0000000003"))
    gone = drawn.request(Operation(at=0, do="delete"))
    assert isinstance(gone, Delete)
    assert gone.path == "/key-0/7-0000000003"


def test_clients_create_fill_and_delete_a_znode_that_they_share() -> None:
    """A client deletes its own children of the shared znode first."""
    drawn = Draw(LoadParameters(mix={"create": 1, "sequential": 1, "delete": 1}, keys=2), 1, 1)
    requests = []
    for number in range(400):
        request = drawn.request(drawn.choose())
        requests.append(request)
        if isinstance(request, Create) and request.sequential:
            drawn.learn(request, Ok(Zxid(1), 0, path=f"{request.path}{number:010}"))
    shared = [one for one in requests if getattr(one, "path", "").startswith("/key-2")]
    assert 0.3 < len(shared) / len(requests) < 0.5
    done = [(type(one), one.path == "/key-2") for one in shared if isinstance(one, Create | Delete)]
    assert set(done) == {(Create, True), (Create, False), (Delete, True), (Delete, False)}
    children = [one for one in shared if isinstance(one, Create) and one.path != "/key-2"]
    assert all(one.sequential for one in children)
    assert len({one.path for one in shared if isinstance(one, Delete) and one.path != "/key-2"}) > len(children) / 2


@pytest.mark.parametrize("mix", [{"create": 1, "delete": 1}, {"delete": 1}, {"sequential": 1, "delete": 1}])
def test_without_all_kinds_of_changes_no_znode_is_shared(mix: dict[str, float]) -> None:
    requests = draw(LoadParameters(mix=mix, keys=2))
    assert [one for one in requests if getattr(one, "path", "").startswith("/key-2")] == []


def test_some_sequential_children_are_called_by_their_number_alone() -> None:
    drawn = draw(LoadParameters(mix={"sequential": 1}, keys=1), client=7)
    paths = collections.Counter(request.path for request in drawn if isinstance(request, Create))
    assert set(paths) == {"/key-0/7-", "/key-0/"}
    assert 80 < paths["/key-0/"] < 160


def test_the_root_has_sequential_children_too() -> None:
    drawn = draw(LoadParameters(mix={AT_ROOT: 1}, keys=1), client=7)
    paths = {request.path for request in drawn if isinstance(request, Create) and request.sequential}
    assert paths == {"/7-", "/"}


def test_some_names_are_numbers_that_sequential_children_will_soon_have() -> None:
    drawn = Draw(LoadParameters(keys=1), 1, 1)
    numbered = Operation(at=0.0, do=NUMBERED)
    first = {int(path_of(drawn.request(numbered)).removeprefix("/key-0/")) for _ in range(100)}
    assert first == set(range(AHEAD_MAX))
    drawn.learn(Create("/key-0/1-", b"", sequential=True), Ok(Zxid(1), 0, "/key-0/1-0000000041"))
    later = {path_of(drawn.request(numbered)) for _ in range(100)}
    assert later == {f"/key-0/{number:010d}" for number in range(42, 42 + AHEAD_MAX)}
    drawn.learn(
        Create("/key-0/1-", b"", sequential=True), Ok(Zxid(1), 0, "/key-0")
    )  # a wrong answer: the judge reports it
    assert {path_of(drawn.request(numbered)) for _ in range(100)} == later


def test_a_key_or_a_child_is_deleted_and_created_again_in_one_multi() -> None:
    multis = [one for one in draw(LoadParameters(mix={REPLACE: 1, "create": 1}, keys=1)) if isinstance(one, Multi)]
    conditions = collections.defaultdict(set)
    for deletes, creates in (one.steps for one in multis):
        assert isinstance(deletes, Delete)
        assert isinstance(creates, Create)
        assert deletes.path == creates.path
        conditions[deletes.path == "/key-0"].add(deletes.version)
    assert conditions == {True: {ANY, 0}, False: {ANY, 0, 1}}


def test_what_every_state_refuses() -> None:
    """There is no /key-0/none, there is a /key-0, and no znode has so high a version."""
    drawn = draw(LoadParameters(mix={REFUSED: 1}, keys=1))
    assert {type(one) for one in drawn} == {Create, Set, Delete, Check, Multi}
    for one in drawn:
        last = one.steps[-1] if isinstance(one, Multi) else one
        exists = isinstance(last, Create) and last.path == "/key-0"
        has_child = isinstance(one, Multi) and one.steps == [Create("/key-0/none", one.steps[0].data), Delete("/key-0")]
        assert exists or has_child or last.path.startswith("/key-0/none") or getattr(last, "version", 0) == VERSION_MAX


def test_some_multis_are_made_of_any_steps() -> None:
    """So that the creation of a child comes first, or alone, or twice, and what is refused comes behind it or not at all."""
    multis = [request for request in draw(LoadParameters(mix={"multi": 1}, keys=8)) if isinstance(request, Multi)]
    composed = [multi for multi in multis if len({step.path.split("/")[1] for step in multi.steps}) > 2]
    assert len(composed) > 60
    assert {type(multi.steps[0]) for multi in composed} == {Create, Delete, Set, Check}
    assert any(isinstance(step, Create) and step.sequential for multi in composed for step in multi.steps)
    data = [step.data for multi in composed for step in multi.steps if isinstance(step, (Set, Create))]
    assert len(set(data)) == len(data)


def test_the_versions_of_a_multi_s_steps_are_remembered() -> None:
    drawn = Draw(LoadParameters(keys=1), 1, 1)
    drawn.learn(Multi([Set("/key-0", b"")]), Ok(Zxid(2), steps=[Stat("/key-0", 9)]))
    assert drawn.request(Operation(at=0, do="check")) == Check("/key-0", 9)


def test_some_multis_must_be_refused_behind_their_first_step() -> None:
    drawn = draw(LoadParameters(mix={"multi": 1}, keys=2), count=800)
    multis = [request for request in drawn if isinstance(request, Multi)]
    assert {len(multi.steps) for multi in multis} == set(range(1, 10))
    refused = [
        number
        for multi in multis
        for number, step in enumerate(multi.steps)
        if isinstance(step, Set) and step.path.endswith("/none")
    ]
    assert refused
    assert 0 not in refused


def test_some_multis_depend_on_their_earlier_steps() -> None:
    """On a last child that is deleted, a new child, a changed version, or a missing parent."""
    multis = [request for request in draw(LoadParameters(mix={"multi": 1}, keys=2)) if isinstance(request, Multi)]
    kinds = {tuple(type(step).__name__[0] for step in multi.steps if step.path.count("/") > 1) for multi in multis}
    assert {("C", "C", "D", "D"), ("C", "C", "S", "D"), ("C", "S", "D")} <= kinds
    assert any(step.path.endswith("/none/none") for multi in multis for step in multi.steps)


def test_clients_move_as_often_as_they_should() -> None:
    load = LoadParameters(rate=100, moves=10, nodes=3, mix={"get": 1})
    drawn = Draw(load, 1, 1)
    nodes = collections.Counter(drawn.choose().node for _ in range(3000))
    assert set(nodes) == {None, 1, 2, 3}
    assert 220 < 3000 - nodes[None] < 380
    still = Draw(LoadParameters(rate=100, nodes=3, mix={"get": 1}), 1, 1)
    assert {still.choose().node for _ in range(100)} == {None}


def test_new_sessions_begin_as_often_as_they_should_and_at_any_node() -> None:
    drawn = Draw(LoadParameters(rate=100, visits=10, nodes=3, mix={"get": 1}), 1, 1)
    visits = [asked.node for asked in (drawn.choose() for _ in range(3000)) if asked.anew]
    assert 220 < len(visits) < 380
    assert set(visits) == {1, 2, 3}


def test_a_burst_is_due_at_once() -> None:
    load = LoadParameters(clients=2, rate=10, keys=1, mix={"get": 1}, burst=2)
    agenda = Agenda(load, 1, 1)
    due = []
    for _ in range(5):
        due.append(agenda.due_ns)
        agenda.next_operation()
    assert due == [0, 0, 400_000_000, 400_000_000, 800_000_000]


def test_a_written_operation_becomes_its_request() -> None:
    operations = (
        Operation(at=0.0, do="set", version=3, value="hello", node=2),
        Operation(at=0.1, do="cas", version=4),
        Operation(at=0.2, do="set", awaits="X", node="Z"),
    )
    agenda = Agenda(LoadParameters(keys=1, payload_bytes=0, operations=operations), 1, 1)
    assert agenda.next_operation() == (Set("/key-0", b"hello", 3), operations[0])
    assert not agenda.waits_for_fault({})
    assert agenda.next_operation() == (Set("/key-0", b"1.1.", 4), operations[1])
    assert agenda.waits_for_fault({"Y": (1,), "Z": (2,)})
    assert agenda.waits_for_fault({"X": (1,), "Y": (1,)})
    assert not agenda.waits_for_fault({"X": (1,), "Z": (2,)})


def test_a_written_replacement_has_the_version_that_it_is_given() -> None:
    drawn = Draw(LoadParameters(keys=2), 1, 1)
    drawn.request(Operation(at=0.0, do="create"))  # a child, which could be replaced instead
    for version in range(20):
        multi = drawn.request(Operation(at=0.0, do=REPLACE, key=1, version=version, value="x"))
        assert multi == Multi([Delete("/key-1", version), Create("/key-1", b"x")])


@pytest.mark.parametrize("mix", [{}, {"set": 0.0}])
def test_a_mix_needs_a_weight(mix: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="one above 0"):
        LoadParameters(mix=mix)


WRITTEN = (
    Operation(at=0.5, client=2, key=1),
    Operation(at=1.0, do="create"),
    Operation(at=2.0, do="delete"),
    Operation(at=3.0, do="get", client=2),
)


def taken(load: LoadParameters, client: int) -> list[tuple[int, Request]]:
    """Return a client's operations with their times: all of them, or the first three."""
    agenda, found = Agenda(load, 1, client), []
    while len(found) < 3 and (due := agenda.due_ns) is not None:
        found.append((due, agenda.next_operation()[0]))
    return found


def test_nothing_is_drawn_if_operations_are_written() -> None:
    load = LoadParameters(clients=3, keys=2, payload_bytes=0, operations=WRITTEN)
    created = Create("/key-0/1-1", b"1.1.")
    assert taken(load, 1) == [(1_000_000_000, created), (2_000_000_000, Delete(created.path))]
    assert taken(load, 2) == [(500_000_000, Set("/key-1", b"2.1.")), (3_000_000_000, Get("/key-0"))]
    assert taken(load, 3) == []
    assert [load.due_by(int(seconds * 1e9)) for seconds in (0, 1, 2.5, 9)] == [0, 2, 3, 4]


def test_the_clients_of_a_drawn_load_take_turns() -> None:
    load = LoadParameters(clients=2, rate=10, keys=1, mix={"get": 1})
    assert [due for due, _ in taken(load, 1)] == [0, 200_000_000, 400_000_000]
    assert [due for due, _ in taken(load, 2)] == [100_000_000, 300_000_000, 500_000_000]
    assert load.due_by(1_000_000_000) == 10


def test_the_written_operations_of_a_drawn_load_make_the_same_requests() -> None:
    drawn = LoadParameters(clients=3, rate=30, mix=EVERYTHING, keys=4, moves=10, visits=5, nodes=5)
    written = written_operations(drawn, 7, 2.0)
    assert len(written) == 60
    assert [one.at for one in written] == sorted(one.at for one in written)
    assert any(one.anew for one in written)
    again = LoadParameters(clients=3, keys=4, operations=written)
    for client in (1, 2, 3):
        before, after = Agenda(drawn, 7, client), Agenda(again, 7, client)
        assert [before.next_operation()[0] for _ in range(20)] == [after.next_operation()[0] for _ in range(20)]
        assert after.due_ns is None
