"""Traces made from the evidence of servers and clients, and the oracle's verdict on them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from zab_chaos.harness.backends.zookeeper.evidence import RoleSample, RunEvidence, ServerLife, WrongAnswer
from zab_chaos.harness.backends.zookeeper.histories import session_ends
from zab_chaos.harness.backends.zookeeper.request_matching import NO_CLIENT
from zab_chaos.harness.backends.zookeeper.server_log import LeaderEstablished, PointReached, TreeMismatch
from zab_chaos.harness.backends.zookeeper.traces import traces
from zab_chaos.harness.backends.zookeeper.txnlog import CLOSE, CREATE, SESSION, SET, Step, Transaction, TxnLog
from zab_chaos.model.events import LOGS, Complete, Heal, Inject, Invoke, Milestone, RequestStep, Run, event_from_dict
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.oracle.properties import ALL
from zab_chaos.model.oracle.properties.logs import NOT_SHOWN
from zab_chaos.model.verdict import Judgement, Outcome, Verdict
from zab_chaos.node.core.digest import count

SESSION_ID, MS = 77, 1_000_000
ANNE, BOB = 101, 202  # sessions of nobody whose records are kept


def zxid(epoch: int, counter: int) -> int:
    return epoch << 32 | counter


def txn(epoch: int, counter: int, *steps: Step, digest: int | None = None, client: int = SESSION_ID) -> Transaction:
    kind = SESSION if not steps else CREATE if steps[0][0] == "create" else SET
    made = 100 * epoch + counter  # milliseconds
    return Transaction(zxid(epoch, counter), client, counter, made, kind, digest or 1000 * epoch + counter, steps)


BEGIN = txn(1, 1)
ONE, TWO, THREE = (txn(1, 2, ("create", "/a", 0, 5)), txn(1, 3, ("set", "/a", 1, 6)), txn(1, 4, ("set", "/a", 2, 7)))
NEXT = txn(2, 1, ("set", "/a", 3, 8), client=4)  # of nobody whose records are kept
ALL_FOUR = (BEGIN, ONE, TWO, THREE)


def log(*transactions: Transaction, snapshots: tuple[int, ...] = (), epochs: tuple[int, int] = (1, 1)) -> TxnLog:
    return TxnLog(transactions, snapshots, epochs=epochs)


def lives(*after: TxnLog, before: TxnLog | None = None, tree: str | None = "ab" * 8) -> list[ServerLife]:
    return [
        ServerLife(
            node=node, life=1, began=0, ended=900 * MS, disk_before=before or TxnLog(), disk_after=disk, tree=tree
        )
        for node, disk in enumerate(after, 1)
    ]


def told(seq: int, one: Transaction, asked: dict[str, Any], **answer: Any) -> list[Invoke | Complete]:
    t = one.time * MS
    made: dict[str, Any] = {"outcome": "ok", "zxid": (one.zxid >> 32, one.zxid & 0xFFFFFFFF), **answer}
    return [
        Invoke(t=t - MS, due=t - MS, client=9, seq=seq, node=1, **asked),
        Complete(t=t + MS, client=9, seq=seq, node=1, **made),
    ]


OPERATIONS = [
    *told(1, ONE, {"op": "create", "path": "/a", "value": 5}, version=0, path="/a"),
    *told(2, TWO, {"op": "set", "path": "/a", "value": 6}, version=1),
    *told(3, THREE, {"op": "set", "path": "/a", "value": 7}, version=2),
]


def evidence(
    found: Sequence[ServerLife], operations: Sequence[Invoke | Complete] = OPERATIONS, **more: Any
) -> RunEvidence:
    return RunEvidence(nodes=3, lives=found, operations=operations, sessions={9: [SESSION_ID]}, **more)


def judge(given: RunEvidence, faults: Sequence[Inject | Heal] = ()) -> Verdict:
    oracle = Oracle(LOGS)
    for fault in faults:
        oracle.add_fault(fault)
    events = [event for trace in traces(given).values() for event in trace]
    for event in sorted(events, key=lambda one: (one["t"], one["node"], one["life"])):
        oracle.add_event(event_from_dict(event))
    for operation in given.operations:
        oracle.add_operation(operation)
    for name in ("started", "safety-ended", "converged"):
        oracle.add_milestone(Milestone(t=0 if name == "started" else 900 * MS, event=name, seconds=0.0))
    return oracle.finish(Run(nodes=3, evidence=LOGS))


def violated(given: RunEvidence) -> list[str]:
    return judge(given).violated


def test_equal_logs_that_agree_with_the_clients_violate_nothing() -> None:
    verdict = judge(evidence(lives(*[log(*ALL_FOUR)] * 3)))
    by_name = {one.name: one for one in verdict.properties}
    assert violated(evidence(lives(*[log(*ALL_FOUR)] * 3))) == []
    assert by_name["trace integrity"].verdict is Judgement.PASS
    for name in ("durability", "agreement", "total order", "exactly once", "values and versions", "state equality"):
        assert by_name[name].verdict is Judgement.PASS, (name, verdict.reasons)
        assert by_name[name].checked


def test_each_property_without_evidence_is_one_of_the_oracles() -> None:
    assert set(NOT_SHOWN) < {kind.name for kind in ALL}


def test_an_acknowledged_write_that_is_in_no_log_at_the_end_is_a_violation() -> None:
    first = replace(lives(log(*ALL_FOUR))[0], ended=500 * MS, tree=None)
    again = ServerLife(
        node=1,
        life=2,
        began=510 * MS,
        ended=900 * MS,
        disk_before=log(*ALL_FOUR),
        disk_after=log(*ALL_FOUR[:3], NEXT),
        tree="ab" * 8,
    )
    rest = [replace(it, disk_after=log(*ALL_FOUR[:3], NEXT)) for it in lives(TxnLog(), TxnLog(), TxnLog())[1:]]
    found = violated(evidence([first, again, *rest]))
    assert "durability" in found
    assert "committed stays" in found


def test_an_ephemeral_znode_is_not_what_a_plain_create_asked_for() -> None:
    ephemeral = log(BEGIN, replace(ONE, ephemerals=("/a",)), TWO, THREE)
    assert violated(evidence(lives(ephemeral, ephemeral, ephemeral))) == ["exactly once"]
    theirs = replace(NEXT, client=4712, steps=(("create", "/b", 0, 1),), ephemerals=("/b",))
    others = log(*ALL_FOUR, theirs)
    assert violated(evidence(lives(others, others, others))) == []


def test_a_write_acknowledged_without_a_zxid_is_a_violation() -> None:
    """As when the header and the stat of the answer have different zxids."""
    without = told(1, ONE, {"op": "create", "path": "/a", "value": 5}, version=0, path="/a", zxid=(0, 0))
    verdict = judge(evidence(lives(*[log(*ALL_FOUR)] * 3), [*without, *OPERATIONS[2:]]))
    assert verdict.violated == ["durability", "client order", "exactly once"]
    (words,) = (it.words for one in verdict.properties if one.name == "exactly once" for it in one.violations)
    assert words == "the create of client 9, seq 1, was acknowledged without a zxid"


def close(counter: int, client: int = SESSION_ID) -> Transaction:
    return replace(txn(1, counter, client=client), type=CLOSE)


def test_transactions_before_or_after_their_session_are_no_writes_of_its_client() -> None:
    honest = log(*ALL_FOUR, close(5))
    assert violated(evidence(lives(*[honest] * 3))) == []
    late = log(txn(1, 1, client=BOB), ONE, TWO, THREE, txn(1, 5))
    assert violated(evidence(lives(*[late] * 3))) == ["exactly once"]
    ended_early = log(BEGIN, ONE, close(3), replace(THREE, steps=TWO.steps))
    acknowledged = [*OPERATIONS[:2], *told(2, THREE, {"op": "set", "path": "/a", "value": 6}, version=1)]
    assert violated(evidence(lives(*[ended_early] * 3), acknowledged)) == ["exactly once"]
    others = log(*ALL_FOUR, close(5, BOB))
    assert violated(evidence(lives(*[others] * 3))) == []


def test_a_session_whose_start_is_in_no_log_may_have_started_in_a_snapshot() -> None:
    rest = log(replace(BEGIN, client=BOB), ONE, TWO, THREE)
    assert violated(evidence(lives(*[rest] * 3))) == []


def test_transactions_before_the_start_of_an_unrecorded_session_are_not_its() -> None:
    early = log(BEGIN, txn(1, 2, ("set", "/b", 1, 1), client=ANNE), txn(1, 3, client=ANNE))
    assert [it["txns"][0][0] for it in events_of(evidence(lives(early), []), "broadcast")] == [
        SESSION_ID,
        NO_CLIENT,
        ANNE,
    ]


def test_a_gap_in_a_log_is_a_skipped_transaction() -> None:
    assert "total order" in violated(evidence(lives(log(*ALL_FOUR), log(BEGIN, ONE, THREE), log(*ALL_FOUR))))


def test_other_bytes_under_the_same_zxid_are_a_fork() -> None:
    other = txn(1, 3, ("set", "/a", 1, 99), digest=4711)
    assert "agreement" in violated(evidence(lives(log(*ALL_FOUR), log(BEGIN, ONE, other, THREE), log(*ALL_FOUR))))


def test_transactions_below_another_servers_snapshot_do_not_count_as_applied() -> None:
    stale = txn(1, 5, ("create", "/never", 0, 1))
    caught_up = log(*ALL_FOUR, stale, txn(2, 2), snapshots=(zxid(2, 1),))
    whole = log(*ALL_FOUR, NEXT, txn(2, 2))
    assert violated(evidence(lives(whole, caught_up, whole))) == []
    own = log(*ALL_FOUR, stale, NEXT, txn(2, 2), snapshots=(zxid(2, 1),))  # it logged what it took the snapshot of
    assert "agreement" in violated(evidence(lives(whole, own, whole)))


def test_a_snapshot_of_the_beginning_of_an_epoch_has_the_history_that_its_leader_began_with() -> None:
    """Server 3 has logged a transaction that was never committed, and dies. Server 1 leads, and takes a snapshot before it has
    applied anything of its epoch. Server 3 receives that snapshot."""
    never = txn(1, 5, ("create", "/never", 0, 1))
    leader = log(*ALL_FOUR, NEXT, snapshots=(0, zxid(2, 0)), epochs=(2, 2))
    caught_up = log(*ALL_FOUR, never, NEXT, snapshots=(0, zxid(2, 0)), epochs=(2, 2))
    one, two, three = lives(leader, log(*ALL_FOUR, NEXT, epochs=(2, 2)), caught_up)
    died = replace(three, ended=140 * MS, disk_after=log(*ALL_FOUR, never), tree=None)
    back = replace(three, life=2, began=160 * MS, disk_before=died.disk_after)
    led = [LeaderEstablished(50, 1, 1, 1, (1, 2, 3)), LeaderEstablished(150, 1, 1, 2, (1, 2))]
    assert violated(evidence([one, two, died, back], established=led)) == []


def test_logs_that_all_begin_at_snapshots_complete_each_other() -> None:
    late = log(TWO, THREE, NEXT, txn(2, 2), snapshots=(zxid(1, 2),))  # it came when the leader had two
    second = log(*ALL_FOUR, txn(2, 2), snapshots=(zxid(2, 1),))
    third = log(*ALL_FOUR, NEXT, snapshots=(zxid(2, 2),))
    given = evidence(lives(late, second, third))
    assert violated(given) == []
    for trace in traces(given).values():
        delivered = [(event["epoch"], event["first"]) for event in trace if event["event"] == "deliver"]
        assert delivered[0] == (1, 1)
    stale = txn(1, 3, ("create", "/never", 0, 1))  # below the snapshot that the second took
    assert violated(evidence(lives(late, log(BEGIN, ONE, stale, txn(2, 2), snapshots=(zxid(2, 1),)), third))) == []


def test_a_log_that_has_lost_a_transaction_tells_nothing_about_what_another_server_received() -> None:
    """Server 2 has lost a transaction in the end, and is the last to be read. Server 3 has received a snapshot before that."""
    whole, received = log(*ALL_FOUR, NEXT), log(NEXT, snapshots=(zxid(1, 4),))
    one, two, three = lives(whole, log(BEGIN, ONE, THREE, NEXT), received)
    given = evidence([one, replace(two, ended=950 * MS, tree=None), three])
    delivered = [event for event in events_of(given, "deliver") if event["node"] == 3]
    assert [(event["epoch"], event["first"], count(event["digests"])) for event in delivered] == [(1, 1, 4), (2, 1, 1)]


def test_different_trees_with_equal_logs_are_a_violation() -> None:
    first, second, third = lives(*[log(*ALL_FOUR)] * 3)
    assert violated(evidence([first, replace(second, tree="cd" * 8), third])) == ["state equality"]


def test_answers_are_compared_with_the_effects_of_their_transactions() -> None:
    invoke, complete = told(2, TWO, {"op": "set", "path": "/a", "value": 6}, version=7)
    disks = [log(*ALL_FOUR)] * 3
    assert "exactly once" in violated(evidence(lives(*disks), [*OPERATIONS[:2], invoke, complete, *OPERATIONS[4:]]))
    failed = Complete(t=complete.t, client=9, seq=2, node=1, outcome="failed", error="bad version")
    assert "exactly once" in violated(evidence(lives(*disks), [*OPERATIONS[:2], invoke, failed, *OPERATIONS[4:]]))
    twice = [log(*ALL_FOUR, txn(1, 5, ("set", "/a", 3, 7)))] * 3
    assert "exactly once" in violated(evidence(lives(*twice)))


def test_a_write_with_unknown_outcome_is_matched_by_its_session_and_value() -> None:
    unknown = [OPERATIONS[4], Complete(t=450 * MS, client=9, seq=3, node=1, outcome="unknown", error="gone")]
    given = evidence(lives(*[log(*ALL_FOUR)] * 3), [*OPERATIONS[:4], *unknown])
    assert violated(given) == []
    events = [event for trace in traces(given).values() for event in trace if event["event"] == "broadcast"]
    assert [event["txns"][0][:2] for event in events] == [[SESSION_ID, zxid(1, 1)], [9, 1], [9, 2], [9, 3]]


def test_a_sequential_create_with_unknown_outcome_is_matched_without_its_number() -> None:
    made = txn(1, 5, ("create", "/a/s-0000000000", 0, 3))
    asked = Invoke(
        t=160 * MS, due=160 * MS, client=9, seq=4, node=1, op="create", path="/a/s-", value=3, sequential=True
    )
    given = evidence(lives(*[log(*ALL_FOUR, made)] * 3), [*OPERATIONS, asked])
    assert violated(given) == []
    assert [9, 4, [["create", "/a/s-0000000000", 0, 3]]] in [
        event["txns"][0] for event in traces(given)[1, 1] if event["event"] == "broadcast"
    ]


def test_only_a_sequential_step_of_a_multi_is_matched_without_its_number() -> None:
    made = txn(1, 5, ("create", "/a/s-0000000000", 0, 3), ("create", "/a/0000000001", 0, 4))
    steps = [
        RequestStep(op="create", path="/a/s-", value=3, sequential=True),
        RequestStep(op="create", path="/a/0000000001", value=4),
    ]
    asked = Invoke(t=160 * MS, due=160 * MS, client=9, seq=4, node=1, op="multi", steps=steps)
    assert violated(evidence(lives(*[log(*ALL_FOUR, made)] * 3), [*OPERATIONS, asked])) == []
    other = replace(made, steps=(made.steps[0], ("create", "/a/0000000002", 0, 4)))
    assert violated(evidence(lives(*[log(*ALL_FOUR, other)] * 3), [*OPERATIONS, asked])) == ["exactly once"]


def test_a_transaction_that_its_client_never_asked_for_is_a_violation() -> None:
    made = txn(1, 5, ("create", "/never-asked-for", 0, 3))
    assert "exactly once" in violated(evidence(lives(*[log(*ALL_FOUR, made)] * 3)))
    others = replace(made, client=4)  # a session that is no client's of ours
    assert violated(evidence(lives(*[log(*ALL_FOUR, others)] * 3))) == []
    closed = replace(txn(1, 5, ("delete", "/a", None, None)), type=CLOSE)
    assert violated(evidence(lives(*[log(*ALL_FOUR, closed)] * 3))) == []


def test_boot_events_show_the_disk_and_role_events_the_samples() -> None:
    before = replace(log(*ALL_FOUR, epochs=(2, 1)), torn=9)
    (life,) = lives(log(*ALL_FOUR), before=before)[:1]
    seen = [
        RoleSample(10, 1, 1, "LOOKING", 1, None, False),
        RoleSample(20, 1, 1, "LOOKING", 1, None, False),
        RoleSample(30, 1, 1, "LEADING", 2, 1, True),
    ]
    trace = traces(evidence([life], [], role_samples=seen))[1, 1]
    assert [event["n"] for event in trace] == list(range(1, len(trace) + 1))
    boot = trace[0]
    assert (boot["event"], boot["disk"], boot["accepted_epoch"], boot["current_epoch"]) == ("boot", "torn", 2, 1)
    assert boot["last_zxid"] == [1, 4]
    assert [event["role"] for event in trace if event["event"] == "role"] == ["LOOKING", "LEADING"]
    assert [event["phase"] for event in trace if event["event"] == "phase"] == ["ELECTION", "BROADCAST"]
    dead = replace(life, code=1, disk_before=TxnLog(), life=2)
    assert [event["event"] for event in traces(evidence([dead], []))[1, 2]][-1] == "exit"
    assert traces(evidence([dead], []))[1, 2][0]["disk"] == "amnesiac"


def test_a_server_that_lost_its_disk_is_a_member_again_when_it_serves() -> None:
    first = replace(lives(log(*ALL_FOUR))[0], ended=500 * MS)
    again = ServerLife(node=1, life=2, began=600 * MS, ended=900 * MS, disk_before=TxnLog(), disk_after=log(*ALL_FOUR))
    looking, serving = (
        RoleSample(650 * MS, 1, 2, "LOOKING", 0, None, False),
        RoleSample(700 * MS, 1, 2, "FOLLOWING", 1, 3, True),
    )
    later = replace(serving, t=800 * MS, epoch=2)
    found = traces(evidence([first, again], role_samples=[looking, serving, later]))[1, 2]
    assert [(it["disk"]) for it in found if it["event"] == "boot"] == ["amnesiac"]
    assert [(it["t"], it["epoch"]) for it in found if it["event"] == "member"] == [(700 * MS, 1)]
    alone = traces(evidence([first, again], role_samples=[looking]))[1, 2]
    assert [it for it in alone if it["event"] == "member"] == []


def made_by_a_session(counter: int, path: str, session: int) -> Transaction:
    return replace(txn(1, counter, ("create", path, 0, 0), client=session), ephemerals=(path,))


def test_ephemeral_znodes_are_deleted_with_their_session_also_if_the_log_does_not_list_them() -> None:
    """As before 3.6. Another client has deleted one of Anne's znodes before, and one of Bob's remains."""
    history = [
        *(made_by_a_session(n, f"/e-{n}", ANNE) for n in (1, 2, 3)), made_by_a_session(4, "/e-4", BOB),
        txn(1, 5, ("delete", "/e-2", None, None), client=BOB), replace(txn(1, 6, client=ANNE), type=CLOSE),
        replace(txn(1, 7, client=ANNE), type=CLOSE),
    ]  # fmt: skip
    trace = traces(evidence(lives(log(*history)), []))[1, 1]
    effects = {event["first"]: event["txns"][0][2] for event in trace if event["event"] == "broadcast"}
    assert effects[6] == [["delete", "/e-1", None, None], ["delete", "/e-3", None, None]]
    assert effects[7] == []


def test_the_end_of_a_session_ignores_transactions_that_only_a_former_leader_logged() -> None:
    """Node 1 led epoch 1 alone in the end: it has logged a creation and an end that no other server has, and truncates them."""
    kept = made_by_a_session(1, "/e-1", ANNE)
    alone = made_by_a_session(2, "/e-2", ANNE), replace(txn(1, 3, client=ANNE), type=CLOSE)
    end = replace(txn(2, 1, client=ANNE), type=CLOSE)
    old = replace(lives(log(kept, *alone))[0], ended=300 * MS, tree=None)
    new = replace(lives(log(kept, end), before=log(kept, *alone))[0], life=2, began=400 * MS)
    rest = lives(*[log(kept, end)] * 3)[1:]
    found = traces(evidence([old, new, *rest], [], role_samples=[RoleSample(1, 2, 1, "LEADING", 2, 2, serving=True)]))
    effects = {
        (event["epoch"], event["first"]): event["txns"][0][2]
        for trace in found.values()
        for event in trace
        if event["event"] == "broadcast"
    }
    assert effects[2, 1] == [["delete", "/e-1", None, None]]
    assert effects[1, 3] == []


def unknown_check(seq: int, version: int | None) -> Invoke:
    return Invoke(t=seq, due=seq, client=9, seq=seq, node=1, op="check", path="/a", version=version)


def test_a_check_is_matched_to_the_request_with_the_found_version() -> None:
    """Equal checks can't be told apart by their data: after two moves of the client, one with each version is still open."""
    found = txn(1, 5, ("check", "/a", 3, None))  # it has found version 2, and says the next one
    asked = [*OPERATIONS, unknown_check(4, 7), unknown_check(5, 2), unknown_check(6, 2)]
    given = evidence(lives(*[log(*ALL_FOUR, found)] * 3), asked)
    assert [event["txns"] for event in traces(given)[1, 1] if event["event"] == "broadcast"][-1] == [
        [9, 5, [["check", "/a", 2, None]]]
    ]
    assert violated(given) == []


