"""Clients' queues on one node: order, reads between writes, and every way in which a write can end."""

import itertools
from typing import Any

import pytest

from zab_chaos.node.clients.sessions import FORWARD_BYTES, FORWARDED_BYTES, SHARE, ClientSessions
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Unknown
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.refusal import FORGOTTEN_CLIENT, Refusal
from zab_chaos.node.tree.requests import (
    Check,
    Children,
    Create,
    Exists,
    Fence,
    ForwardedRequest,
    Get,
    Multi,
    Request,
    Set,
    Write,
)
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import CreateTxn, FenceTxn, Origin, SetTxn, Txn, encode

NODE, LIFE, ME, YOU, THIRD = 1, 2, 7, 8, 9
KEY = encode(Txn(Origin(9, 9, 9, 9), CreateTxn("/k", b"0", 1)))  # delivered before every test


def z(counter: int) -> Zxid:
    return zxid(1, counter)


def set_txn(client: int, seq: int, value: bytes, *, node: int = NODE, life: int = LIFE) -> bytes:
    return encode(Txn(Origin(node, life, client, seq), SetTxn("/k", value, 1)))


def make(seen: Zxid = ZERO, fence: int = 0, **limits: int) -> ClientSessions:
    sessions = ClientSessions(NODE, LIFE, Tree(), **limits)
    sessions.deliver(z(1), [KEY])
    sessions.join(z(1))
    sessions.hello(ME, seen, fence)
    return sessions


def told(sessions: ClientSessions, client: int = ME) -> list[tuple[int, Outcome]]:
    return dict(sessions.answers()).get(client, [])


def forwarded(sessions: ClientSessions, size: int = FORWARD_BYTES) -> list[tuple[int, int, ForwardedRequest]]:
    """Forward writes, and return them without the zxids at which their sessions began."""
    return [(client, seq, request) for client, seq, _, request in sessions.writes(size)]


def kinds(answers: list[tuple[int, Outcome]]) -> list[tuple[int, str]]:
    return [(seq, type(outcome).__name__) for seq, outcome in answers]


def test_writes_are_forwarded_once_and_in_order() -> None:
    sessions = make()
    sessions.hello(YOU, ZERO)
    sessions.receive(ME, [(1, Set("/k", b"1")), (2, Get("/k")), (3, Set("/k", b"3"))])
    sessions.receive(YOU, [(1, Create("/x"))])
    assert forwarded(sessions) == [(ME, 1, Set("/k", b"1")), (ME, 3, Set("/k", b"3")), (YOU, 1, Create("/x"))]
    assert forwarded(sessions) == []
    assert sessions.answers() == []


def test_writes_beyond_a_size_wait_for_the_next_call() -> None:
    """At least one write is returned, so no accepted write is too large for ever."""
    sessions = make()
    sessions.receive(ME, [(seq, Set("/k", bytes(8))) for seq in (1, 2, 3, 4)])
    assert [seq for _, seq, _ in forwarded(sessions, 11 + FORWARDED_BYTES)] == [1, 2]
    assert sessions.has_writes
    assert [seq for _, seq, _ in forwarded(sessions, 1)] == [3]
    assert [seq for _, seq, _ in forwarded(sessions, 10)] == [4]
    assert not sessions.has_writes


def test_a_read_sees_its_clients_earlier_writes_and_none_of_its_later_ones() -> None:
    """All transactions are in one batch: the reads are executed between two transactions of it."""
    sessions = make()
    sessions.receive(ME, [(1, Get("/k")), (2, Set("/k", b"2")), (3, Get("/k")), (4, Set("/k", b"4")), (5, Get("/k"))])
    forwarded(sessions)
    assert told(sessions) == [(1, Ok(z(1), 0, data=b"0"))]
    sessions.deliver(
        z(2), [set_txn(ME, 2, b"2"), set_txn(YOU, 1, b"other"), set_txn(ME, 4, b"4"), set_txn(YOU, 2, b"end")]
    )
    assert told(sessions) == [
        (2, Ok(z(2), 1)),
        (3, Ok(z(2), 1, data=b"2")),
        (4, Ok(z(4), 1)),
        (5, Ok(z(4), 1, data=b"4")),
    ]
    assert sessions.waiting == 0


