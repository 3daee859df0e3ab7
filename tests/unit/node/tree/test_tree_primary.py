"""Conditional requests in, idempotent transactions out (LADIS 2008, section 1)."""

from zlib import crc32

import msgspec
import pytest

from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.tree.outcomes import Failed, Ok, Stat, outcome_of
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.refusal import Refusal
from zab_chaos.node.tree.requests import (
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Fence,
    ForwardedRequest,
    Get,
    Multi,
    Set,
    Step,
    Write,
)
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import CheckTxn, CreateTxn, DeleteTxn, MultiTxn, Origin, SetTxn, Txn, decode, summary

ORIGIN = Origin(2, 3, 4, 5)


class Leader:
    """A primary on its tree, with the transactions that it has broadcast and not delivered."""

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree = tree or Tree()
        self.primary = Primary(self.tree, request_bytes=1000)
        self.flying: list[bytes] = []
        self.counter = 0
        self.seq = ORIGIN.seq - 1

    def prepare(self, request: Write) -> object:
        """Return the change that a request becomes, or the error of its refusal."""
        data = self.judge(request, self.origin())
        if isinstance(data, Refusal):
            assert data.words
            return data.error
        self.flying.append(data)
        return decode(data).change

    def judge(self, request: ForwardedRequest, origin: Origin) -> bytes | Refusal:
        """Return the transaction that a request of a session that begins now becomes, or its refusal."""
        return self.primary.prepare(request, origin, self.tree.zxid, self.next_zxid())

    def next_zxid(self) -> Zxid:
        return zxid(1, self.counter + len(self.flying) + 1)

    def origin(self) -> Origin:
        """Return the origin of the client's next request."""
        self.seq += 1
        return msgspec.structs.replace(ORIGIN, seq=self.seq)

    def deliver(self, count: int | None = None) -> None:
        for data in self.flying[:count]:
            self.counter += 1
            self.tree.apply(zxid(1, self.counter), data)
            self.primary.delivered(data)
        del self.flying[:count]

    def done(self, *requests: Write) -> None:
        for request in requests:
            assert not isinstance(self.prepare(request), str)
        self.deliver()

    def done_by(self, client: int, request: Write, deliver: bool = True) -> None:
        data = self.judge(request, Origin(1, 1, client, self.origin().seq))
        assert isinstance(data, bytes)
        self.flying.append(data)
        if deliver:
            self.deliver()


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_transactions_of_the_causal_violation_example(leader: Leader) -> None:
    """LADIS 2008, section 2: w1 = ("/a", "1", 1), w2 = ("/a", "2", 2), and after L1's failure w3 = ("/a", "3", 2)."""
    leader.done(Create("/a"))
    assert leader.prepare(Set("/a", b"1")) == SetTxn("/a", b"1", 1)
    assert leader.prepare(Set("/a", b"2")) == SetTxn("/a", b"2", 2)
    # L1 delivers w1 only, and fails. L2's state is that of w1.
    leader.deliver(1)
    leader.primary.reset()
    assert leader.prepare(Set("/a", b"3", version=1)) == SetTxn("/a", b"3", 2)


def test_conditions_are_judged_with_outstanding_transactions(leader: Leader) -> None:
    assert leader.prepare(Create("/a", b"x")) == CreateTxn("/a", b"x", 1)
    assert leader.prepare(Create("/a/b")) == CreateTxn("/a/b", b"", 1)
    assert leader.prepare(Create("/a")) == "node exists"
    assert leader.prepare(Set("/a", b"y", version=0)) == SetTxn("/a", b"y", 1)
    assert leader.prepare(Set("/a", b"z", version=0)) == "bad version"
    assert leader.prepare(Delete("/a")) == "not empty"
    assert leader.prepare(Delete("/a/b")) == DeleteTxn("/a/b")
    assert leader.prepare(Delete("/a/b")) == "no node"
    assert leader.prepare(Delete("/a", version=1)) == DeleteTxn("/a")
    assert leader.prepare(Check("/a")) == "no node"
    assert leader.tree.read(Exists("/a")) == Ok(Zxid(0))
    leader.deliver()
    assert leader.tree.read(Children("/")) == Ok(zxid(1, 5), 0, children=[])