def test_a_check_is_matched_to_a_request_that_was_not_overtaken() -> None:
    found = txn(1, 5, ("check", "/a", 3, None))
    later = [msgspec.structs.replace(one, seq=one.seq + 1) for one in OPERATIONS]
    asked = [unknown_check(1, 2), *later, unknown_check(5, 2)]
    assert violated(evidence(lives(*[log(*ALL_FOUR, found)] * 3), asked)) == []
    late = violated(evidence(lives(*[log(*ALL_FOUR, found)] * 3), asked[:-1]))
    assert late == ["client order"]


def test_a_logged_check_whose_condition_was_false_is_a_violation() -> None:
    found = txn(1, 5, ("check", "/a", 3, None))
    given = evidence(lives(*[log(*ALL_FOUR, found)] * 3), [*OPERATIONS, unknown_check(4, 7)])
    assert "values and versions" in violated(given)


def test_a_transaction_is_not_that_of_an_equal_request_that_was_refused() -> None:
    """The first check came before somebody had made version 3, and of the second one nothing is known."""
    theirs, found = txn(1, 5, ("set", "/a", 3, 8), client=4), txn(1, 6, ("check", "/a", 4, None))
    early, late = (
        msgspec.structs.replace(unknown_check(seq, 3), t=t * MS, due=t * MS) for seq, t in ((4, 106), (5, 108))
    )
    no = Complete(t=107 * MS, client=9, seq=4, node=1, outcome="failed", error="bad version", zxid=(1, 4))
    given = evidence(lives(*[log(*ALL_FOUR, theirs, found)] * 3), [*OPERATIONS, early, no, late])
    assert violated(given) == []
    assert [event["txns"][0][:2] for event in events_of(given, "broadcast")][-1] == [9, 5]