def test_a_refusal_is_answered_only_when_its_state_is_delivered() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1", version=5)), (2, Get("/k")), (3, Set("/k", b"3"))])
    forwarded(sessions)
    sessions.refused_by_leader(ME, 1, "bad version", "it is 1", after=z(2))
    sessions.refused_by_leader(ME, 1, "bad version", "told twice", after=z(1))
    assert told(sessions) == []
    # The state that refused it is (1:2); the client's next write follows in the same batch and must not be read.
    sessions.deliver(z(2), [set_txn(YOU, 1, b"you"), set_txn(ME, 3, b"3")])
    assert told(sessions) == [
        (1, Failed("bad version", "it is 1", z(2))),
        (2, Ok(z(2), 1, data=b"you")),
        (3, Ok(z(3), 1)),
    ]


def test_a_refusal_does_not_rest_on_an_older_state_than_an_earlier_read() -> None:
    """The read waits behind one refusal and before another; everything they rest on is delivered in one batch."""
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1", version=5)), (2, Exists("/n")), (3, Check("/n")), (4, Exists("/n"))])
    forwarded(sessions)
    sessions.refused_by_leader(ME, 1, "bad version", "it is 1", after=z(2))
    sessions.refused_by_leader(ME, 3, "no node", "there is no /n", after=z(3))
    new = encode(Txn(Origin(9, 9, YOU, 3), CreateTxn("/n", b"", 2)))
    sessions.deliver(
        z(2), [set_txn(YOU, 1, b"a", node=9), set_txn(YOU, 2, b"b", node=9), new, set_txn(YOU, 4, b"c", node=9)]
    )
    assert told(sessions) == [
        (1, Failed("bad version", "it is 1", z(2))),
        (2, Ok(z(2))),  # at (1:4) there is an /n
        (3, Failed("no node", "there is no /n", z(3))),
        (4, Ok(z(3))),
    ]


def test_a_refusal_that_rests_on_no_state_is_answered_at_once() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1"))])
    forwarded(sessions)
    sessions.refused_by_leader(ME, 1, "overloaded", "4 requests are waiting", ZERO)
    assert told(sessions) == [(1, Failed("overloaded", "4 requests are waiting"))]


def test_a_refusal_of_a_client_that_left_is_forgotten() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1", version=5))])
    forwarded(sessions)
    sessions.refused_by_leader(ME, 1, "bad version", "it is 1", after=z(2))
    sessions.hello(ME, ZERO)
    sessions.receive(ME, [(1, Get("/k"))])
    sessions.deliver(z(2), [set_txn(YOU, 1, b"a", node=9)])
    assert kinds(told(sessions)) == [(1, "Ok")]


def test_a_refusal_is_answered_after_another_clients_delivery_too() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1", version=5))])
    forwarded(sessions)
    sessions.refused_by_leader(ME, 1, "bad version", "it is 1", after=z(2))
    sessions.deliver(z(2), [set_txn(YOU, 1, b"you")])
    assert kinds(told(sessions)) == [(1, "Failed")]


STEPS: dict[str, Any] = {
    "other": lambda s: s.deliver(z(2), [set_txn(YOU, 1, b"other")]),
    "first": lambda s: s.deliver(z(3), [set_txn(ME, 1, b"first")]),
    "third": lambda s: s.deliver(z(4), [set_txn(ME, 5, b"third")]),
    "answer": lambda s: s.refused_by_leader(ME, 3, "bad version", "", after=z(3)),
    "lost": lambda s: s.leader_lost(),
}


def possible(order: tuple[str, ...]) -> bool:
    """Return whether this order can occur: transactions come in order, and ANSWER before the COMMIT of later transactions."""
    at = order.index
    return at("other") < at("first") < at("third") and at("answer") < at("third")


@pytest.mark.parametrize("order", [order for order in itertools.permutations(STEPS) if possible(order)], ids="-".join)
def test_every_order_of_delivery_answer_and_leader_loss(order: tuple[str, ...]) -> None:
    """Requests: 1 set, 2 get, 3 set (refused in the light of the first), 4 get, 5 set, 6 get.

    Deliveries keep their order.
    """
    at = order.index
    sessions = make()
    requests: list[Request] = [
        Set("/k", b"first"),
        Get("/k"),
        Set("/k", b"no", 9),
        Get("/k"),
        Set("/k", b"third"),
        Get("/k"),
    ]
    sessions.receive(ME, list(enumerate(requests, 1)))
    assert len(forwarded(sessions)) == 3
    answers: list[tuple[int, Outcome]] = []
    for step in order:
        STEPS[step](sessions)
        answers += told(sessions)
    outcomes = dict(answers)
    assert [seq for seq, _ in answers] == [1, 2, 3, 4, 5, 6]
    assert isinstance(outcomes[1], Ok if at("first") < at("lost") else Unknown)
    assert isinstance(outcomes[5], Ok if at("third") < at("lost") else Unknown)
    assert isinstance(outcomes[3], Failed if at("answer") < at("lost") else Unknown)
    if isinstance(outcomes[3], Failed):
        assert outcomes[3].error == ("bad version" if at("first") < at("lost") else "no leader")
    for seq, before, after in ((2, 1, 5), (4, 1, 5), (6, 5, 7)):
        read = outcomes[seq]
        assert isinstance(read, Ok)
        assert read.zxid >= getattr(outcomes[before], "zxid", ZERO)
        if after in outcomes and isinstance(outcomes[after], Ok):
            assert read.zxid < outcomes[after].zxid  # type: ignore[union-attr]
    assert sessions.waiting == 0


