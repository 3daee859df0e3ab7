"""The client against nodes with real ports, sessions and trees."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from tests.unit.harness.client.fake_ensemble import FakeEnsemble
from zab_chaos.harness.client import connect, leaderless
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.core import ClientCore, Operation
from zab_chaos.harness.client.leaderless import LEADERLESS_NS, Leaderless
from zab_chaos.node.clients.protocol import BATCH_BYTES, Answers, Welcome, encode
from zab_chaos.node.core.zxid import zxid
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Stat, Unknown
from zab_chaos.node.tree.requests import Check, Create, Delete, Get, Request, Set, Step
from zab_chaos.node.tree.txns import CreateTxn, FenceTxn, SetTxn, decode


def test_every_operation_and_its_answer(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys, node=2) as client:
        assert client.create("/a", b"x") == Ok(zxid(1, 1), 0, "/a")
        assert client.create("/a/n-", sequential=True) == Ok(zxid(1, 2), 0, "/a/n-0000000000")
        assert client.set("/a", b"y", version=0) == Ok(zxid(1, 3), 1)
        assert client.get("/a") == Ok(zxid(1, 3), 1, data=b"y")
        assert client.exists("/no") == Ok(zxid(1, 3))
        assert client.children("/a") == Ok(zxid(1, 3), 1, children=["n-0000000000"])
        assert client.check("/a", 1) == Ok(zxid(1, 4), 1)
        assert client.delete("/a") == Failed(
            "not empty", "/a has 1 children; a znode with children is not deleted", zxid(1, 4)
        )
        assert client.delete("/a/n-0000000000") == Ok(zxid(1, 5))
        steps: list[Step] = [Check("/a", 1), Create("/b"), Set("/a", b"z")]
        assert client.multi(steps) == Ok(zxid(1, 6), steps=[Stat("/a", 1), Stat("/b", 0), Stat("/a", 2)])
        assert client.node == 2
        assert client.core.seen == zxid(1, 6)


def test_many_outstanding_requests_are_answered_in_order(ensemble: FakeEnsemble) -> None:
    """More than fit into one message, with refusals among them. `then` is called once for each."""
    heard: list[tuple[Operation, Outcome]] = []
    with Client(ensemble.addresses, ensemble.keys) as client:
        client.create("/a")
        operations = []
        for number in range(1500):
            request = (Set("/a", b"%d" % number), Get("/a"), Check("/a", -5))[number % 3]
            operations.append(client.submit(request, lambda o, outcome: heard.append((o, outcome))))
        client.wait(operations[-1])
    assert [operation for operation, _ in heard] == operations
    for number, operation in enumerate(operations):
        outcome = operation.outcome
        assert isinstance(outcome, Failed if number % 3 == 2 else Ok)
        if number % 3 == 1:
            assert isinstance(outcome, Ok)
            assert outcome.data == b"%d" % (number - 1)


def test_large_data_travels_in_several_messages(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys) as client:
        operations = [client.submit(Create(f"/{number}", bytes(900_000))) for number in range(6)]
        assert all(isinstance(client.wait(operation), Ok) for operation in operations)
        outcome = client.create("/too-large", bytes(2**20 + 1))
        assert isinstance(outcome, Failed)
        assert outcome.error == "too large"


def test_a_client_that_sends_too_large_a_request_is_disconnected_with_a_reason(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys) as client:
        outcome = client.create("/huge", bytes(5 * 2**20))
        assert isinstance(outcome, Unknown)
        assert "at most 4456448 are allowed" in outcome.why
        assert isinstance(client.create("/small"), Ok)


def test_a_client_moves_on_and_never_reads_backwards(ensemble: FakeEnsemble) -> None:
    """Node 2 is behind what the client saw at node 1; the read waits there until node 2 has caught up."""
    with Client(ensemble.addresses, ensemble.keys, node=1) as client:
        assert isinstance(client.create("/a", b"old"), Ok)
        ensemble.nodes[2].delivering = False
        written = client.set("/a", b"new")
        ensemble.nodes[1].stop()
        while client.node == 1 or not client.connected:
            client.poll(0.01)
        assert client.node == 2
        read = client.submit(Get("/a"))
        for _ in range(10):
            client.poll(0.01)
        assert read.outcome is None
        ensemble.nodes[2].delivering = True
        answer = client.wait(read)
        assert isinstance(written, Ok)
        assert answer == Ok(written.zxid, 1, data=b"new")
        assert read.node == 2


def test_a_new_session_has_no_state_of_the_last_one(ensemble: FakeEnsemble) -> None:
    """Node 2 is behind what the last session has seen at node 1; the new session gets node 2's older state."""
    with Client(ensemble.addresses, ensemble.keys, node=1, number=7) as client:
        ensemble.nodes[2].delivering = False
        assert isinstance(client.create("/a"), Ok)
        lost = client.submit(Set("/a", b"new"))
        client.flush()
        client.core.begin_new_session(17, time.monotonic_ns())
        client.move(2)
        assert (client.number, lost.outcome) == (17, Unknown("the client was closed"))
        read = client.submit(Get("/a"))
        assert isinstance(client.wait(read), Failed)
        assert (read.seq, client.core.fence) == (1, 0)