def test_an_acknowledged_write_that_another_clients_session_has_made_is_a_violation() -> None:
    theirs = evidence(lives(*[log(BEGIN, ONE, replace(TWO, client=ANNE), THREE)] * 3))
    assert "exactly once" in violated(replace(theirs, sessions={9: [SESSION_ID], 8: [ANNE]}))


def events_of(given: RunEvidence, name: str) -> list[dict[str, Any]]:
    return [event for _, trace in sorted(traces(given).items()) for event in trace if event["event"] == name]


def test_a_logged_leadership_is_established_with_the_history_of_the_epochs_before() -> None:
    new = log(*ALL_FOUR, NEXT, epochs=(2, 2))
    led = [
        LeaderEstablished(50, 1, 1, 1, (1, 2)),
        LeaderEstablished(150, 2, 1, 2, (2, 3)),
        LeaderEstablished(901, 3, 1, 3, (1, 3)),
    ]
    found = events_of(evidence(lives(new, new, new), [], established=led, clock_offset=7), "established")
    assert [(it["t"], it["node"], it["epoch"], it["last_zxid"], it["quorum"]) for it in found] == [
        (50 * MS + 7, 1, 1, [0, 0], [1, 2]),
        (150 * MS + 7, 2, 2, [1, 4], [2, 3]),
    ]  # the third says it after its disk was read for the last time
    snapshot = log(NEXT, snapshots=(zxid(1, 9), zxid(2, 1)), epochs=(2, 2))
    (only,) = events_of(
        evidence(lives(snapshot), [], established=[LeaderEstablished(150, 1, 1, 2, (1,))]), "established"
    )
    assert only["last_zxid"] == [1, 9]