def test_writes_that_were_not_forwarded_fail_when_the_leader_is_lost() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1"))])
    forwarded(sessions)
    sessions.receive(ME, [(2, Set("/k", b"2"))])
    sessions.leader_lost("node 3 is gone")
    first, second = told(sessions)
    assert first == (1, Unknown("node 3 is gone"))
    assert isinstance(second[1], Failed)
    assert second[1].error == "no leader"
    assert forwarded(sessions) == [(ME, 1, Fence())]


def test_fail_waiting_spares_forwarded_writes() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1"))])
    forwarded(sessions)
    sessions.receive(ME, [(2, Set("/k", b"2"))])
    sessions.fail_waiting()
    assert told(sessions) == []
    sessions.deliver(z(2), [set_txn(ME, 1, b"1")])
    assert kinds(told(sessions)) == [(1, "Ok"), (2, "Failed")]


def test_an_answered_write_is_not_answered_again_by_a_late_delivery() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1"))])
    forwarded(sessions)
    sessions.leader_lost()
    assert kinds(told(sessions)) == [(1, "Unknown")]
    sessions.deliver(z(2), [set_txn(ME, 1, b"1")])
    sessions.refused_by_leader(ME, 1, "bad version", "", z(2))
    assert told(sessions) == []


@pytest.mark.parametrize("origin", [{"node": NODE + 1}, {"life": LIFE - 1}])
def test_transactions_of_another_node_or_life_settle_no_request(origin: dict[str, int]) -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1"))])
    forwarded(sessions)
    sessions.deliver(z(2), [set_txn(ME, 1, b"1", **origin)])
    assert told(sessions) == []
    sessions.deliver(z(3), [set_txn(ME, 1, b"1")])
    assert told(sessions) == [(1, Ok(z(3), 1))]


def test_a_client_that_has_seen_more_waits_until_this_node_has_caught_up() -> None:
    sessions = make(seen=z(3))
    sessions.receive(ME, [(1, Get("/k")), (2, Set("/k", b"2")), (3, Get("/k"))])
    assert (forwarded(sessions), told(sessions)) == ([], [])
    sessions.deliver(z(2), [set_txn(YOU, 1, b"old")])
    assert (forwarded(sessions), told(sessions)) == ([], [])
    sessions.deliver(z(3), [set_txn(YOU, 2, b"seen")])
    assert forwarded(sessions) == [(ME, 2, Set("/k", b"2"))]
    assert told(sessions) == [(1, Ok(z(3), 1, data=b"seen"))]
    sessions.deliver(z(4), [set_txn(ME, 2, b"2")])
    assert told(sessions) == [(2, Ok(z(4), 1)), (3, Ok(z(4), 1, data=b"2"))]


def test_a_held_back_write_fails_without_a_leader() -> None:
    sessions = make(seen=z(3))
    sessions.receive(ME, [(1, Set("/k", b"1"))])
    sessions.fail_waiting()
    sessions.deliver(z(2), [set_txn(YOU, 1, b""), set_txn(YOU, 2, b"")])
    assert forwarded(sessions) == []
    assert kinds(told(sessions)) == [(1, "Failed")]


def test_requests_beyond_the_limit_fail_in_their_order() -> None:
    sessions = make(waiting=2 * SHARE)
    sessions.receive(ME, [(seq, Set("/k", b"")) for seq in (1, 2, 3)])
    assert [seq for _, seq, _ in forwarded(sessions)] == [1, 2]
    assert told(sessions) == []
    sessions.deliver(z(2), [set_txn(ME, 1, b""), set_txn(ME, 2, b"")])
    answers = told(sessions)
    assert kinds(answers) == [(1, "Ok"), (2, "Ok"), (3, "Failed")]
    assert answers[2][1] == Failed(
        "overloaded", "2 requests of this client of 4 bytes are waiting on this node already"
    )


