"""The properties sessions, ephemerals, watches and sync, on made-up lines: legal ones, and each way to violate them."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.model.oracle.delivered import Txn, delivered
from zab_chaos.model import events as ev
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Judgement, Property, Violation

ANNE, BOB = 1, 2  # clients
ANNES, BOBS = 101, 202  # sessions
PATH = "/sessions/e-1-1"
ELSEWHERE = "/sessions/z-1"
BELOW = "/sessions/"  # the list of the children of /sessions

Line = dict[str, Any]


def the_violation(found: Property) -> Violation:
    """Return the single violation of a violated property."""
    assert found.verdict is Judgement.VIOLATION
    (violation,) = found.violations
    return violation


def judged(name: str, lines: list[Line]) -> Property:
    return judge_lines(Oracle(ev.LOGS), name, lines)


def judge_lines(oracle: Oracle, name: str, lines: list[Line]) -> Property:
    for t, line in enumerate(lines, 1):
        oracle.add_session_line(msgspec.convert({"t": t, **line}, ev.SessionEvent))
    checker = next(one for one in oracle.checkers if one.name == name)
    checker.at_end()
    return checker.property()


def made(counter: int, path: str = PATH, session: int = ANNES) -> Line:
    return {"type": "made", "client": ANNE, "session": session, "path": path, "zxid": [1, counter]}


def wrote(counter: int, value: int = 0, version: int = 1, session: int = BOBS) -> Line:
    line = {"type": "wrote", "client": BOB, "session": session, "path": ELSEWHERE, "zxid": [1, counter]}
    return {**line, "value": value, "version": version}


def refused(counter: int, error: str, path: str = PATH) -> Line:
    return {"type": "refused", "client": BOB, "path": path, "error": error, "node": 2, "zxid": [1, counter]}


def listed(counter: int, *children: str, client: int = BOB) -> Line:
    return look(counter, 4 if counter >= 4 else 2, path=BELOW, client=client, children=list(children))


def ended(counter: int, session: int = ANNES, *, asked: bool = False) -> Line:
    return {"type": "ended", "client": 0, "session": session, "zxid": [1, counter], "asked": asked}


def look(
    counter: int, changed: int | None, client: int = BOB, node: int = 2, path: str = PATH, **fields: Any
) -> Line:  # fmt: skip
    there = {} if changed is None else {"changed": [1, changed]}
    return {"type": "look", "client": client, "path": path, "node": node, "zxid": [1, counter], **there, **fields}


def over(why: str, session: int = ANNES) -> Line:
    return {"type": "over", "client": ANNE, "session": session, "why": why}


def ask(client: int = BOB, path: str = PATH) -> Line:
    return {"type": "ask", "client": client, "path": path}


def fired(client: int = BOB) -> Line:
    return {"type": "fired", "client": client, "path": PATH, "what": "deleted"}


MINE = {"owner": ANNES}


def test_an_ephemeral_exists_from_its_creation_to_the_end_of_its_session_even_at_a_lagging_server() -> None:
    lines = [
        made(5), look(4, None), look(5, 5, **MINE), look(9, 5, node=3, **MINE), over("closed"), look(10, None, node=1),
        look(8, 5, node=3, **MINE), ended(10), look(12, None, node=3),
    ]  # fmt: skip
    found = judged("ephemerals", lines)
    assert (found.verdict, found.checked) == (Judgement.PASS, 6), found.violations


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([made(5), ended(10), look(11, 5, **MINE)], "is there at node 2, at 1:11, although its session 0x65 ended at 1:10"),
        ([made(5), ended(10), look(10, 5, **MINE)], "although its session 0x65 ended at 1:10"),
        ([made(5), look(7, None), ended(10)], "is gone at node 2, at 1:7; it was made at 1:5 by session 0x65, which ended at"),
        ([made(5), look(7, None)], "which no log has ended"),
        ([made(5), over("left"), look(9, 5, last=True, **MINE)], "in the end, although its client's session 0x65 was over"),
        ([look(11, 7, owner=BOBS), ended(9, BOBS)], "although its session 0xca ended at 1:9"),  # not acknowledged
        ([made(5), look(7, 5, owner=BOBS)], "as session 0xca's; session 0x65 has made it"),
        ([made(5), look(7, 5)], "as one that is not ephemeral; session 0x65 has made it"),
    ],
    ids=[
        "outlives", "at-the-end-itself", "too-soon", "for-no-reason", "never-goes", "made-afterwards", "somebody-elses",
        "nobodys",
    ],
)  # fmt: skip
def test_an_ephemeral_that_exists_too_long_or_not_long_enough(lines: list[Line], words: str) -> None:
    violation = the_violation(judged("ephemerals", lines))
    assert words in violation.words
    assert [one.file for one in violation.evidence] == ["sessions.jsonl"] * len(violation.evidence)


def test_a_session_may_outlive_its_client() -> None:
    """It is over for the client but not for the servers: only the log shows when it ends."""
    found = judged("ephemerals", [made(5), over("left"), look(9, 5, **MINE), ended(12), look(13, None)])
    assert found.verdict is Judgement.PASS


def test_a_watch_fires_once_and_before_its_client_sees_the_change() -> None:
    lines = [
        ask(), look(5, 5, watch=True), look(6, 5), fired(), look(8, 8), look(9, 9),  # no watch is left
        ask(), ask(), look(9, 9, watch=True), fired(), look(10, 10, watch=True), fired(), look(11, None),
    ]  # fmt: skip
    found = judged("watches", lines)
    assert (found.verdict, found.checked) == (Judgement.PASS, 4), found.violations


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([ask(), look(5, 5, watch=True), fired(), fired()], "told of a change of /sessions/e-1-1 that it does not watch"),
        ([look(5, 5), fired()], "that it does not watch"),
        ([ask(), look(5, 5, watch=True), look(8, 8), fired()], "client 2 saw the state of 1:8 before it was told of a change"),
        ([ask(), look(5, 5, watch=True), look(8, None), fired()], "saw that there is none before it was told"),
        ([ask(), look(5, None, watch=True), look(8, 8), fired()], "since it has seen that there is none"),
        ([ask(), look(5, 5, watch=True), ask(), look(8, 8, watch=True), fired()], "saw the state of 1:8"),
        ([ask(), fired(), look(5, 5, watch=True), fired()], "that it does not watch"),
    ],
    ids=["twice", "unasked", "late", "gone-first", "there-first", "watched-again", "before-and-after-its-answer"],
)  # fmt: skip
def test_a_watch_that_fires_twice_or_late(lines: list[Line], words: str) -> None:
    found = judged("watches", lines)
    assert found.verdict is Judgement.VIOLATION
    assert words in found.violations[0].words


@pytest.mark.parametrize("gone", [{"type": "lost", "client": BOB}, {"type": "began", "client": BOB, "session": BOBS}])
def test_a_watch_ends_with_its_connection(gone: Line) -> None:
    assert judged("watches", [ask(), look(5, 5, watch=True), gone, look(8, 8)]).violations == []
    assert judged("watches", [ask(), look(5, 5, watch=True), gone, fired()]).verdict is Judgement.VIOLATION


def test_a_read_that_is_refused_sets_no_watch() -> None:
    refusal = {**refused(5, "no node"), "watch": True}
    legal = [ask(), refusal, ask(), ask(), fired(), refusal, look(6, 6, watch=True), look(8, 8)]
    assert judged("watches", legal).violations == []
    for lines in (
        [ask(), refusal, fired()],
        [ask(), refused(5, "no node", ELSEWHERE), ask(), refusal, fired(), fired()],
    ):
        assert "that it does not watch" in the_violation(judged("watches", lines)).words
    early = the_violation(judged("watches", [ask(), fired(), refusal]))
    assert "was told of a change of /sessions/e-1-1 before its read was refused" in early.words


def test_each_client_has_its_own_watch() -> None:
    lines = [ask(), look(5, 5, watch=True), look(8, 8, client=ANNE), fired(), look(8, 8)]
    assert judged("watches", lines).verdict is Judgement.PASS
    assert judged("watches", [*lines, fired(ANNE)]).verdict is Judgement.VIOLATION


# ---- with a history from the servers' logs ----


def judged_by_history(
    name: str, lines: list[Line], *, converged: bool = True, known: int | None = None, history: list[Txn] | None = None
) -> Property:
    oracle = delivered(history or HISTORY, known)
    for t, line in enumerate(lines, 1):
        oracle.add_session_line(msgspec.convert({"t": t, **line}, ev.SessionEvent))
    if converged:
        oracle.add_milestone(ev.Milestone(t=9, event="converged"))
    checker = next(one for one in oracle.checkers if one.name == name)
    checker.at_end()
    return checker.property()


CREATED: list[Any] = ["create", PATH, 0, 0]
DELETED: list[Any] = ["delete", PATH, None, None]
OTHER: list[Any] = ["set", "/sessions/z-1", 1, 0]
AFTER: list[Any] = ["set", "/sessions/z-1", 2, 7]
# Anne's session begins, creates PATH at 1:2 and ends at 1:4. Bob's session writes elsewhere at 1:3 and 1:5.
HISTORY: list[Txn] = [(ANNES, []), (ANNES, [CREATED]), (BOBS, [OTHER]), (ANNES, [DELETED]), (BOBS, [AFTER])]


def began(client: int, session: int, **timeout: int) -> Line:
    return {"type": "began", "client": client, "session": session, **timeout}


def test_answers_match_the_history_and_a_new_session_may_begin_at_an_older_zxid() -> None:
    lines = [
        began(ANNE, ANNES), began(BOB, BOBS), made(2), look(1, None), look(2, 2, node=1, **MINE), look(3, 2, node=3, **MINE),
        {"type": "lost", "client": BOB}, look(3, 2, node=1, **MINE), look(5, None), began(BOB, 303), look(3, 2, **MINE),
        over("closed"), ended(4), look(4, None, client=0, last=True), look(5, None, client=0, node=1, last=True),
        look(4, None, client=0, node=3, last=True),
    ]  # fmt: skip
    found = judged_by_history("sessions", lines)
    assert (found.verdict, found.checked) == (Judgement.PASS, 13), found.violations


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([look(3, None)], "/sessions/e-1-1 at node 2, at 1:3, and saw that there is none; right was the state of 1:2"),
        ([look(5, 2, **MINE)], "and saw the state of 1:2; right was that there is none"),
        ([look(3, 1, **MINE)], "and saw the state of 1:1; right was the state of 1:2"),
        ([look(5, None), {"type": "lost", "client": BOB}, look(3, 2, node=3, **MINE)], "told 1:3, after its session had been"),
        ([made(2), look(1, None, client=ANNE)], "client 1 was told 1:1, after its session had been told 1:2"),
        ([made(3)], "told that it made /sessions/e-1-1 at 1:3, and the history does not have that there"),
        ([made(2, session=BOBS)], "session 0xca was told that it made /sessions/e-1-1 at 1:2"),
        ([made(9)], "at 1:9, and the history does not have that there"),
        ([ended(4, BOBS)], "session 0xca wrote 1:5, and had ended at 1:4"),
        ([over("expired"), ended(4, asked=True)], "session 0x65 ended at 1:4, by a request that its client has not made"),
        ([over("left"), ended(4, asked=True)], "session 0x65 ended at 1:4, by a request that its client has not made"),
        ([began(ANNE, ANNES), began(BOB, ANNES)], "session 0x65 began a second time"),
        ([wrote(4)], "session 0xca was told that it wrote /sessions/z-1 at 1:4, and the history does not have that there"),
        ([wrote(3, version=2)], "it wrote /sessions/z-1 at 1:3, and the history does not have that there"),
        ([wrote(3, value=7)], "it wrote /sessions/z-1 at 1:3, and the history does not have that there"),
        ([wrote(3, session=ANNES)], "session 0x65 was told that it wrote /sessions/z-1 at 1:3"),
        ([{**wrote(3), "changed": [1, 2]}], "wrote /sessions/z-1 at 1:3, and that the last change was at 1:2"),
        ([look(4, None), wrote(3)], "client 2 was told 1:3, after its session had been told 1:4"),
        ([refused(2, "node exists")], "was refused /sessions/e-1-1, at 1:2, as 'node exists'; right was the state of 1:2"),
        ([refused(2, "no node")], "as 'no node'; right was the state of 1:2"),
        ([refused(5, "node exists")], "as 'node exists'; right was that there is none"),
        ([refused(3, "bad version")], "as 'bad version'; right was the state of 1:2"),
        ([look(4, None), refused(3, "node exists")], "client 2 was told 1:3, after its session had been told 1:4"),
        (
            [look(5, 5, path=ELSEWHERE, created=[1, 3], version=2)],
            "saw the state of 1:5, created at 1:3, at version 2; right was the state of 1:5, created at 1:3, at version 1",
        ),
        ([look(5, 5, path=ELSEWHERE, created=[1, 5], version=1)], "created at 1:5, at version 1; right was"),
        ([look(5, 5, path=ELSEWHERE, owner=ANNES)], "saw the state of 1:5, as session 0x65's; right was the state of 1:5"),
        ([listed(3)], "client 2 was shown other children in /sessions/ by node 2 than it has at 1:3: e-1-1"),
        ([listed(4, "e-1-1")], "than it has at 1:4: e-1-1"),
        ([listed(3, "e-1-1", "e-1-1")], "than it has at 1:3: one of them twice"),
    ],
    ids=[
        "missed", "stale", "zxid", "back-elsewhere", "back", "not-made", "by-another", "lost", "undead",
        "ended", "ended-in-silence", "number",
        "not-written", "to-a-version", "to-a-value", "written-by-another", "of-two-zxids",
        "written-back", "done-and-refused", "refused", "refused-as-there",
        "refused-baselessly", "refused-back", "version", "creation", "owner", "not-listed", "listed", "twice",
    ],
)  # fmt: skip
def test_answers_and_writes_that_contradict_the_history(lines: list[Line], words: str) -> None:
    violation = the_violation(judged_by_history("sessions", lines))
    assert words in violation.words


@pytest.mark.parametrize(
    "lines",
    [[over("closed"), ended(4, asked=True)], [over("left"), ended(4)], [ended(4, asked=True)]],
    ids=["closed", "expired", "open-at-a-kill"],
)
def test_legal_ends_of_sessions(lines: list[Line]) -> None:
    assert judged_by_history("sessions", lines).verdict is not Judgement.VIOLATION


def test_acknowledged_writes_and_refusals_match_the_history() -> None:
    lines = [
        look(1, None), refused(1, "no node"), {**wrote(3), "changed": [1, 3]}, refused(3, "node exists"),
        refused(4, "node exists"), refused(4, "no node"), listed(5), listed(3, "e-1-1", client=ANNE), wrote(5, 7, 2),
        look(5, 5, path=ELSEWHERE, created=[1, 3], version=1), look(4, 4, path=BELOW, created=[1, 2], version=1, client=3),
    ]  # fmt: skip
    found = judged_by_history("sessions", lines)
    assert (found.verdict, found.checked) == (Judgement.PASS, 13), found.violations


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([made(2), ended(5)], "was made at 1:2 by session 0x65, which ended at 1:5; it went at 1:4"),
        ([made(2)], "was made at 1:2 by session 0x65, which ended never; it went at 1:4"),
        ([made(2), ended(3)], "was made at 1:2 by session 0x65, which ended at 1:3; it went at 1:4"),
    ],
)
def test_an_ephemeral_that_is_not_deleted_with_its_session(lines: list[Line], words: str) -> None:
    assert words in the_violation(judged_by_history("ephemerals", lines)).words


@pytest.mark.parametrize("lines", [[made(2), ended(4)], [made(3), ended(9)], [made(9)]])
def test_ephemerals_that_the_history_does_not_have_are_not_judged(lines: list[Line]) -> None:
    assert judged_by_history("ephemerals", lines).violations == []


def test_an_ephemeral_whose_deletion_is_beyond_the_history() -> None:
    history: list[Txn] = [(ANNES, [CREATED]), (BOBS, [OTHER])]
    assert judged_by_history("ephemerals", [made(1), ended(9)], converged=False, history=history).violations == []
    lasting = the_violation(judged_by_history("ephemerals", [made(1), ended(2)], history=history))
    assert "which ended at 1:2; it went never" in lasting.words


def write(client: int, op: str, path: str, value: int) -> Line:
    return {"type": "write", "client": client, "op": op, "path": path, "value": value}


REQUESTED = [
    began(ANNE, ANNES), began(BOB, BOBS), write(ANNE, "create", PATH, 0), write(BOB, "set", ELSEWHERE, 0),
    write(BOB, "set", ELSEWHERE, 7), ended(4),
]  # fmt: skip


def test_writes_of_sessions_were_requested_or_belong_to_their_end() -> None:
    found = judged_by_history("sessions", [*REQUESTED, write(ANNE, "create", "/sessions/e-1-2", 0)])
    assert (found.verdict, found.checked) == (Judgement.PASS, 5), found.violations


@pytest.mark.parametrize("lines", [REQUESTED[1:], [REQUESTED[0], *REQUESTED[2:]], [*REQUESTED[:2], REQUESTED[5]]])
def test_writes_without_a_recorded_session_or_request_log_are_not_judged(lines: list[Line]) -> None:
    assert judged_by_history("sessions", lines).violations == []


@pytest.mark.parametrize(
    ("at", "other", "words"),
    [
        (
            2,
            write(ANNE, "set", PATH, 0),
            "session 0x65 did a create of /sessions/e-1-1 at 1:2, and client 1 had not asked",
        ),
        (
            2,
            write(ANNE, "create", PATH, 1),
            "session 0x65 did a create of /sessions/e-1-1 at 1:2, and client 1 had not asked",
        ),
        (
            3,
            write(ANNE, "set", ELSEWHERE, 0),
            "session 0xca did a set of /sessions/z-1 at 1:3, and client 2 had not asked",
        ),
        (
            4,
            write(BOB, "set", ELSEWHERE, 8),
            "session 0xca did a set of /sessions/z-1 at 1:5, and client 2 had not asked",
        ),
        (5, ended(9), "session 0x65 did a delete of /sessions/e-1-1 at 1:4, and client 1 had not asked for it"),
    ],
)
def test_a_write_that_its_client_had_not_requested(at: int, other: Line, words: str) -> None:
    lines = [*REQUESTED[:at], other, *REQUESTED[at + 1 :]]
    assert words in the_violation(judged_by_history("sessions", lines)).words


def test_a_write_that_was_requested_once_and_done_twice() -> None:
    history: list[Txn] = [(BOBS, [OTHER]), (BOBS, [["set", ELSEWHERE, 2, 0]])]
    violation = the_violation(judged_by_history("sessions", REQUESTED, history=history))
    assert violation.words == (
        "session 0xca did a set of /sessions/z-1 at 1:2, which it had done at 1:1 already, and client 2 had asked for once"
    )
    asked, done = violation.evidence
    assert (asked.event, done.event["event"]) == ({"t": 4, **REQUESTED[3], "sequential": False}, "broadcast")


def test_writes_that_were_done_in_another_order_than_they_were_requested() -> None:
    history: list[Txn] = [(BOBS, [["set", ELSEWHERE, 1, 8]]), (BOBS, [["set", ELSEWHERE, 2, 7]])]
    lines = [REQUESTED[1], write(BOB, "set", ELSEWHERE, 7), write(BOB, "set", ELSEWHERE, 8), ended(9)]
    violation = the_violation(judged_by_history("sessions", lines, history=history))
    assert violation.words == (
        "session 0xca did a set of /sessions/z-1 at 1:2, after the set of /sessions/z-1 at 1:1, which client 2 had asked for "
        "later"
    )
    in_order = [lines[0], lines[2], lines[1], lines[3]]
    assert judged_by_history("sessions", in_order, history=history).violations == []


IN_LINE = "/sessions/lock/65-"  # with a number behind it, the znode with which Anne's session waits for the lock
FIRST, SECOND = f"{IN_LINE}0000000000", f"{IN_LINE}0000000001"


def delete(path: str, client: int = ANNE) -> Line:
    return {"type": "write", "client": client, "op": "delete", "path": path}


def removed(counter: int, path: str = FIRST, session: int = ANNES) -> Line:
    return {"type": "removed", "client": ANNE, "session": session, "path": path, "zxid": [1, counter]}


# Anne's session makes two sequential znodes at 1:1 and 1:2, deletes the first at 1:3, and ends at 1:5.
LINE: list[Txn] = [
    (ANNES, [["create", FIRST, 0, 5]]), (ANNES, [["create", SECOND, 0, 6]]), (ANNES, [["delete", FIRST, None, None]]),
    (BOBS, [OTHER]), (ANNES, [["delete", SECOND, None, None]]),
]  # fmt: skip
ASKED_IN_LINE = [
    began(ANNE, ANNES), *({**write(ANNE, "create", IN_LINE, value), "sequential": True} for value in (5, 6)), delete(FIRST),
    made(1, FIRST), made(2, SECOND), removed(3), ended(5),
]  # fmt: skip


def test_sequential_znodes_and_deletes_match_the_history() -> None:
    there, then = look(2, 1, path=FIRST, created=[1, 1], version=0, value=5, **MINE), look(3, None, path=FIRST)
    for name in ("sessions", "ephemerals"):
        found = judged_by_history(name, [*ASKED_IN_LINE, there, then], history=LINE)
        assert (found.verdict, found.checked) == (Judgement.PASS, 9 if name == "sessions" else 2), found.violations


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (removed(2), "was told that it deleted /sessions/lock/65-0000000000 at 1:2, and the history does not have that there"),
        (removed(3, session=BOBS), "session 0xca was told that it deleted /sessions/lock/65-0000000000 at 1:3"),
        (look(2, 1, path=FIRST, created=[1, 1], version=0, value=6), "created at 1:1, at version 0, with other data; right"),
    ],
    ids=["not-deleted", "by-another", "data"],
)  # fmt: skip
def test_a_delete_or_data_that_contradict_the_history(line: Line, words: str) -> None:
    assert words in the_violation(judged_by_history("sessions", [line], history=LINE)).words


@pytest.mark.parametrize(
    ("lines", "path", "words"),
    [
        (ASKED_IN_LINE, f"{IN_LINE}0000000002", "at 1:2, where number 1 was next"),
        (ASKED_IN_LINE, IN_LINE, "and client 1 had not asked for it"),
        (ASKED_IN_LINE, f"{IN_LINE}000000000x", "and client 1 had not asked for it"),
        (ASKED_IN_LINE, FIRST.replace("65", "66"), "and client 1 had not asked for it"),
        (
            [began(ANNE, ANNES), *(write(ANNE, "create", IN_LINE, value) for value in (5, 6))],
            SECOND,
            "and client 1 had not asked for it",
        ),
    ],
    ids=["number", "no-number", "no-digits", "another-prefix", "not-sequential"],
)  # fmt: skip
def test_a_sequential_znode_that_its_client_had_not_requested(lines: list[Line], path: str, words: str) -> None:
    history: list[Txn] = [LINE[0], (ANNES, [["create", path, 0, 6]])]
    found = judged_by_history(
        "sessions", [line for line in lines if line["type"] in ("began", "write")], history=history
    )
    assert words in found.violations[-1].words


def test_a_delete_that_nobody_had_requested_or_that_is_done_later() -> None:
    unasked = [line for line in ASKED_IN_LINE if line.get("op") != "delete"]
    words = "session 0x65 did a delete of /sessions/lock/65-0000000000 at 1:3, and client 1 had not asked for it"
    assert words in the_violation(judged_by_history("sessions", unasked, history=LINE)).words
    words = "was made at 1:1 by session 0x65, which ended at 1:5; it went at 1:3"
    assert words in the_violation(judged_by_history("ephemerals", unasked, history=LINE)).words
    early = [*ASKED_IN_LINE[:1], ASKED_IN_LINE[3], *ASKED_IN_LINE[1:3], *ASKED_IN_LINE[4:]]
    words = "did a delete of /sessions/lock/65-0000000000 at 1:3, after the create of /sessions/lock/65- at 1:2"
    assert words in the_violation(judged_by_history("sessions", early, history=LINE)).words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (look(4, 1, path=FIRST, **MINE), "is there at node 2, at 1:4, although its client deleted it at 1:3"),
        (
            look(2, None, path=FIRST),
            "is gone at node 2, at 1:2; it was made at 1:1 by session 0x65, which ended at 1:5",
        ),
    ],
    ids=["deleted", "not-yet"],
)
def test_an_ephemeral_is_there_until_its_client_deletes_it(line: Line, words: str) -> None:
    assert words in the_violation(judged_by_history("ephemerals", [*ASKED_IN_LINE, line], history=LINE)).words


def judged_after(seconds: float, lines: list[Line], established: float = 0.0) -> Property:
    """Judge sessions by the lines and by logs that were read so long after them. The last leader was established at a time."""
    oracle = delivered(HISTORY)
    led = {"event": "established", "epoch": 1, "last_zxid": [0, 0], "quorum": []}
    read = {
        "event": "left",
        "accepted_epoch": 1,
        "current_epoch": 1,
        "last_zxid": [1, 5],
        "log": [],
        "snapshots": [],
        "damage": [],
    }
    for n, (t, event) in enumerate(((established, led), (seconds, read)), 4):
        oracle.add_event(ev.event_from_dict({"t": 4 + int(t * 1e9), "node": 1, "life": 1, "n": n, **event}))
    oracle.add_milestone(ev.Milestone(t=9, event="converged"))
    return judge_lines(oracle, "sessions", lines)


@pytest.mark.parametrize("why", ["closed", "left", "expired"])
def test_a_session_that_is_over_for_its_client_has_ended_in_the_logs(why: str) -> None:
    lines = [began(ANNE, ANNES), over(why)]
    violation = the_violation(judged_after(11, lines))
    assert violation.words == f"session 0x65 was over for client 1 ({why}), and no log has ended it"
    assert judged_after(11, [*lines, ended(4, asked=why == "closed")]).violations == []


def test_the_servers_have_time_to_end_a_session_also_under_a_new_leader() -> None:
    lines = [began(ANNE, ANNES), over("left")]
    assert judged_after(9, lines).violations == []
    assert judged_after(14, lines, established=5).violations == []
    assert the_violation(judged_after(16, lines, established=5))


def test_the_servers_have_more_time_for_a_session_with_a_longer_timeout() -> None:
    lines = [began(ANNE, ANNES, timeout=20_000), over("left")]
    assert judged_after(99, lines).violations == []
    assert the_violation(judged_after(101, lines))


def test_a_watch_fires_before_the_answer_to_a_write_or_a_refusal_at_its_zxid() -> None:
    for line in (wrote(5, 7, 2), refused(5, "no node"), {**removed(5), "client": BOB}):
        violation = the_violation(judged_by_history("watches", [*WATCHED, line]))
        assert "was answered at 1:5 before it was told of the change at 1:4" in violation.words


@pytest.mark.parametrize("line", [made(9), wrote(9), refused(9, "node exists"), look(9, 7), ended(9, BOBS)])
def test_nothing_beyond_the_history_is_judged_if_the_run_did_not_converge(line: Line) -> None:
    assert judged_by_history("sessions", [line], converged=False).violations == []


def event_of(what: str, path: str = PATH) -> Line:
    return {"type": "fired", "client": BOB, "path": path, "what": what}


def test_a_watch_reports_the_first_change_before_any_answer_at_its_zxid() -> None:
    lines = [
        ask(), look(1, None, watch=True), look(1, None, path=ELSEWHERE), event_of("created"), look(2, None, path=ELSEWHERE),
        ask(), look(3, 2, watch=True, **MINE), event_of("deleted"), look(5, 5, path=ELSEWHERE),
    ]  # fmt: skip
    found = judged_by_history("watches", lines)
    assert (found.verdict, found.checked) == (Judgement.PASS, 4), found.violations


WATCHED = [ask(), look(3, 2, watch=True, **MINE)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*WATCHED, look(5, 5, path=ELSEWHERE)], "was answered at 1:5 before it was told of the change at 1:4"),
        (
            [*WATCHED, look(4, 3, path=ELSEWHERE), event_of("deleted")],
            "was answered at 1:4 before it was told of the change at 1:4",
        ),
        ([*WATCHED, {**made(5), "client": BOB}], "was answered at 1:5 before it was told of the change at 1:4"),
        ([*WATCHED, event_of("changed")], "was told 'changed'; 1:4 is a delete"),
        ([ask(), look(5, None, watch=True), event_of("created")], "was told of a change, and there is none"),
    ],
    ids=["missing", "late-for-another-znode", "late-for-a-write", "as-something-else", "of-nothing"],
)
def test_a_watch_event_that_is_missing_late_or_wrong(lines: list[Line], words: str) -> None:
    violation = the_violation(judged_by_history("watches", lines))
    assert words in violation.words
    assert "client 2, which watches /sessions/e-1-1 since it saw" in violation.words


@pytest.mark.parametrize("gone", [{"type": "lost", "client": BOB}, began(BOB, BOBS)])
def test_changes_after_a_connection_need_no_watch_event(gone: Line) -> None:
    assert judged_by_history("watches", [*WATCHED, gone, look(5, 5, path=ELSEWHERE)]).violations == []


def test_a_watch_event_beyond_the_history_may_be_right_if_the_run_did_not_converge() -> None:
    lines = [ask(), look(5, None, watch=True), event_of("created")]
    assert judged_by_history("watches", lines, converged=False).violations == []


def test_a_list_of_children_is_watched_like_a_znode() -> None:
    """PATH is created at 1:2 and deleted at 1:4; what is written at 1:3 and 1:5 changes no list."""
    lines = [ask(path=BELOW), look(3, 2, watch=True, path=BELOW), event_of("changed", BELOW), look(5, 4, path=BELOW)]
    assert judged_by_history("watches", lines).violations == []
    assert judged_by_history("sessions", lines).violations == []
    deaf = [line for line in lines if line["type"] != "fired"]
    assert "was answered at 1:5 before it was told" in judged_by_history("watches", deaf).violations[-1].words
    stale = [look(4, 2, path=BELOW)]
    assert (
        "saw the state of 1:2; right was the state of 1:4" in judged_by_history("sessions", stale).violations[0].words
    )


LOST = {"type": "lost", "client": BOB}


def again(*paths: str) -> Line:
    return {"type": "again", "client": BOB, "paths": list(paths)}


def stand(counter: int) -> Line:
    return {"type": "stand", "client": BOB, "node": 3, "zxid": [1, counter]}


def test_watches_that_are_set_again_report_changes_meanwhile_and_later() -> None:
    changed = [*WATCHED, LOST, again(PATH), event_of("deleted"), stand(5), look(5, None), look(5, 5, path=ELSEWHERE)]
    kept = [*WATCHED, LOST, again(PATH), stand(3), event_of("deleted"), look(5, 5, path=ELSEWHERE)]
    lost_twice = [*WATCHED, LOST, again(PATH), LOST, again(PATH), event_of("deleted"), stand(4)]
    appeared = [ask(), look(1, None, watch=True), LOST, again(PATH), event_of("created"), stand(2)]
    for lines, checked in ((changed, 3), (kept, 4), (lost_twice, 3), (appeared, 3)):
        found = judged_by_history("watches", lines)
        assert (found.verdict, found.checked) == (Judgement.PASS, checked), found.violations


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            [again(PATH), stand(5)],
            "watches it again at node 3, at 1:5, and was told 'nothing', where right was 'deleted'",
        ),
        ([again(PATH), event_of("changed"), stand(5)], "was told 'changed', where right was 'deleted'"),
        ([again(PATH), event_of("deleted"), stand(3)], "was told 'deleted', where right was 'nothing'"),
        (
            [again(PATH), stand(3), look(5, 5, path=ELSEWHERE)],
            "was answered at 1:5 before it was told of the change at 1:4",
        ),
        (
            [again(PATH), event_of("deleted"), event_of("deleted"), stand(4)],
            "of /sessions/e-1-1 that it does not watch",
        ),
        ([event_of("deleted")], "of /sessions/e-1-1 that it does not watch"),
        ([again(), event_of("deleted")], "of /sessions/e-1-1 that it does not watch"),
    ],
    ids=["nothing", "another", "of-nothing", "later", "twice", "never-again", "not-that-one"],
)
def test_wrong_events_of_watches_that_are_set_again(lines: list[Line], words: str) -> None:
    violation = the_violation(judged_by_history("watches", [*WATCHED, LOST, *lines]))
    assert words in violation.words


def test_setting_watches_again_is_not_answered_at_an_older_zxid() -> None:
    found = judged_by_history("sessions", [look(5, None), LOST, again(PATH), stand(4)])
    assert "was told 1:4, after its session had been told 1:5" in found.violations[0].words


def test_a_sync_is_not_answered_at_an_older_zxid() -> None:
    assert judged_by_history("sessions", [look(4, None), synced()]).violations == []
    found = judged_by_history("sessions", [look(5, None), synced()])
    assert "was told 1:4, after its session had been told 1:5" in found.violations[0].words


@pytest.mark.parametrize("counter", [4, 5])
def test_nothing_is_judged_after_a_transaction_with_unknown_content(counter: int) -> None:
    assert judged_by_history("sessions", [look(3, None)], known=3).violations
    assert judged_by_history("sessions", [look(counter, 2)], known=3).violations == []


@pytest.mark.parametrize(
    ("told", "damages"), [(2, []), (3, ["sessions.jsonl has 2 of the 3 lines that the workload counted"])]
)
def test_missing_lines_are_damage(told: int, damages: list[str]) -> None:
    oracle = delivered(HISTORY)
    for line in (look(3, 2), look(4, None)):
        oracle.add_session_line(msgspec.convert({"t": 9, **line}, ev.SessionEvent))
    oracle.add_milestone(ev.Milestone(t=9, event="sessions-stopped", told=told))
    oracle.finish(ev.Run(nodes=1, evidence=ev.LOGS))
    assert [str(one) for one in oracle.facts.damages if one.file == "sessions.jsonl"] == damages


# ---- sync ----

SENT = 2  # the time at which the sync was sent: after the first line


def synced(sent: int = SENT, client: int = BOB) -> Line:
    return {"type": "synced", "client": client, "sent": sent, "node": 2, "zxid": [1, 4]}


def reads(*lines: Line, leader: int | None = 1, next_leader: int = 3, write: int | None = None) -> Property:
    """Judge reads after a sync. `leader` is that of epoch 1, None if unknown, and `next_leader` that of epoch 2. `write` was
    acknowledged to a client at time 1."""
    oracle = Oracle(ev.LOGS)
    for epoch, node in ((1, leader), (2, next_leader)):
        if node is not None:
            oracle.facts.established.append(
                ev.Established(t=epoch, node=node, life=1, n=2, epoch=epoch, last_zxid=(0, 0), quorum=[1, 2])
            )
    if write is not None:
        oracle.add_operation(ev.Invoke(t=0, due=0, client=9, seq=1, op="set", path="/a", value=1))
        oracle.add_operation(ev.Complete(t=1, client=9, seq=1, outcome="ok", zxid=(1, write)))
    return judge_lines(oracle, "sync", list(lines))


def test_a_read_after_a_sync_shows_earlier_acknowledged_writes() -> None:
    found = reads(made(5), synced(), look(5, None))
    assert (found.verdict, found.checked) == (Judgement.PASS, 1)


@pytest.mark.parametrize(
    ("found", "evidence"),
    [
        (lambda: reads(made(5), synced(), look(4, None)), ["made", "synced", "look"]),
        (lambda: reads(made(5), made(3, "/sessions/e-1-2"), synced(3), look(4, None)), ["made", "synced", "look"]),
        (lambda: reads(synced(), look(4, None), write=5), ["complete", "synced", "look"]),
        (lambda: reads(made(5), synced(), synced(9, ANNE), look(4, None)), ["made", "synced", "look"]),
        (lambda: reads(wrote(5), synced(), look(4, None)), ["wrote", "synced", "look"]),
        (lambda: reads(removed(5), synced(), look(4, None)), ["removed", "synced", "look"]),
        (lambda: reads(made(5), synced(), look(4, None), next_leader=2), ["made", "synced", "look"]),
    ],
    ids=["ephemeral", "older-one-later", "write", "another-syncs", "a-session's-write", "a-delete", "a-later-leader"],
)
def test_a_read_after_a_sync_that_misses_an_acknowledged_write(
    found: Callable[[], Property], evidence: list[str]
) -> None:
    violation = the_violation(found())
    assert violation.words == (
        "client 2 read at node 2, at 1:4, after a sync; 1:5 had been acknowledged before it sent that"
    )
    assert [one.event["type"] for one in violation.evidence] == evidence


LOST: Line = {"type": "lost", "client": BOB}
BEGAN: Line = {"type": "began", "client": BOB, "session": BOBS}


@pytest.mark.parametrize(
    ("found", "checked"),
    [
        (lambda: reads(made(5), synced(1), look(4, None)), 1),
        (lambda: reads(made(5), look(4, None)), 0),
        (lambda: reads(made(5), synced(9, ANNE), look(4, None)), 0),
        (lambda: reads(synced(), look(4, None), made(5), look(4, None)), 1),
        (lambda: reads(made(5), synced(), LOST, look(4, None)), 0),
        (lambda: reads(made(5), synced(), BEGAN, look(4, None)), 0),
        (lambda: reads(made(5), synced(), over("expired") | {"client": BOB}, look(4, None)), 0),
        (lambda: reads(made(5) | {"zxid": [2, 1]}, synced(), look(4, None)), 1),
        (lambda: reads(made(5), synced(), look(4, None), leader=2), 0),
        (lambda: reads(made(5), synced(), look(4, None), leader=None), 0),
    ],
    ids=[
        "sent-before", "no-sync", "anothers", "second-read", "other-connection", "other-session", "over", "a-leader-replaced",
        "at-the-leader", "no-leader-known",
    ],
)  # fmt: skip
def test_reads_that_a_sync_does_not_cover(found: Callable[[], Property], checked: int) -> None:
    result = found()
    assert (result.violations, result.checked) == ([], checked)