def test_a_life_that_began_after_the_last_reading_of_the_disks_is_not_in_evidence() -> None:
    sample = RoleSample(950 * MS, 2, 2, "LOOKING", 1, None, False)
    given = evidence(lives(*[log(*ALL_FOUR)] * 3), role_samples=[sample])
    assert events_of(given, "role") == []
    assert violated(given) == []


def test_a_delete_is_matched_with_the_request_whose_version_the_znode_had() -> None:
    """Two deletes of unknown outcome were in flight together. The log does not say on which version a delete depends."""
    gone = txn(1, 5, ("delete", "/a", None, None))
    for asked, right in (((1, None), 5), ((2, None), 4), ((None, 2), 4), ((1, 2), 5)):
        deletes = [
            Invoke(t=450 * MS, due=450 * MS, client=9, seq=seq, node=1, op="delete", path="/a", version=version)
            for seq, version in enumerate(asked, 4)
        ]
        given = evidence(lives(*[log(*ALL_FOUR, gone)] * 3), [*OPERATIONS, *deletes])
        assert events_of(given, "broadcast")[-1]["txns"][0][:2] == [9, right]
        assert violated(given) == []


def test_a_wrong_answer_is_a_violation() -> None:
    wrong = WrongAnswer(300 * MS, 2, 77, "the answer to request 8, and request 7 was to be answered next")
    given = evidence(lives(*[log(*ALL_FOUR)] * 3), wrong_answers=[wrong])
    assert [(it["node"], it["session"]) for it in events_of(given, "misanswered")] == [(2, 77)]
    (found,) = [one for one in judge(given).properties if one.verdict is Judgement.VIOLATION]
    assert found.name == "client order"
    assert found.violations[0].words == f"node 2 sent session 0x4d {wrong.what}"