def test_bytes_are_limited_too_and_are_released() -> None:
    sessions = make(waiting_bytes=100 * SHARE)
    sessions.receive(ME, [(1, Set("/k", bytes(90))), (2, Multi([Set("/k", bytes(9))]))])
    assert [seq for _, seq, _ in forwarded(sessions)] == [1]
    sessions.deliver(z(2), [set_txn(ME, 1, b"")])
    assert kinds(told(sessions)) == [(1, "Ok"), (2, "Failed")]
    sessions.receive(ME, [(3, Set("/k", bytes(98)))])
    assert [seq for _, seq, _ in forwarded(sessions)] == [3]


def test_small_requests_that_read_much_are_limited_until_their_answers_are_sent() -> None:
    sessions = make(waiting_bytes=100 * SHARE)
    sessions.deliver(z(2), [set_txn(YOU, 1, bytes(60))])
    sessions.receive(ME, [(seq, Get("/k")) for seq in (1, 2, 3)])
    sessions.receive(ME, [(4, Children("/"))])
    answers = told(sessions)
    assert kinds(answers) == [(1, "Ok"), (2, "Ok"), (3, "Failed"), (4, "Failed")]
    assert answers[2][1] == Failed("overloaded", "120 bytes of answers are about to be sent already")
    sessions.receive(ME, [(5, Get("/k"))])
    assert kinds(told(sessions)) == [(5, "Ok")]


def test_all_reads_together_are_limited_too() -> None:
    sessions = make(waiting_bytes=100 * SHARE)
    sessions.deliver(z(2), [set_txn(YOU, 1, bytes(99))])
    clients = range(10, 16)
    for client in clients:
        sessions.hello(client, ZERO)
        sessions.receive(client, [(1, Get("/k"))])
    answers = [outcome for client, each in sessions.answers() if client in clients for _, outcome in each]
    assert [type(outcome).__name__ for outcome in answers] == ["Ok"] * 5 + ["Failed"]


def test_a_client_that_goes_before_it_is_answered_leaves_the_bytes_to_others() -> None:
    sessions = make(waiting_bytes=100 * SHARE)
    sessions.deliver(z(2), [set_txn(YOU, 1, bytes(200))])
    sessions.receive(ME, [(1, Get("/k")), (2, Get("/k"))])
    sessions.gone(ME)
    assert told(sessions) == []
    sessions.hello(ME, ZERO)
    sessions.receive(ME, [(3, Get("/k"))])
    assert kinds(told(sessions)) == [(3, "Ok")]


def test_a_client_that_floods_must_be_dropped() -> None:
    sessions = make(waiting=2 * SHARE)
    assert sessions.receive(ME, [(seq, Set("/k", b"")) for seq in range(1, 5)]) is None
    why = sessions.receive(ME, [(5, Set("/k", b""))])
    assert why == "4 of the client's requests are waiting here and it sends 1 more; 2 of one client may wait"
    sessions.gone(ME)
    assert (sessions.waiting, forwarded(sessions)) == (0, [])


@pytest.mark.parametrize("limits", [{"waiting": 4 * SHARE}, {"waiting_bytes": 12 * SHARE}], ids=["requests", "bytes"])
def test_a_stuck_client_leaves_room_for_the_others(limits: dict[str, int]) -> None:
    """It never catches up, and sends until it is dropped or its requests fail."""
    sessions = make(seen=zxid(9, 9), **limits)
    sessions.receive(ME, [(seq, Set("/k", b"x")) for seq in range(8)])
    sessions.hello(YOU, ZERO)
    sessions.receive(YOU, [(seq, Set("/k", b"y")) for seq in range(4)])
    assert [(client, seq) for client, seq, _ in forwarded(sessions)] == [(YOU, 0), (YOU, 1), (YOU, 2), (YOU, 3)]
    sessions.deliver(z(2), [set_txn(YOU, seq, b"y") for seq in range(4)])
    assert kinds(told(sessions, YOU)) == [(seq, "Ok") for seq in range(4)]


