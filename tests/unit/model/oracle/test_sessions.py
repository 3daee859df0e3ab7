"""Ephemeral znodes and watches, on histories that are made up: what ZooKeeper allows, and each way to break it."""

from typing import Any

import msgspec
import pytest

from zab_chaos.model import events as ev
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Judgement, Property

ANNE, BOB = 1, 2  # clients
ANNES, BOBS = 101, 202  # sessions
PATH = "/sessions/e-1-1"

Line = dict[str, Any]


def judged(name: str, lines: list[Line]) -> Property:
    oracle = Oracle(ev.LOGS)
    for t, line in enumerate(lines, 1):
        oracle.take_session(msgspec.convert({"t": t, **line}, ev.OfSession))
    checker = next(one for one in oracle.checkers if one.name == name)
    checker.at_end()
    return checker.property()


def made(counter: int, path: str = PATH, session: int = ANNES) -> Line:
    return {"type": "made", "client": ANNE, "session": session, "path": path, "zxid": [1, counter]}


def ended(counter: int, session: int = ANNES) -> Line:
    return {"type": "ended", "client": 0, "session": session, "zxid": [1, counter]}


def look(counter: int, changed: int | None, client: int = BOB, node: int = 2, **fields: Any) -> Line:
    there = {} if changed is None else {"changed": [1, changed]}
    return {"type": "look", "client": client, "path": PATH, "node": node, "zxid": [1, counter], **there, **fields}


def over(why: str, session: int = ANNES) -> Line:
    return {"type": "over", "client": ANNE, "session": session, "why": why}


def ask(client: int = BOB) -> Line:
    return {"type": "ask", "client": client, "path": PATH}


def fired(client: int = BOB) -> Line:
    return {"type": "fired", "client": client, "path": PATH, "what": "deleted"}


MINE = {"owner": ANNES}


def test_an_ephemeral_is_there_from_its_creation_to_the_end_of_its_session_also_where_a_server_lags() -> None:
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
        ([look(11, 7, owner=BOBS), ended(9, BOBS)], "although its session 0xca ended at 1:9"),  # nobody heard that it was made
        ([made(5), look(7, 5, owner=BOBS)], "as session 0xca's; session 0x65 has made it"),
    ],
    ids=["outlives", "at-the-end-itself", "too-soon", "for-no-reason", "never-goes", "made-afterwards", "somebody-elses"],
)  # fmt: skip
def test_an_ephemeral_that_is_there_too_long_or_not_long_enough(lines: list[Line], words: str) -> None:
    found = judged("ephemerals", lines)
    assert found.verdict is Judgement.VIOLATION
    (violation,) = found.violations
    assert words in violation.words
    assert [one.file for one in violation.evidence] == ["sessions.jsonl"] * len(violation.evidence)


def test_a_session_that_its_client_lost_may_go_on_for_a_while() -> None:
    """It is over for the client, not for the servers: only the log says when."""
    found = judged("ephemerals", [made(5), over("left"), look(9, 5, **MINE), ended(12), look(13, None)])
    assert found.verdict is Judgement.PASS


def test_a_watch_fires_once_and_before_its_client_sees_the_change() -> None:
    lines = [
        ask(), look(5, 5, watch=True), look(6, 5), fired(), look(8, 8), look(9, 9),  # nobody watches any more
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
def test_a_watch_goes_with_its_connection(gone: Line) -> None:
    assert judged("watches", [ask(), look(5, 5, watch=True), gone, look(8, 8)]).violations == []
    assert judged("watches", [ask(), look(5, 5, watch=True), gone, fired()]).verdict is Judgement.VIOLATION


def test_another_clients_watch_is_another_one() -> None:
    lines = [ask(), look(5, 5, watch=True), look(8, 8, client=ANNE), fired(), look(8, 8)]
    assert judged("watches", lines).verdict is Judgement.PASS
    assert judged("watches", [*lines, fired(ANNE)]).verdict is Judgement.VIOLATION
