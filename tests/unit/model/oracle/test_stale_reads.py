"""Reads that may be stale: they show an earlier state, but in no session an older one than the operation before them."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.model.oracle.definition import explained
from tests.unit.model.oracle.test_history import SECOND, run_of
from tests.unit.model.oracle.test_long_runs import lines_executed
from zab_chaos.model.events import Complete, Invoke
from zab_chaos.model.oracle.facts import Request
from zab_chaos.model.oracle.linearization import Call, Transaction, by_search, first_unserializable
from zab_chaos.model.oracle.properties.history import sessions

HISTORIES = 4000


class Sessions:
    """A builder of calls: session, value, time of the call, time of the return (None: never)."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def set(self, session: int, value: int, begin: int, end: int | None, **told: Any) -> "Sessions":
        return self._add("set", session, value, begin, end, **told)

    def get(self, session: int, value: int | None, begin: int, end: int, **told: Any) -> "Sessions":
        missing: dict[str, Any] = {"outcome": "failed", "error": "no node"} if value is None else {}
        return self._add("get", session, value, begin, end, **(missing | told))

    def _add(self, op: str, session: int, value: int | None, begin: int, end: int | None, **told: Any) -> "Sessions":
        seq = len(self.calls) + 1
        asked = {"value": value} if op == "set" else {}
        invoke = Invoke(t=begin, due=begin, client=session, seq=seq, node=1, op=op, path="/a", **asked)  # type: ignore[arg-type]
        if "condition" in told:
            invoke.version = told.pop("condition")
        fields: dict[str, Any] = {"outcome": "ok", "value": value if op == "get" else None, **told}
        answer = Complete(t=end, client=session, seq=seq, **fields) if end is not None else None
        self.calls.append(Call(invoke, answer, session=session))
        return self