def test_all_clients_together_are_limited_too() -> None:
    sessions = make(waiting=SHARE)
    for client in range(10, 11 + SHARE):
        sessions.hello(client, ZERO)
        assert sessions.receive(client, [(1, Set("/k", b""))]) is None
    assert [client for client, _, _ in forwarded(sessions)] == list(range(10, 10 + SHARE))
    sessions.deliver(z(2), [set_txn(10 + SHARE, 9, b"")])
    (refused,) = told(sessions, 10 + SHARE)
    assert refused[1] == Failed("overloaded", f"{SHARE} requests of {2 * SHARE} bytes are waiting on this node already")


def test_a_client_without_waiting_requests_is_refused_and_not_dropped_for_what_others_sent() -> None:
    """It is answered at once, so nothing of it waits here."""
    sessions = make(waiting=2 * SHARE)
    others = range(10, 10 + 2 * SHARE)
    for other in others:
        sessions.hello(other, ZERO)
        assert sessions.receive(other, [(1, Set("/k", b""))]) is None
    for other in others:  # refused, and behind the first ones
        assert sessions.receive(other, [(2, Set("/k", b""))]) is None
    assert sessions.receive(ME, [(1, Get("/k")), (2, Set("/k", b""))]) is None
    assert kinds(told(sessions)) == [(1, "Failed"), (2, "Failed")]
    assert sessions.waiting == 4 * SHARE
    why = sessions.receive(10, [(3, Get("/k"))])
    assert why == "16 requests are waiting here and the client sends 1 more; 8 may wait"


def test_seqs_must_ascend() -> None:
    sessions = make()
    assert sessions.receive(ME, [(5, Get("/k")), (5, Get("/k"))]) is not None
    assert "HELLO" in (sessions.receive(99, [(1, Get("/k"))]) or "")


def test_a_client_that_reconnects_has_no_outstanding_requests() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1")), (2, Get("/k"))])
    sessions.hello(ME, ZERO)
    sessions.receive(ME, [(3, Get("/k"))])
    assert forwarded(sessions) == []
    assert told(sessions) == [(3, Ok(z(1), 0, data=b"0"))]
    sessions.deliver(z(2), [set_txn(ME, 1, b"1")])
    assert told(sessions) == []


def test_answers_to_an_earlier_connection_are_not_sent_to_the_next() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Get("/k"))])
    sessions.hello(ME, ZERO)
    assert told(sessions) == []


def test_writes_reads_and_errors_of_two_clients_are_answered_in_order() -> None:
    """The whole path on one node that is its own leader and delivers one transaction at a time."""
    tree = Tree()
    sessions, primary = ClientSessions(NODE, LIFE, tree), Primary(tree)
    sessions.join(ZERO)
    for client in (ME, YOU):
        sessions.hello(client, ZERO)
    for client in (ME, YOU):
        mine: list[Write] = [Create(f"/{client}"), Create(f"/{client}"), Set(f"/{client}", b"x"), Set("/no", b"")]
        sessions.receive(client, [(2 * i, request) for i, request in enumerate(mine)])
        sessions.receive(client, [(10, Exists(f"/{client}")), (11, Get("/nowhere"))])
    flying: list[bytes] = []
    for client, seq, since, request in sessions.writes():
        prepared = primary.prepare(request, Origin(NODE, LIFE, client, seq), since, z(len(flying) + 1))
        if isinstance(prepared, Refusal):
            sessions.refused_by_leader(client, seq, prepared.error, prepared.words, z(len(flying)))
        else:
            flying.append(prepared)
    answers: dict[int, list[tuple[int, Outcome]]] = {ME: [], YOU: []}
    for counter, data in enumerate(flying, 1):
        sessions.deliver(z(counter), [data])
        primary.delivered(data)
        for client, some in sessions.answers():
            answers[client] += some
    for client in (ME, YOU):
        names = [
            outcome.error if isinstance(outcome, Failed) else type(outcome).__name__ for _, outcome in answers[client]
        ]
        assert names == ["Ok", "node exists", "Ok", "no node", "Ok", "no node"]
        assert [seq for seq, _ in answers[client]] == [0, 2, 4, 6, 10, 11]


# ---- a session is held ----


def fence_txn(client: int, seq: int, *, node: int = NODE) -> bytes:
    return encode(Txn(Origin(node, LIFE, client, seq), FenceTxn()))