def test_a_logged_tree_mismatch_is_a_violation() -> None:
    given = evidence(
        lives(*[log(*ALL_FOUR)] * 3),
        mismatches=[TreeMismatch(300, 2, 1, zxid(1, 3)), TreeMismatch(901, 3, 1, zxid(1, 4))],
    )
    assert [(it["node"], it["t"], it["zxid"]) for it in events_of(given, "differs")] == [(2, 300 * MS, [1, 3])]
    (found,) = [one for one in judge(given).properties if one.verdict is Judgement.VIOLATION]
    (violation,) = found.violations
    assert found.name == "state equality"
    assert violation.words == "node 2 found that its tree differs from its leader's at 1:3"


def test_a_mismatch_of_a_tree_that_was_being_received_counts_unless_the_trees_are_equal_in_the_end() -> None:
    found = [TreeMismatch(300, 2, 1, zxid(1, 3), receiving=True)]
    disks = lives(*[log(*ALL_FOUR)] * 3)
    assert violated(evidence(disks, mismatches=found)) == ["state equality"]
    assert violated(evidence(disks, mismatches=found, trees_equal=True)) == []
    assert violated(evidence(disks, mismatches=[replace(found[0], receiving=False)], trees_equal=True)) == [
        "state equality"
    ]


def test_a_mismatch_of_a_tree_that_was_being_received_counts_if_its_server_shows_no_tree_in_the_end() -> None:
    found = [TreeMismatch(300, 2, 1, zxid(1, 3), receiving=True)]
    one, two, three = lives(*[log(*ALL_FOUR)] * 3)
    for tree, differs in (("ab" * 8, 0), (None, 1)):
        given = evidence([one, replace(two, tree=tree), three], mismatches=found, trees_equal=True)
        assert len(events_of(given, "differs")) == differs
    before = replace(two, ended=500 * MS, tree=None)
    again = replace(two, life=2, began=600 * MS, disk_before=two.disk_after)
    given = evidence([one, before, again, three], mismatches=found, trees_equal=True)
    assert events_of(given, "differs") == []