def test_a_future_znode_is_kept_until_its_last_transaction_is_delivered(leader: Leader) -> None:
    leader.done(Create("/a"))
    for expected in (1, 2, 3):
        assert leader.prepare(Set("/a", b"")) == SetTxn("/a", b"", expected)
    for left in (2, 1, 0):
        leader.deliver(1)
        assert len(leader.primary._queue) == left
        refusal = leader.judge(Check("/a", version=9), leader.origin())
        assert refusal == Refusal("bad version", "/a is at version 3, not 9")
    assert not leader.primary._futures


def test_a_refusal_changes_nothing(leader: Leader) -> None:
    assert leader.prepare(Multi([Create("/a"), Set("/a", b"1"), Delete("/nothing")])) == "no node"
    assert leader.prepare(Set("/a", b"")) == "no node"
    assert (len(leader.primary._queue), leader.primary._futures) == (0, {})


def test_reset_forgets_what_is_outstanding(leader: Leader) -> None:
    leader.prepare(Create("/a"))
    assert leader.primary.outstanding_bytes > 0
    leader.primary.reset()
    assert (len(leader.primary._queue), leader.primary.outstanding_bytes) == (0, 0)
    assert leader.prepare(Create("/a")) == CreateTxn("/a", b"", 1)


def test_another_primarys_transactions_are_ignored(leader: Leader) -> None:
    leader.prepare(Create("/a"))
    leader.primary.delivered(msgspec.msgpack.encode(Txn(ORIGIN, CreateTxn("/b", b"", 1))))
    assert leader.prepare(Create("/a")) == "node exists"


def test_sequential_names_count_the_parents_children(leader: Leader) -> None:
    leader.done(Create("/q"))
    assert leader.prepare(Create("/q/n-", b"", sequential=True)) == CreateTxn("/q/n-0000000000", b"", 1)
    assert leader.prepare(Create("/q/other")) == CreateTxn("/q/other", b"", 2)
    leader.deliver()
    assert leader.prepare(Delete("/q/other")) == DeleteTxn("/q/other")
    assert leader.prepare(Create("/q/n-", b"", sequential=True)) == CreateTxn("/q/n-0000000002", b"", 3)
    assert leader.prepare(Create("/q/", b"", sequential=True)) == CreateTxn("/q/0000000003", b"", 4)


def test_a_step_of_a_multi_sees_the_earlier_steps(leader: Leader) -> None:
    steps: list[Step] = [
        Create("/a"),
        Set("/a", b"1", version=0),
        Check("/a", version=1),
        Create("/a/b"),
        Delete("/a/b"),
    ]
    change = leader.prepare(Multi(steps))
    assert change == MultiTxn(
        [
            CreateTxn("/a", b"", 1),
            SetTxn("/a", b"1", 1),
            CheckTxn("/a", 1),
            CreateTxn("/a/b", b"", 1),
            DeleteTxn("/a/b"),
        ]
    )
    assert isinstance(change, MultiTxn)
    stats = [Stat("/a", 0), Stat("/a", 1), Stat("/a", 1), Stat("/a/b", 0), Stat("/a/b", None)]
    assert outcome_of(zxid(1, 1), change) == Ok(zxid(1, 1), steps=stats)
    leader.deliver()
    assert leader.tree.read(Get("/a")) == Ok(zxid(1, 1), 1, data=b"1")