def test_nothing_is_read_before_the_node_has_joined_a_leader_and_has_caught_up_with_it() -> None:
    sessions = ClientSessions(NODE, LIFE, Tree())
    sessions.deliver(z(1), [KEY])
    sessions.hello(ME, ZERO)
    sessions.receive(ME, [(1, Get("/k")), (2, Set("/k", b"2"))])
    assert (forwarded(sessions), told(sessions), sessions.joined) == ([], [], False)
    sessions.join(z(2))
    assert (forwarded(sessions), told(sessions), sessions.joined) == ([], [], True)
    sessions.deliver(z(2), [set_txn(YOU, 1, b"you")])
    assert forwarded(sessions) == [(ME, 2, Set("/k", b"2"))]
    assert told(sessions) == [(1, Ok(z(2), 1, data=b"you"))]


def test_a_session_with_unknown_writes_waits_for_its_fence() -> None:
    sessions = make(fence=4)
    sessions.receive(ME, [(5, Get("/k")), (6, Set("/k", b"6"))])
    assert forwarded(sessions) == [(ME, 4, Fence())]
    assert (forwarded(sessions), told(sessions), sessions.idle()) == ([], [], False)
    # What was unknown comes late, from another node, and still before the fence.
    sessions.deliver(z(2), [set_txn(ME, 3, b"3", node=NODE + 1)])
    assert (forwarded(sessions), told(sessions)) == ([], [])
    sessions.deliver(z(3), [fence_txn(ME, 4)])
    assert forwarded(sessions) == [(ME, 6, Set("/k", b"6"))]
    assert told(sessions) == [(5, Ok(z(3), 1, data=b"3"))]


@pytest.mark.parametrize(
    "data", [set_txn(ME, 4, b"4", node=NODE + 1), fence_txn(ME, 4, node=NODE + 1), set_txn(ME, 9, b"")]
)
def test_writes_whose_outcome_is_decided_need_no_fence(data: bytes) -> None:
    """The tree says that the client has come so far, before the client connects or while it waits."""
    sessions = make()
    sessions.deliver(z(2), [data])
    sessions.hello(ME, ZERO, 4)
    sessions.receive(ME, [(10, Get("/k"))])
    assert forwarded(sessions) == []
    assert kinds(told(sessions)) == [(10, "Ok")]
    sessions = make(fence=4)
    sessions.receive(ME, [(10, Get("/k"))])
    forwarded(sessions)
    sessions.deliver(z(2), [data])
    assert kinds(told(sessions)) == [(10, "Ok")]


def test_a_fence_that_was_delivered_is_not_requested_for_a_session_that_waits_for_more() -> None:
    """A former session of the client had requested it from the leader before."""
    sessions = make(seen=z(9), fence=4)
    sessions.deliver(z(1), [fence_txn(ME, 4)])
    assert forwarded(sessions) == []


def test_a_session_without_need_of_a_fence_is_served_although_the_tree_forgets_its_client() -> None:
    """The snapshot with which the node joins has forgotten a client whose writes its own tree had decided."""
    trees = [Tree(clients_max=1), Tree(clients_max=1)]
    for tree in trees:
        tree.apply(z(1), KEY)
        tree.apply(z(2), set_txn(ME, 4, b"4", life=LIFE - 1))
    trees[1].apply(z(3), set_txn(YOU, 1, b"you", node=NODE + 1))
    sessions = ClientSessions(NODE, LIFE, trees[0])
    sessions.hello(ME, ZERO, 4)
    sessions.receive(ME, [(5, Set("/k", b"5")), (6, Get("/k"))])
    sessions.install(z(3), trees[1].dump())
    sessions.join(z(3))
    assert forwarded(sessions) == [(ME, 5, Set("/k", b"5"))]


def test_a_session_whose_unknown_writes_are_decided_is_not_held_again_when_its_client_is_forgotten() -> None:
    """The next leader's initial history had the write, so no fence was requested. Later a leader is lost again."""
    sessions = ClientSessions(NODE, LIFE, Tree(clients_max=1))
    sessions.join(ZERO)
    sessions.hello(ME, ZERO)
    sessions.receive(ME, [(1, Create("/k"))])
    assert forwarded(sessions) == [(ME, 1, Create("/k"))]
    sessions.leader_lost()
    sessions.deliver(z(1), [encode(Txn(Origin(NODE, LIFE, ME, 1), CreateTxn("/k", b"", 1)))])
    assert kinds(told(sessions)) == [(1, "Unknown")]
    sessions.deliver(z(2), [set_txn(YOU, 1, b"you", node=NODE + 1)])  # the tree remembers one client
    sessions.leader_lost()
    sessions.receive(ME, [(2, Get("/k"))])
    assert told(sessions) == [(2, Ok(z(2), 1, data=b"you"))]
    assert forwarded(sessions) == []