LEGAL = {
    "another session sees the old value": Sessions().set(1, 1, 0, 1).set(1, 2, 2, 3).get(2, 1, 4, 5).get(2, 2, 6, 7),
    "nothing yet": Sessions().set(1, 1, 0, 1).get(2, None, 2, 3).get(2, 1, 4, 5),
    "two sessions lag differently": (
        Sessions().set(1, 1, 0, 1).set(1, 2, 2, 3).get(2, 1, 4, 5).get(3, 2, 4, 5).get(2, 1, 6, 7).get(3, 2, 6, 7)
    ),
    "a write of its own is seen": Sessions().set(1, 1, 0, 1).set(2, 2, 2, 3).get(2, 2, 4, 5).get(1, 1, 4, 5),
    "one that is beside it": Sessions().set(1, 1, 0, 1).set(1, 2, 2, 9).get(2, 2, 3, 4).get(3, 1, 5, 6),
    "its own write is seen after another one": Sessions().set(1, 1, 0, 1).set(2, 2, 2, 9).set(3, 3, 2, 9).get(2, 3, 10, 11),
    "a refusal is judged by what is there, a read of the past is not": (
        Sessions().set(1, 1, 0, 1, version=0).set(1, 2, 2, 3, version=1)
        .set(2, 3, 4, 5, condition=0, outcome="failed", error="bad version").get(2, 1, 6, 7, version=0)
    ),
}  # fmt: skip
ILLEGAL = {
    "a session goes back": Sessions().set(1, 1, 0, 1).set(1, 2, 2, 3).get(2, 2, 4, 5).get(2, 1, 6, 7),
    "a session goes back to nothing": Sessions().set(1, 1, 0, 1).get(2, 1, 2, 3).get(2, None, 4, 5),
    "its own write is not seen": Sessions().set(1, 1, 0, 1).set(2, 2, 2, 3).get(2, 1, 4, 5),
    "from the future": Sessions().set(1, 1, 0, 1).get(2, 2, 2, 3).set(1, 2, 4, 5),
    "a value that nobody wrote": Sessions().set(1, 1, 0, 1).get(2, 7, 2, 3),
    "two sessions see two writes in different orders": (
        Sessions().set(1, 1, 0, 9).set(2, 2, 0, 9).get(3, 1, 10, 11).get(3, 2, 12, 13).get(4, 2, 10, 11).get(4, 1, 12, 13)
    ),
    "writes in the wrong order": Sessions().set(1, 1, 0, 1).set(2, 2, 2, 3).get(3, 2, 4, 5).get(3, 1, 6, 7),
    "a condition that is stale": (
        Sessions().set(1, 1, 0, 1, version=0).set(1, 2, 2, 3, version=1).set(2, 3, 4, 5, condition=0, version=1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_legal_histories(name: str) -> None:
    assert by_search(LEGAL[name].calls) is None


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_histories(name: str) -> None:
    assert by_search(ILLEGAL[name].calls) is not None


def test_the_read_that_goes_back_is_named() -> None:
    calls = ILLEGAL["a session goes back"].calls
    assert by_search(calls) is calls[-1]


def random_calls(seed: int, number: int, unknown: float) -> list[Call]:
    """Draw the calls of a store whose sessions read copies that lag behind. For odd seeds, one read is wrong."""
    choose, story = random.Random(seed), Sessions()
    history: list[int | None] = [None]
    at, seen = 0, dict.fromkeys(range(3), 0)  # the index in `history` that each session has seen
    moments = []
    for value in range(1, number + 1):
        session = choose.randrange(3)
        begin = at + choose.randint(0, 2)
        at = begin + choose.randint(1, 3)
        moments.append((value, session, begin, at, choose.random() < 0.5))
    lie = choose.randrange(number) if seed % 2 else None
    for place, (value, session, begin, end, writes) in enumerate(moments):
        if writes:
            known = choose.random() >= unknown
            if known or choose.random() < 0.5:
                history.append(value)
                seen[session] = len(history) - 1
            story.set(session, value, begin, end if known else None)
        else:
            seen[session] = choose.randint(seen[session], len(history) - 1)
            shown = choose.choice((None, *range(1, number + 1))) if place == lie else history[seen[session]]
            story.get(session, shown, begin, end)
    return story.calls


@pytest.mark.slow
def test_random_histories_are_judged_as_by_the_definition() -> None:
    wrong = 0
    for seed in range(HISTORIES):
        calls = random_calls(seed, random.Random(seed).randint(3, 9), 0.25)
        legal = by_search(calls) is None
        assert legal == explained([Transaction(((0, call),)) for call in calls]), seed
        assert legal or seed % 2, seed
        wrong += not legal
    assert wrong > HISTORIES // 8


@pytest.mark.slow
def test_a_long_history_is_judged_in_time_that_is_proportional_to_its_length() -> None:
    def effort(number: int) -> int:
        transactions = [Transaction(((0, call),)) for call in random_calls(2, number, 0.0)]
        return sum(lines_executed(lambda: first_unserializable(transactions)).values())

    assert effort(2000) < 3 * effort(1000)


def request(client: int, seq: int, node: int, outcome: str | None = "ok", error: str | None = None) -> Request:
    invoke = Invoke(t=seq, due=seq, client=client, seq=seq, node=node, op="get", path="/a")
    if outcome is None:
        return Request(invoke)
    return Request(invoke, Complete(t=seq, client=client, seq=seq, outcome=outcome, error=error))  # type: ignore[arg-type]


def test_a_session_ends_when_the_client_reconnects() -> None:
    asked = [
        request(1, 1, 1), request(1, 2, 1, "failed", "no node"), request(1, 3, 2), request(1, 4, 2, None), request(1, 5, 2),
        request(1, 6, 2, "failed", "no leader"), request(1, 7, 2), request(1, 8, 2), request(2, 1, 2), request(2, 2, 2),
    ]  # fmt: skip
    found = list(sessions(asked).values())
    assert [one == other for one, other in pairwise(found)] == [
        True, False, True, False, True, False, True, False, True,
    ]  # fmt: skip


def lines(story: Sessions) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for call in story.calls:
        base = {"client": call.invoke.client, "seq": call.invoke.seq, "node": 1}
        asked = {"op": call.invoke.op, "path": "/a", "value": call.invoke.value}
        found.append({"type": "invoke", "t": call.invoke.t * SECOND, "due": call.invoke.t * SECOND, **base, **asked})
        if call.answer is not None:
            told = {"outcome": call.answer.outcome, "error": call.answer.error, "value": call.answer.value}
            found.append({"type": "complete", "t": call.answer.t * SECOND, **base, **told})
    return found


@pytest.mark.parametrize("stale", [True, False])
def test_only_a_system_that_says_so_may_answer_with_an_old_value(tmp_path: Path, stale: bool) -> None:
    story = Sessions().set(1, 1, 0, 1).set(1, 2, 2, 3).get(2, 1, 4, 5).get(2, 2, 6, 7)
    verdict = run_of(tmp_path, lines(story), **({"stale_reads": True} if stale else {}))
    assert verdict.violated == ([] if stale else ["linearizable keys"])