def test_two_leaders_of_the_same_epoch_violate_one_property() -> None:
    disks = lives(*[log(*ALL_FOUR)] * 3)
    once, twice = (
        [LeaderEstablished(50, 1, 1, 1, (1, 2))],
        [LeaderEstablished(50, 1, 1, 1, (1, 2)), LeaderEstablished(60, 3, 1, 1, (2, 3))],
    )
    assert violated(evidence(disks, established=once)) == []
    assert violated(evidence(disks, established=twice)) == ["one leader an epoch"]


def test_a_fork_alone_is_no_evidence_of_two_leaders() -> None:
    """Two logs differ, and only one server has logged that it led: which one made the other transaction is a guess."""
    other = txn(1, 3, ("set", "/a", 1, 99), digest=4711)
    forked = lives(log(*ALL_FOUR), log(BEGIN, ONE, other, THREE), log(*ALL_FOUR))
    found = violated(evidence(forked, established=[LeaderEstablished(50, 1, 1, 1, (1, 2))]))
    assert "agreement" in found
    assert "one leader an epoch" not in found


def broadcasts(given: RunEvidence) -> list[tuple[int, int, int]]:
    """Return (node, life, digest) of each broadcast."""
    return [(it["node"], it["life"], int(it["digests"], 16)) for it in events_of(given, "broadcast")]


def test_transactions_of_an_epoch_are_broadcast_by_its_logged_leader() -> None:
    led = [LeaderEstablished(50, 3, 1, 1, (1, 3)), LeaderEstablished(101, 2, 1, 2, (1, 2))]
    given = evidence(lives(*[log(BEGIN, ONE)] * 3), [], established=led)
    assert broadcasts(given) == [(3, 1, BEGIN.digest), (3, 1, ONE.digest)]


def test_with_two_leaders_of_an_epoch_a_transaction_is_broadcast_by_the_last_one_before_it() -> None:
    """The first history is in more logs; two servers that lost their disks make the second one, which is longer."""
    again = [replace(txn(1, n, digest=n), time=400 + n) for n in range(1, 8)]
    old = lives(*[log(BEGIN, ONE, TWO)] * 3)
    new = [replace(it, life=2, began=300 * MS, disk_after=log(*again)) for it in old[1:]]
    first = [replace(it, ended=200 * MS, tree=None) for it in old]
    led = [
        LeaderEstablished(50, 1, 1, 1, (1, 2)),
        LeaderEstablished(350, 3, 2, 1, (2, 3)),
        LeaderEstablished(404, 2, 2, 2, (2, 3)),
    ]
    made = [*((1, 1, one.digest) for one in (BEGIN, ONE, TWO)), *((3, 2, n) for n in range(1, 8))]
    assert broadcasts(evidence([*first, *new], [], established=led)) == made