def test_a_refused_multi_names_the_step(leader: Leader) -> None:
    refusal = leader.judge(Multi([Create("/a"), Check("/b")]), leader.origin())
    assert refusal == Refusal("no node", "step 2 of 2: there is no znode /b")


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Create("/"), "node exists"),
        (Create("a"), "bad path"),
        (Create("/a/"), "bad path"),
        (Create("//", sequential=True), "bad path"),
        (Create("", sequential=True), "bad path"),
        (Create("/no/child"), "no parent"),
        (Set("/no", b""), "no node"),
        (Set("no", b""), "bad path"),
        (Set("/", b"", version=7), "bad version"),
        (Delete("/"), "bad path"),
        (Check("/.."), "bad path"),
        (Multi([]), "bad request"),
        (Set("/", bytes(1000)), "too large"),
        (Multi([Set("/", bytes(500)), Set("/", bytes(500))]), "too large"),
    ],
)
def test_refusals_and_their_errors(leader: Leader, request_: Write, error: str) -> None:
    assert leader.prepare(request_) == error


@pytest.mark.parametrize(
    "invalid",
    [
        Delete("/", version=7),
        Multi([Check("/a", version=7), Create("a")]),
        Multi([Check("/a", version=7), Delete("/")]),
        Multi([Create("/no/child"), Set("/a/", b"")]),
    ],
)
def test_an_invalid_request_is_refused_alike_in_every_state(leader: Leader, invalid: Write) -> None:
    """Such a refusal is not fenced: if it depended on the state, a deposed leader would refuse by an old one."""
    before = leader.prepare(invalid)
    leader.done(Create("/a"))
    assert leader.prepare(invalid) == before == "bad path"


def test_the_limit_itself_is_allowed(leader: Leader) -> None:
    assert leader.prepare(Set("/", bytes(999))) == SetTxn("/", bytes(999), 1)


def test_a_transaction_carries_its_origin(leader: Leader) -> None:
    leader.prepare(Create("/a", b"x"))
    assert leader.tree.apply(zxid(1, 1), leader.flying[0]) == Txn(ORIGIN, CreateTxn("/a", b"x", 1))


def test_a_late_write_is_superseded(leader: Leader) -> None:
    """No write takes effect after one of the same client with a higher seq was judged, at whichever node."""
    first, second, third = leader.origin(), leader.origin(), leader.origin()
    prepare = leader.judge
    assert isinstance(prepare(Create("/a"), second), bytes)
    for origin in (first, second):
        refusal = prepare(Create("/b"), origin)
        assert isinstance(refusal, Refusal)
        assert refusal.error == "superseded"
    assert prepare(Create("/a"), third) == Refusal("node exists", "there is a znode /a already")
    again = prepare(Create("/b"), third)
    assert isinstance(again, Refusal)
    assert again.error == "superseded"
    assert isinstance(prepare(Create("/b"), msgspec.structs.replace(first, client=5)), bytes)


def test_a_fence_is_always_accepted_and_excludes_lower_seqs_for_good(leader: Leader) -> None:
    low, high = leader.origin(), leader.origin()
    for origin in (high, high, low):
        assert isinstance(leader.judge(Fence(), origin), bytes)
    late = leader.judge(Create("/a"), low)
    assert isinstance(late, Refusal)
    assert late.error == "superseded"
    data = leader.judge(Fence(), high)
    assert isinstance(data, bytes)
    leader.tree.apply(zxid(1, 1), data)
    loaded = Tree()
    loaded.load(leader.tree.dump(), leader.tree.zxid)
    another = Primary(loaded)
    for origin in (low, high):
        refusal = another.prepare(Create("/a"), origin, ZERO, zxid(2, 1))
        assert isinstance(refusal, Refusal)
        assert refusal.error == "superseded"
    assert isinstance(another.prepare(Create("/a"), leader.origin(), ZERO, zxid(2, 1)), bytes)


