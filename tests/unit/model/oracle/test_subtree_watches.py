"""What a client is told that watches all znodes below a path: legal streams of events, and each way to get one wrong."""

from typing import Any

import pytest

from tests.unit.model.oracle.delivered import Txn
from tests.unit.model.oracle.test_sessions import Line, judged_by_history, the_violation
from zab_chaos.model.verdict import Judgement

CLIENT, SESSION = 7, 101
ROOT = "/sessions"
A, B, C, AROUND = "/sessions/a", "/sessions/b", "/sessions/lock/c", "/sessions-of-others"


def step(op: str, path: str) -> list[Any]:
    return [op, path, None if op == "delete" else 0, None]


# 1:1 creates A, 1:2 something elsewhere, 1:3 sets A, 1:4 creates B and C, 1:5 has no effect, 1:6 deletes A, B and C.
HISTORY: list[Txn] = [
    (SESSION, [step("create", A)]),
    (SESSION, [step("create", AROUND)]),
    (SESSION, [step("set", A)]),
    (SESSION, [step("create", B), step("create", C)]),
    (SESSION, []),
    (SESSION, [step("delete", A), step("delete", B), step("delete", C)]),
]


def watching(counter: int) -> Line:
    return {"type": "watching", "client": CLIENT, "path": "/sessions", "node": 1, "zxid": [1, counter]}


def told(what: str, path: str) -> Line:
    return {"type": "told", "client": CLIENT, "path": path, "what": what}


def heard(counter: int) -> Line:
    return {"type": "heard", "client": CLIENT, "node": 1, "zxid": [1, counter]}


LOST = {"type": "lost", "client": CLIENT}
SET = told("changed", A)
MADE = [told("created", B), told("created", C)]
GONE = [told("deleted", A), told("deleted", B), told("deleted", C)]


@pytest.mark.parametrize(
    "lines",
    [
        [watching(2), SET, *MADE, *GONE, heard(6)],
        [watching(2), heard(2), SET, heard(3), *MADE, heard(5), *reversed(GONE), heard(6)],
        [watching(1), *[SET], MADE[1], MADE[0], heard(4)],
        [watching(3), MADE[0]],  # the rest was on its way
        [watching(1), SET, LOST, heard(6)],
        [watching(1), SET, LOST, watching(4), *GONE, heard(6)],  # of what happened in between nobody tells
        [watching(1), SET, MADE[0], LOST, watching(6), heard(6)],
        [heard(6)],  # a release that refuses such a watch
    ],
)
def test_each_change_is_told_once_in_order_and_before_an_answer_shows_it(lines: list[Line]) -> None:
    found = judged_by_history("watches", lines, history=HISTORY)
    assert found.violations == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([watching(2), heard(3)], "was answered at 1:3 before it was told of the change at 1:3"),
        ([watching(2), SET, MADE[0], heard(4), MADE[1]], "was answered at 1:4 before it was told of the change at 1:4"),
        ([watching(2), SET, heard(6)], "was answered at 1:6 before it was told of the change at 1:4"),
        ([watching(2), *MADE], "told that /sessions/b was created, where right was that /sessions/a was changed, at 1:3"),
        ([watching(2), told("deleted", A)], "told that /sessions/a was deleted, where right was that /sessions/a was changed"),
        ([watching(2), SET, SET], "told that /sessions/a was changed, where right was that /sessions/b was created, at 1:4"),
        ([watching(2), SET, MADE[0], MADE[0]], "was created, where right was that /sessions/lock/c was created, at 1:4"),
        ([watching(1), told("created", AROUND)], "told that /sessions-of-others was created, where right was that"),
        ([watching(2), SET, *MADE, told("changed", "/sessions/")], "told that /sessions/ was changed, where right was"),
        ([watching(6), told("created", A)], "told that /sessions/a was created, and there is no such change"),
        ([watching(2), SET, LOST, MADE[0]], "was told of a change of /sessions/b, and watches nothing"),
        ([told("created", A)], "was told of a change of /sessions/a, and watches nothing"),
        ([watching(4), LOST, watching(4), heard(6)], "since 1:4, was answered at 1:6 before it was told of the change at 1:6"),
    ],
)  # fmt: skip
def test_each_way_to_tell_it_wrong(lines: list[Line], words: str) -> None:
    assert words in the_violation(judged_by_history("watches", lines, history=HISTORY)).words


def test_the_path_itself_is_watched_too() -> None:
    history: list[Txn] = [(SESSION, [step("set", ROOT)]), (SESSION, [step("set", f"{ROOT}s")])]
    assert (
        judged_by_history("watches", [watching(0), told("changed", ROOT), heard(2)], history=history).violations == []
    )
    assert judged_by_history("watches", [watching(0), heard(2)], history=history).verdict is Judgement.VIOLATION


def test_a_watch_that_is_set_anew_ends_the_one_before() -> None:
    """Also if the client was not told that its connection was lost: what it had been told until then is judged."""
    lines = [watching(2), told("deleted", A), watching(3), *MADE]
    assert judged_by_history("watches", lines, history=HISTORY).verdict is Judgement.VIOLATION
    found = judged_by_history("watches", [watching(2), SET, watching(3), *MADE, heard(4)], history=HISTORY)
    assert (found.violations, found.checked) == ([], 4)


def test_what_is_beyond_the_known_history_is_not_judged() -> None:
    extra = [watching(2), SET, *MADE, *GONE, told("created", A)]
    assert judged_by_history("watches", extra, history=HISTORY, converged=False).violations == []
    wrong = [watching(2), SET, told("deleted", B)]
    assert judged_by_history("watches", wrong, history=HISTORY, known=3).violations == []
    assert judged_by_history("watches", wrong, history=HISTORY, known=4).verdict is Judgement.VIOLATION


def test_each_client_has_its_own_events() -> None:
    other = {"client": CLIENT + 1}
    lines = [watching(2), watching(3) | other, SET, *[one | other for one in MADE], *MADE, heard(4), heard(4) | other]
    assert judged_by_history("watches", lines, history=HISTORY).violations == []
    assert judged_by_history("watches", [*lines, SET | other], history=HISTORY).verdict is Judgement.VIOLATION