def test_the_left_event_shows_the_disk_at_the_end_of_a_life() -> None:
    dead = replace(lives(log(*ALL_FOUR, epochs=(3, 2)))[0], ended=500 * MS, code=1)
    (left,) = events_of(evidence([dead], []), "left")
    assert (left["t"], left["accepted_epoch"], left["current_epoch"], left["last_zxid"]) == (500 * MS, 3, 2, [1, 4])
    assert [event["event"] for event in traces(evidence([dead], []))[1, 1]][-2:] == ["left", "exit"]
    refused = replace(dead, why="No snapshot found")
    assert [events_of(evidence([one], []), "exit")[0]["why"] for one in (dead, refused)] == [
        "it ended by itself", "No snapshot found",
    ]  # fmt: skip
    (empty,) = events_of(evidence(lives(replace(log(), epochs=(None, None))), []), "left")
    assert (empty["accepted_epoch"], empty["current_epoch"], empty["last_zxid"]) == (0, 0, [0, 0])


def test_a_log_with_a_gap_is_shown_as_two_ranges() -> None:
    hole = log(BEGIN, ONE, THREE, NEXT, snapshots=(zxid(1, 2), 0))
    (left,) = events_of(evidence(lives(hole), []), "left")
    assert left["log"] == [[[1, 1], [1, 2]], [[1, 4], [1, 4]], [[2, 1], [2, 1]]]
    assert left["snapshots"] == [[0, 0], [1, 2]]
    assert events_of(evidence(lives(log()), []), "left")[0]["log"] == []


def test_a_loss_from_the_middle_of_a_log_is_not_called_a_truncation() -> None:
    """Server 2 has lost the end of its log, and server 3 one transaction in the middle and the last one."""
    whole = log(*ALL_FOUR, NEXT)
    given = evidence(lives(whole, log(BEGIN, ONE), log(BEGIN, ONE, THREE), before=whole))
    lost = events_of(given, "truncate")
    assert [(it["node"], it["keep"], it["last"], it["followed_by"]) for it in lost] == [
        (2, [1, 2], [2, 1], None),
        (3, [1, 2], [1, 3], [1, 4]),
        (3, [1, 4], [2, 1], None),
    ]
    (stays,) = [one for one in judge(given).properties if one.name == "committed stays"]
    assert [violation.words for violation in stays.violations] == [
        "node 2 truncated its log from 2:1 to 1:2, but node 1 had delivered 1:3 to 2:1",
        "node 3 lost what followed 1:2 in its log, up to 1:3 (now 1:4 follows), but node 1 had delivered 1:3",
        "node 3 truncated its log from 2:1 to 1:4, but node 1 had delivered 2:1",
    ]


def test_a_life_begins_with_the_disk_that_the_life_before_has_left() -> None:
    whole = log(*ALL_FOUR)
    first = replace(lives(whole)[0], ended=500 * MS, tree=None)
    changed = replace(whole, checksum=1)  # another byte, of a snapshot for example
    for found, as_left in ((whole, True), (changed, False), (log(epochs=(1, 1)), False), (TxnLog(), False)):
        again = replace(first, life=2, began=510 * MS, ended=900 * MS, disk_before=found, tree="ab" * 8)
        boots = events_of(evidence([first, again]), "boot")
        assert [boot["as_left"] for boot in boots] == [None, as_left]


def test_unreadable_transactions_are_damage_and_missing() -> None:
    rotten = replace(log(BEGIN, ONE, THREE), damage=("log.1: the transaction at byte 16 can't be read",))
    given = evidence(lives(rotten, log(*ALL_FOUR), log(*ALL_FOUR)))
    assert [it["damage"] for it in events_of(given, "left")] == [list(rotten.damage), [], []]
    assert "agreement" in violated(given)


def test_a_log_in_the_wrong_order_violates_total_order_and_nothing_else() -> None:
    """Its server would apply the transactions in this order at its next start."""
    mixed = replace(log(*ALL_FOUR), disorder=(zxid(1, 3), zxid(1, 2)))
    assert violated(evidence(lives(mixed, log(*ALL_FOUR), log(*ALL_FOUR)))) == ["total order"]


def test_a_transaction_of_unknown_type_makes_the_verdict_unknown() -> None:
    given = evidence(lives(*[log(BEGIN, ONE, replace(TWO, steps=(), obscure="type 99 is not known"), THREE)] * 3))
    verdict = judge(given)
    assert (verdict.verdict, verdict.violated) == (Outcome.UNKNOWN, [])
    assert "exactly once can't be judged: no record has the content of 1:3" in verdict.reasons


def test_an_epoch_that_is_durable_before_its_history_is_a_violation() -> None:
    """As in ZOOKEEPER-4643: node 1 has written epoch 2, but lacks the last transaction that epoch 1 acknowledged."""
    early, behind = log(*ALL_FOUR[:3], epochs=(2, 2)), log(*ALL_FOUR[:3])
    first = replace(lives(early, before=behind)[0], ended=500 * MS, tree=None)
    again = replace(
        lives(log(*ALL_FOUR, epochs=(2, 2)), before=log(*ALL_FOUR, epochs=(2, 2)))[0], life=2, began=600 * MS
    )
    rest = lives(*[log(*ALL_FOUR, epochs=(2, 2))] * 3)[1:]
    assert violated(evidence([first, again, *rest])) == ["epochs"]
    in_time = replace(first, disk_after=log(*ALL_FOUR[:3], epochs=(2, 1)))
    assert violated(evidence([in_time, again, *rest])) == []