def test_operations_sent_to_a_node_that_dies_become_unknown(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys, node=1) as client:
        assert isinstance(client.create("/a"), Ok)
        ensemble.nodes[1].delivering = False
        sent = [client.submit(Set("/a", b"1")), client.submit(Get("/a"))]
        length = len(ensemble.log)
        while len(ensemble.log) == length:  # until the write is at the node, and committed
            client.poll(0.01)
        ensemble.nodes[1].stop()
        assert all(isinstance(client.wait(operation), Unknown) for operation in sent)
        assert isinstance(client.get("/a"), Ok)


def test_an_unknown_write_has_taken_effect_before_the_look_up_or_never_will(ensemble: FakeEnsemble) -> None:
    """Node 1 forwards the write to the leader long after the session has moved to another node."""
    with (
        Client(ensemble.addresses, ensemble.keys, node=1, timeout=0.5) as client,
        Client(ensemble.addresses, ensemble.keys, node=2) as other,
    ):
        assert isinstance(client.create("/a", b"old"), Ok)
        ensemble.nodes[1].passing = False
        assert isinstance(client.set("/a", b"lost"), Unknown)
        assert client.core.fence == 2
        found = client.get("/a")
        assert isinstance(found, Ok)
        assert (client.node, found.data) == (2, b"old")
        assert ensemble.nodes[1].waiting == 1
        ensemble.nodes[1].passing = True
        while ensemble.nodes[1].waiting:
            assert isinstance(other.check("/a"), Ok)
        assert client.get("/a") == Ok(zxid(1, len(ensemble.log)), 0, data=b"old")
    kinds = [type(decode(data).change) for data in ensemble.log]
    assert kinds[:2] == [CreateTxn, FenceTxn]
    assert SetTxn not in kinds


def test_operations_not_sent_yet_move_with_the_client(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys, node=1) as client:
        ensemble.nodes[1].stop()
        operation = client.submit(Create("/a"))
        assert isinstance(client.wait(operation), Ok)
        assert operation.node == 2


def test_operations_become_unknown_not_failed_when_the_leader_is_lost(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys, node=1) as client:
        assert isinstance(client.create("/a"), Ok)
        ensemble.nodes[1].delivering = False
        length = len(ensemble.log)
        passed = client.submit(Set("/a", b"1"))
        while len(ensemble.log) == length:
            client.poll(0.01)
        ensemble.nodes[1].leaderless = True
        assert client.wait(passed) == Unknown("the leader was lost")
        outcome = client.set("/a", b"2")
        assert isinstance(outcome, Failed)
        assert outcome.error == "no leader"


@pytest.fixture
def left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderless, "LEADERLESS_NS", LEADERLESS_NS // 20)


@pytest.mark.usefixtures("left_soon")
def test_a_node_that_stays_without_a_leader_is_left_and_nothing_becomes_unknown(ensemble: FakeEnsemble) -> None:
    outcomes: list[Outcome] = []
    with Client(ensemble.addresses, ensemble.keys, node=1) as client:
        assert isinstance(client.create("/a"), Ok)
        ensemble.nodes[1].leaderless = True
        while client.node == 1 or not outcomes or not isinstance(outcomes[-1], Ok):
            while client.outstanding < 20:
                client.submit(Set("/a", b"1"), lambda _operation, outcome: outcomes.append(outcome))
            client.poll(0.01)
        assert client.node == 2
        assert client.last_trouble == "node 1 has no leader"
        assert {outcome.error if isinstance(outcome, Failed) else type(outcome) for outcome in outcomes} == {
            "no leader",
            Ok,
        }


@pytest.mark.usefixtures("left_soon")
def test_the_only_node_is_not_left(ensemble: FakeEnsemble) -> None:
    with Client({1: ensemble.addresses[1]}, ensemble.keys) as client:
        assert isinstance(client.create("/a"), Ok)
        ensemble.nodes[1].leaderless = True
        while not client.core._leaderless.given_up:
            assert isinstance(client.set("/a", b"1"), Failed)
        assert isinstance(client.set("/a", b"1"), Failed)
        assert client.connected