def test_a_fence_is_requested_from_each_leader_until_it_is_delivered() -> None:
    sessions = make(fence=4)
    assert forwarded(sessions) == [(ME, 4, Fence())]
    sessions.leader_lost()
    assert sessions.has_writes
    assert forwarded(sessions) == [(ME, 4, Fence())]
    sessions.deliver(z(2), [fence_txn(ME, 4)])
    sessions.leader_lost()
    assert forwarded(sessions) == []


def test_an_unknown_write_holds_its_session_on_the_same_node() -> None:
    """It may be in the next leader's history, so nothing later is answered until that is decided."""
    sessions = make()
    sessions.hello(YOU, ZERO)
    sessions.receive(ME, [(1, Set("/k", b"1")), (2, Get("/k")), (3, Set("/k", b"3"))])
    sessions.receive(YOU, [(1, Set("/k", b"you", 9))])
    forwarded(sessions)
    sessions.refused_by_leader(YOU, 1, "bad version", "", z(2))
    sessions.leader_lost()
    answers = dict(sessions.answers())
    assert kinds(answers[ME]) == [(1, "Unknown")]
    assert kinds(answers[YOU]) == [(1, "Failed")]
    sessions.receive(ME, [(4, Get("/k"))])
    sessions.receive(YOU, [(2, Get("/k"))])
    assert forwarded(sessions) == [(ME, 3, Fence())]
    answers = dict(sessions.answers())
    assert ME not in answers
    assert kinds(answers[YOU]) == [(2, "Ok")]  # it had no unknown write
    sessions.deliver(z(2), [set_txn(ME, 1, b"1"), fence_txn(ME, 3)])
    after = told(sessions)
    assert kinds(after) == [(2, "Ok"), (3, "Unknown"), (4, "Ok")]
    assert after[-1][1] == Ok(z(3), 1, data=b"1")


def test_reads_between_unknown_writes_are_answered_between_them() -> None:
    """Each read shows the writes before it that took effect, and none after it."""
    sessions = make()
    sessions.receive(
        ME, [(1, Set("/k", b"1")), (2, Get("/k")), (3, Set("/k", b"3")), (4, Get("/k")), (5, Set("/k", b""))]
    )
    forwarded(sessions)
    sessions.leader_lost()
    sessions.receive(ME, [(6, Get("/k"))])
    assert forwarded(sessions) == [(ME, 5, Fence())]
    sessions.deliver(z(2), [set_txn(ME, 1, b"1"), set_txn(YOU, 1, b"you"), set_txn(ME, 3, b"3"), fence_txn(ME, 5)])
    answers = dict(told(sessions))
    assert list(answers) == [1, 2, 3, 4, 5, 6]
    assert [answers[seq] for seq in (2, 4)] == [Ok(z(3), 1, data=b"you"), Ok(z(4), 1, data=b"3")]
    assert answers[6] == Ok(z(5), 1, data=b"3")


def test_reads_between_unknown_writes_fail_at_a_snapshot() -> None:
    sessions = make()
    sessions.receive(ME, [(1, Set("/k", b"1")), (2, Get("/k")), (3, Set("/k", b"3")), (4, Get("/k"))])
    forwarded(sessions)
    sessions.leader_lost()
    ahead = Tree()
    for counter, data in enumerate([KEY, set_txn(ME, 1, b"1"), set_txn(ME, 3, b"3"), fence_txn(ME, 3)], 1):
        ahead.apply(z(counter), data)
    sessions.install(z(4), ahead.dump())
    answers = dict(told(sessions))
    assert isinstance(answers[2], Failed)
    assert answers[2].error == "no leader"
    assert answers[4] == Ok(z(4), 1, data=b"3")


def test_held_reads_fail_when_there_is_no_leader_for_too_long() -> None:
    sessions = make(fence=4)
    sessions.receive(ME, [(5, Get("/k")), (6, Set("/k", b"6"))])
    forwarded(sessions)
    sessions.leader_lost()
    assert told(sessions) == []  # the write has failed, behind a read that waits
    sessions.fail_waiting()
    answers = told(sessions)
    assert [(seq, getattr(outcome, "error", None)) for seq, outcome in answers] == [(5, "no leader"), (6, "no leader")]
    sessions.receive(ME, [(7, Get("/k"))])
    assert forwarded(sessions) == [(ME, 4, Fence())]
    sessions.deliver(z(2), [fence_txn(ME, 4)])
    assert kinds(told(sessions)) == [(7, "Ok")]
    assert sessions.waiting == 0