def test_an_old_fence_does_not_readmit_what_a_later_one_excluded(leader: Leader) -> None:
    """A new leader first gets, from a node that was away, a fence below the delivered one."""
    low, middle, high = leader.origin(), leader.origin(), leader.origin()
    data = leader.judge(Fence(), high)
    assert isinstance(data, bytes)
    leader.tree.apply(zxid(1, 1), data)
    another = Primary(leader.tree)
    assert isinstance(another.prepare(Fence(), low, ZERO, zxid(2, 1)), bytes)
    refusal = another.prepare(Create("/a"), middle, ZERO, zxid(2, 1))
    assert isinstance(refusal, Refusal)
    assert refusal.error == "superseded"


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize("request_", [Create("/late"), Fence()])
def test_a_client_that_was_forgotten_must_begin_a_new_session(request_: ForwardedRequest, delivered: bool) -> None:
    """Client 1 writes, its node is stuck with the next write, another node orders a fence, and two others write."""
    leader = Leader(Tree(clients_max=2))
    leader.done_by(1, Create("/a"))
    began = leader.tree.zxid
    fence = leader.judge(Fence(), Origin(2, 1, 1, 9))
    assert isinstance(fence, bytes)
    leader.flying.append(fence)
    leader.deliver()
    for client in (2, 3):
        leader.done_by(client, Set("/a", b""), deliver=delivered)
    late = leader.primary.prepare(request_, Origin(1, 1, 1, 8), began, leader.next_zxid())
    assert isinstance(late, Refusal)
    assert (late.error, leader.tree.sessions.forgotten) == ("forgotten client", zxid(1, 2) if delivered else ZERO)
    assert isinstance(leader.primary.prepare(Create("/b"), Origin(1, 1, 1, 10), zxid(1, 2), leader.next_zxid()), bytes)


def test_a_client_that_is_remembered_is_not_refused_for_the_age_of_its_session(leader: Leader) -> None:
    leader = Leader(Tree(clients_max=2))
    for client in (1, 2, 3, 1, 2):
        leader.done_by(client, Check("/"))
    assert leader.tree.sessions.forgotten == zxid(1, 3)
    for client, error in ((1, None), (2, None), (3, "forgotten client"), (4, "forgotten client")):
        prepared = leader.primary.prepare(Check("/"), Origin(1, 1, client, 99), zxid(1, 2), leader.next_zxid())
        assert (prepared.error if isinstance(prepared, Refusal) else None) == error


def test_requests_that_no_state_allows_leave_room_for_sessions_that_begin_now() -> None:
    """They become no transaction. So no session could begin after the zxid that one of them would have had."""
    leader = Leader(Tree(clients_max=1))
    leader.done_by(1, Create("/a"))
    for client in (2, 3, 4):
        refusal = leader.judge(Create("no/path"), Origin(1, 1, client, 1))
        assert isinstance(refusal, Refusal)
        assert refusal.error == "bad path"
    assert isinstance(leader.judge(Fence(), Origin(1, 1, 5, 1)), bytes)


def test_a_summary_lists_the_effects_step_by_step(leader: Leader) -> None:
    """The summaries in `broadcast`, from the primary and, in a replay, from the bytes."""
    steps: list[Step] = [Create("/a", b"x"), Set("/a", b"y"), Check("/a"), Delete("/a")]
    requests: list[ForwardedRequest] = [Set("/", b"z"), Multi(steps), Fence()]
    flying = [leader.judge(request, leader.origin()) for request in requests]
    told = leader.primary.summaries()
    client = ORIGIN.client
    assert told == [
        (client, 5, [("set", "/", 1, crc32(b"z"))]),
        (
            client,
            6,
            [
                ("create", "/a", 0, crc32(b"x")),
                ("set", "/a", 1, crc32(b"y")),
                ("check", "/a", 1, None),
                ("delete", "/a", None, None),
            ],
        ),
        (client, 7, [("fence", "", None, None)]),
    ]
    txns = [decode(data) for data in flying if isinstance(data, bytes)]
    assert [summary(txn.origin, txn.change) for txn in txns] == told
    assert leader.primary.summaries() == []


def test_reads_of_missing_znodes(leader: Leader) -> None:
    leader.done(Create("/a"))
    at = zxid(1, 1)
    assert leader.tree.read(Get("/b")) == Failed("no node", "there is no znode /b", at)
    assert leader.tree.read(Exists("/b")) == Ok(at)
    assert isinstance(leader.tree.read(Exists("b")), Failed)
    assert leader.tree.read(Children("/")) == Ok(at, 0, children=["a"])