def test_a_node_without_a_leader_for_a_moment_is_not_left() -> None:
    node, write = Leaderless(), Set("/a", b"1")
    no_leader, bad_version = Failed("no leader", ""), Failed("bad version", "")
    node.note_answer(write, no_leader, 0)
    node.note_answer(Get("/a"), Ok(zxid(1, 1)), LEADERLESS_NS // 2)  # needs no leader, and tells of none
    node.note_answer(write, no_leader, LEADERLESS_NS - 1)
    assert not node.given_up
    node.note_answer(write, bad_version, LEADERLESS_NS)  # a leader's answer
    node.note_answer(write, no_leader, LEADERLESS_NS + 1)
    node.note_answer(write, no_leader, 2 * LEADERLESS_NS)
    assert not node.given_up
    node.note_answer(write, no_leader, 2 * LEADERLESS_NS + 1)
    assert node.given_up


def test_a_node_that_answers_reads_without_a_leader_is_left() -> None:
    node, no_leader = Leaderless(), Failed("no leader", "")
    node.note_answer(Set("/a", b"1"), no_leader, 0)
    node.note_answer(Get("/a"), Ok(zxid(1, 1)), LEADERLESS_NS // 2)
    node.note_answer(Set("/a", b"1"), no_leader, LEADERLESS_NS)
    assert node.given_up


def test_a_timeout_is_unknown(ensemble: FakeEnsemble) -> None:
    with Client({1: ensemble.addresses[1]}, ensemble.keys, timeout=0.2) as client:
        assert client.connect(10)
        ensemble.nodes[1].delivering = False
        outcome = client.create("/a")
        assert isinstance(outcome, Unknown)
        assert "no answer within 0.2 s" in outcome.why


def test_without_any_node_an_operation_is_unknown_in_time(unused_address: str) -> None:
    with Client([unused_address], Keys(*zmq.curve_keypair()), timeout=0.2) as client:
        assert not client.connect(0.05)
        assert isinstance(client.create("/a"), Unknown)
        assert "refused" in client.last_trouble


def test_another_runs_key_gets_nowhere(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, Keys(*zmq.curve_keypair()), timeout=0.3) as client:
        assert isinstance(client.create("/a"), Unknown)
    assert ensemble.log == []


def test_a_request_that_cannot_be_encoded_fails_alone(ensemble: FakeEnsemble) -> None:
    with Client(ensemble.addresses, ensemble.keys) as client:
        good, bad = client.submit(Create("/a")), client.submit(Set("/a", b"", 2**70))
        surrogate, after = client.submit(Get("/\ud800")), client.submit(Get("/a"))
        assert isinstance(client.wait(after), Ok)
        assert isinstance(good.outcome, Ok)
        for operation in (bad, surrogate):
            assert isinstance(operation.outcome, Failed)
            assert operation.outcome.error == "bad request"


def test_two_clients_with_one_number_the_later_one_wins(ensemble: FakeEnsemble) -> None:
    one = Client({1: ensemble.addresses[1]}, ensemble.keys, number=5)
    assert isinstance(one.create("/a"), Ok)
    other = Client({1: ensemble.addresses[1]}, ensemble.keys, number=5)
    assert isinstance(other.get("/a"), Ok)
    while one.connected:
        one.poll()
    assert "connected again" in one.last_trouble
    one.close()
    assert isinstance(other.get("/a"), Ok)
    other.close()


def test_closing_makes_the_outstanding_unknown(ensemble: FakeEnsemble) -> None:
    ensemble.nodes[1].delivering = False
    client = Client(ensemble.addresses, ensemble.keys, node=1)
    assert client.connect(10)
    sent = client.submit(Create("/a"))
    client.flush()
    unsent = client.submit(Create("/b"))
    client.close()
    assert sent.outcome == unsent.outcome == Unknown("the client was closed")


def test_a_client_that_is_closed_or_moved_when_it_learns_an_outcome_stays_so() -> None:
    class Wire:
        def send(self, frame: bytes) -> bool:
            return True

        def close(self, linger_ms: int = 0) -> None: ...

    def answered(act: Callable[[ClientCore], None]) -> tuple[ClientCore, list[int]]:
        dialed: list[int] = []
        core = ClientCore(
            {n: f"n{n}" for n in (1, 2, 3)}, lambda node: dialed.append(node) or Wire(), number=1, timeout_ns=10**12
        )  # type: ignore[func-returns-value]
        core.turn(1)
        core.turn(2, [encode(Welcome())])
        for _ in range(2):
            core.submit(Get("/a"), 2, lambda operation, outcome: act(core))
        core.turn(3)
        core.turn(10**10, [encode(Answers([(1, Ok(zxid(1, 1), 0))]))], broken="the connection broke")
        core.turn(10**10 + 1)
        return core, dialed

    core, dialed = answered(lambda core: core.close(10**10))
    assert (core.outstanding, core.connection, core.last_trouble) == (0, None, "the client was closed")
    assert (dialed, core.wakes_at()) == ([1], None)
    core, dialed = answered(lambda core: core.move(3, 10**10))
    assert (dialed, core.node, core.last_trouble) == ([1, 3], 3, "the client moved")


def test_a_client_needs_nodes() -> None:
    keys = Keys(*zmq.curve_keypair())
    with pytest.raises(ValueError, match="at least one node"):
        Client([], keys)
    with pytest.raises(ValueError, match="no node 4; the nodes are 1, 2"):
        Client(["a:1", "b:2"], keys, node=4)


def test_a_list_of_addresses_is_refused_with_the_form_that_is_needed() -> None:
    addresses: Any = ["localhost:1", "localhost:2"]
    with pytest.raises(
        TypeError, match=r"the addresses are a mapping, such as \{1: '127.0.0.1:27035'\}, not \['localhost"
    ):
        connect(addresses, Keys(*zmq.curve_keypair()))


@pytest.mark.parametrize("address", ["localhost", ":1", "localhost:", "localhost:65536", "http://localhost:80"])
def test_an_address_that_is_not_host_and_port_is_refused_at_once(address: str) -> None:
    with pytest.raises(ValueError, match=f"'{address}' is not an address; use host:port"):
        connect({1: "localhost:1", 2: address}, Keys(*zmq.curve_keypair()))


@pytest.mark.parametrize(
    ("address", "public"),
    [("localhost", zmq.curve_keypair()[0]), ("localhost:1", b"no key")],
    ids=["a bad address", "a bad key"],
)
def test_closing_does_not_block_after_a_failed_attempt_to_connect(
    address: str, public: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZeroMQ refuses some hosts, and keys, only when it connects. Its context ends when all sockets are closed."""
    monkeypatch.setattr("zab_chaos.harness.client.client.check_address", lambda address: None)
    with Client([address], Keys(public, b"")) as client, pytest.raises(zmq.ZMQError, match="Invalid argument"):
        client.connect(1)


def test_a_node_that_accepts_and_says_nothing_is_passed_over(
    ensemble: FakeEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.client.core.CONNECT_NS", 100_000_000)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        addresses = {1: f"127.0.0.1:{mute.getsockname()[1]}", 2: ensemble.addresses[2]}
        with Client(addresses, ensemble.keys, node=1) as client:
            assert isinstance(client.create("/a"), Ok)
            assert client.last_trouble.startswith("node 1 does not answer at")


LONG = {
    "reads": lambda number: Get(f"/{number}" + "x" * 20_000),
    "characters of four bytes": lambda number: Create(
        f"/{number}" + "\U0001f600" * (1_000_000 if number % 2 else 260_000)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", LONG.values(), ids=LONG)
def test_long_paths_that_are_sent_together_get_no_client_disconnected(
    ensemble: FakeEnsemble, make: Callable[[int], Request]
) -> None:
    """A node counts a message's bytes, and in each of these there would be too many."""
    with Client(ensemble.addresses, ensemble.keys, timeout=120) as client:  # a busy machine takes seconds for this
        client.create("/a")
        operations = [client.submit(make(number)) for number in range(500 if make is LONG["reads"] else 20)]
        client.wait(operations[-1])
        assert not [each.outcome for each in operations if isinstance(each.outcome, Unknown)]
        assert client.node == 1


@pytest.mark.parametrize("request_", [Set("/", bytes(515), 0), Get("/" * 515), Delete("/" * 515, 0)])
def test_several_requests_fit_into_one_batch(request_: Request) -> None:
    """With any number and version, and however small the nodes' limit for one request is."""
    sent: list[bytes] = []
    core = ClientCore({1: "here"}, lambda node: Sink(sent), number=1, timeout_ns=2**60)
    core.turn(0)
    for _ in range(2000):
        core.submit(request_, 0)
    core.turn(1, [encode(Welcome())])
    assert len(sent) > 4
    assert max(map(len, sent)) <= BATCH_BYTES


class Sink:
    """A connection that keeps what is sent."""

    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def send(self, frame: bytes) -> bool:
        self._sent.append(frame)
        return True

    def close(self, linger_ms: int = 0) -> None:
        pass