def test_a_fence_settles_no_request_with_its_seq() -> None:
    """A client repeats a seq that it has called unknown. The leader has to refuse that."""
    sessions = make(fence=4)
    sessions.receive(ME, [(4, Set("/k", b"again"))])
    forwarded(sessions)
    sessions.deliver(z(2), [fence_txn(ME, 4)])
    assert forwarded(sessions) == [(ME, 4, Set("/k", b"again"))]
    assert told(sessions) == []
    sessions.refused_by_leader(ME, 4, "superseded", "", z(2))
    assert kinds(told(sessions)) == [(4, "Failed")]


def test_a_session_that_may_be_forgotten_ends_without_an_answer_and_another_one_is_accepted() -> None:
    """The write and the fence of the session, and everything behind them, get no answer; the client connects again."""
    sessions = make(fence=3)
    sessions.hello(YOU, ZERO)
    sessions.receive(YOU, [(1, Set("/k", b"1")), (2, Set("/k", b"2")), (3, Get("/k"))])
    assert {(client, since) for client, _, since, _ in sessions.writes()} == {(ME, z(1)), (YOU, z(1))}
    for client, seq in ((ME, 3), (YOU, 1), (YOU, 2), (THIRD, 1)):
        sessions.refused_by_leader(client, seq, FORGOTTEN_CLIENT, "is not known", z(1))
    assert sessions.forgotten == {ME: "is not known", YOU: "is not known"}
    for client in (ME, YOU):
        assert told(sessions, client) == []
        sessions.gone(client)
    assert not any(sessions.leftovers().values())
    assert sessions.forgotten == {}
    sessions.deliver(z(2), [fence_txn(THIRD, 1)])
    sessions.hello(YOU, ZERO, 2)
    assert sessions.writes() == [(YOU, 2, z(2), Fence())]


def test_a_refusal_that_a_former_session_was_sent_does_not_end_the_present_one() -> None:
    sessions = make()
    sessions.receive(ME, [(5, Set("/k", b""))])
    sessions.writes()
    sessions.refused_by_leader(ME, 4, FORGOTTEN_CLIENT, "is not known", z(1))
    assert (sessions.forgotten, sessions.waiting) == ({}, 1)


def test_fences_beyond_a_size_wait_for_the_next_call_and_writes_wait_for_all_fences() -> None:
    sessions = make(fence=1)
    for client in (YOU, 11):
        sessions.hello(client, ZERO, 1)
    sessions.hello(10, ZERO)
    sessions.receive(10, [(1, Set("/k", b"1"))])
    size = 2 * FORWARDED_BYTES
    assert forwarded(sessions, size) == [(ME, 1, Fence()), (YOU, 1, Fence())]
    assert sessions.has_writes
    assert forwarded(sessions, size) == [(11, 1, Fence()), (10, 1, Set("/k", b"1"))]
    assert not sessions.has_writes


def test_a_write_that_is_too_large_is_refused_only_when_its_client_is_served() -> None:
    """Until then, an earlier write of unknown outcome might still take effect, after this answer."""
    sessions = make(fence=3, request_bytes=10)
    sessions.receive(ME, [(4, Set("/k", bytes(9)))])
    assert forwarded(sessions) == [(ME, 3, Fence())]
    assert told(sessions) == []
    sessions.deliver(z(2), [fence_txn(ME, 3)])
    assert kinds(told(sessions)) == [(4, "Failed")]
    assert sessions.leftovers() == dict.fromkeys(sessions.leftovers(), 0) | {"sessions": 1}


def test_a_write_that_is_too_large_is_refused_in_its_turn_and_not_forwarded() -> None:
    sessions = make(request_bytes=10)
    sessions.receive(
        ME, [(1, Set("/k", b"1")), (2, Set("/k", bytes(9))), (3, Get("/k" * 10)), (4, Set("/k", bytes(8)))]
    )
    assert forwarded(sessions) == [(ME, 1, Set("/k", b"1")), (ME, 4, Set("/k", bytes(8)))]
    assert told(sessions) == []
    sessions.deliver(z(2), [set_txn(ME, 1, b"1")])
    _, (seq, outcome), _ = told(sessions)
    assert (seq, outcome) == (
        2,
        Failed("too large", "the request has 11 bytes of paths, data and steps; at most 10"),
    )