def test_a_session_end_that_only_a_deposed_leader_logged_does_not_count() -> None:
    """Node 2 ends the session at 1:3 before it learns of node 1, which ends it at 2:1; then it takes over node 1's snapshot."""
    close, late = (replace(txn(*at, client=ANNE), type=CLOSE) for at in ((2, 1), (1, 3)))
    first, last = txn(1, 2, client=BOB), txn(2, 2, client=BOB)
    right = log(BEGIN, first, close, last, epochs=(2, 2))
    stale = log(BEGIN, first, late, last, snapshots=(close.zxid,), epochs=(2, 2))
    for order in ((right, stale), (stale, right)):
        assert session_ends(evidence(lives(*order), [])) == {ANNE: close}


def test_a_fault_at_a_crash_point_needs_a_server_that_says_that_it_reached_this_point() -> None:
    """The exit status and the state of a process do not show at which point it ended or paused."""
    inject = Inject(
        t=100 * MS, id=1, do="pause-at", nodes=[2], params={"point": "before-sync:TXN", "enough": "all"}, confirmed=True
    )
    faults = [inject, Heal(t=300 * MS, id=1, confirmed=True, evidence={"2": {"reached": True}})]
    words = "fault 1 (pause-at) is confirmed, but by the traces no node reached before-sync:TXN"
    for point, node, right in (
        ("before-sync:TXN", 2, True),
        ("before-write:TXN", 2, False),
        ("before-sync:TXN", 3, False),
    ):
        given = evidence(lives(*[log(*ALL_FOUR)] * 3), points=[PointReached(200 * MS, node, 1, point)])
        assert (words not in str(judge(given, faults))) is right


def test_each_life_has_the_role_that_it_was_first_seen_in() -> None:
    """Also if the life before had the same one."""
    one = replace(lives(log(*ALL_FOUR))[0], ended=400 * MS)
    two = replace(one, life=2, began=500 * MS, ended=900 * MS)
    seen = [RoleSample(t * MS, 1, life, "FOLLOWING", 1, 3, True) for t, life in ((100, 1), (600, 2))]
    given = evidence([one, two], [], role_samples=seen)
    for name in ("role", "phase"):
        assert [(it["life"], it["t"]) for it in events_of(given, name)] == [(1, 100 * MS), (2, 600 * MS)]


def lost(before: TxnLog, after: TxnLog) -> list[tuple[Any, Any, Any]]:
    given = evidence(lives(after, before=before), [])
    return [(it["keep"], it["last"], it["followed_by"]) for it in events_of(given, "truncate")]


def test_a_truncation_is_what_a_log_has_held_and_holds_no_more() -> None:
    whole = log(*ALL_FOUR)
    assert lost(whole, log()) == [([0, 0], [1, 4], None)]
    assert lost(whole, log(snapshots=(zxid(1, 4),))) == []  # a leader has sent a snapshot
    assert lost(whole, log(THREE, NEXT)) == []  # the server has removed its old files
    other = txn(1, 3, ("set", "/a", 1, 99), digest=4711)
    assert lost(whole, log(BEGIN, ONE, other, THREE)) == [([1, 2], [1, 3], [1, 3])]


def delivered(given: RunEvidence, life: int = 1) -> list[tuple[int, list[int]]]:
    """Return the time and the last zxid of each batch that server 1 has delivered in a life."""
    found = [it for it in events_of(given, "deliver") if (it["node"], it["life"]) == (1, life)]
    return [(it["t"], [it["epoch"], it["first"] + count(it["digests"]) - 1]) for it in found]


def test_a_refusal_shows_what_its_server_has_applied() -> None:
    refused = msgspec.structs.replace(OPERATIONS[3], outcome="failed", error="bad version", zxid=(1, 3))
    assert isinstance(refused, Complete)
    given = evidence([replace(it, tree=None) for it in lives(log(*ALL_FOUR))], [OPERATIONS[2], refused])
    assert delivered(given) == [(refused.t, [1, 3])]


def test_an_answer_may_be_noticed_when_its_server_is_gone_but_not_when_the_next_one_is_there() -> None:
    one = replace(lives(log(*ALL_FOUR))[0], ended=103 * MS, tree=None)
    two = replace(one, life=2, began=900 * MS, ended=990 * MS)
    given = evidence([one, two], OPERATIONS)
    assert [at for _, at in delivered(given)] == [[1, 2], [1, 3], [1, 4]]
    assert delivered(given, life=2) == []


def test_a_tree_belongs_to_the_end_of_its_servers_log() -> None:
    given = evidence(lives(log(*ALL_FOUR), log(*ALL_FOUR), log(*ALL_FOUR)))
    shown = {(it["epoch"], it["first"] + count(it["digests"]) - 1): it["tree"] for it in events_of(given, "deliver")}
    assert [zxid for zxid, tree in shown.items() if tree == "ab" * 8] == [(1, 4)]


def test_a_snapshot_at_the_beginning_of_an_epoch_is_of_what_was_logged_before() -> None:
    """So this server has logged everything itself, and lacks something."""
    whole, hole = log(*ALL_FOUR, NEXT), log(BEGIN, ONE, THREE, NEXT, snapshots=(zxid(2, 0),))
    assert "total order" in violated(evidence(lives(whole, hole, whole)))
    received = log(BEGIN, ONE, NEXT, snapshots=(zxid(2, 0),))
    assert violated(evidence(lives(whole, received, whole))) == []
