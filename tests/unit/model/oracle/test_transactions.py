"""Transactions: strict serializability of small histories, and of random ones compared with trying all orders."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.model.oracle.definition import explained
from tests.unit.model.oracle.test_history import SECOND, run_of
from tests.unit.model.oracle.test_long_runs import lines_executed
from zab_chaos.model.events import Complete, Invoke, RequestStep
from zab_chaos.model.oracle import linearization
from zab_chaos.model.oracle.facts import Request
from zab_chaos.model.oracle.linearization import (
    Call,
    GaveUp,
    Transaction,
    contradicting,
    first_unserializable,
    telling,
)
from zab_chaos.model.oracle.transactions import by_step, connected, unexplained_together

HISTORIES = 4000
Steps = Sequence[tuple[str, str, int | None]]  # operation, key, value that is written or found (None: no such key)


class Story:
    """A builder of requests: the steps, the time of the call, the time of the return (None: never), and the answer."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def txn(self, steps: Steps, begin: int, end: int | None, **told: Any) -> "Story":
        seq = len(self.requests) + 1
        asked = [RequestStep(op=op, path=path, value=value if op == "set" else None) for op, path, value in steps]
        op = "transaction" if any(step.op == "set" for step in asked) else "multi-get"
        invoke = Invoke(t=begin, due=begin, client=seq, seq=1, node=1, op=op, path=asked[-1].path, steps=asked)  # type: ignore[arg-type]
        fields: dict[str, Any] = {"outcome": "ok", "values": [value for op, _, value in steps if op == "get"], **told}
        answer = None if end is None else Complete(t=end, client=seq, seq=1, **fields)
        self.requests.append(Request(invoke, answer))
        return self

    def set(self, key: str, value: int, begin: int, end: int | None, asked: int | None = None, **told: Any) -> "Story":
        seq = len(self.requests) + 1
        invoke = Invoke(t=begin, due=begin, client=seq, seq=1, node=1, op="set", path=key, value=value, version=asked)
        answer = None if end is None else Complete(t=end, client=seq, seq=1, **{"outcome": "ok", **told})
        self.requests.append(Request(invoke, answer))
        return self

    def get(self, key: str, value: int, begin: int, end: int) -> "Story":
        seq = len(self.requests) + 1
        invoke = Invoke(t=begin, due=begin, client=seq, seq=1, node=1, op="get", path=key)
        self.requests.append(Request(invoke, Complete(t=end, client=seq, seq=1, outcome="ok", value=value)))
        return self

    def calls(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for request in self.requests:
            for one in by_step(request):
                found.setdefault(one.invoke.path, []).append(Call(one.invoke, one.complete))
        return found

    def wrong(self) -> tuple[list[str], list[int]] | None:
        """Return the keys that no order explains together, and the client whose answer it does not."""
        found = unexplained_together(self.calls())
        return (found[0], [one.invoke.client for one in found[1]]) if found is not None else None


def started() -> Story:
    """Begin with the values 1 of /a and 2 of /b."""
    return Story().txn([("set", "/a", 1), ("set", "/b", 2)], 0, 1)


LEGAL = {
    "both writes are seen": started().txn([("get", "/a", 1), ("get", "/b", 2)], 2, 3),
    "a transaction beside it may see both or none": (
        started().txn([("set", "/a", 3), ("set", "/b", 4)], 2, 9).txn([("get", "/a", 1), ("get", "/b", 2)], 3, 4)
        .txn([("get", "/a", 3), ("get", "/b", 4)], 5, 6)
    ),
    "each reads what the other has not written yet, one after the other": (
        started().txn([("get", "/a", 1), ("set", "/b", 4)], 2, 9).txn([("get", "/b", 4), ("set", "/a", 3)], 2, 9)
    ),
    "an unknown one takes effect late": (
        started().txn([("get", "/a", None), ("set", "/a", 3), ("set", "/b", 4)], 2, None).get("/a", 1, 3, 4)
        .txn([("get", "/a", 3), ("get", "/b", 4)], 50, 51)
    ),
    "an unknown one never takes effect": started().txn([("set", "/a", 3), ("set", "/b", 4)], 2, None).get("/a", 1, 3, 4),
    "one that was rolled back is never seen": (
        started().txn([("get", "/a", 7), ("set", "/b", 4)], 2, 3, outcome="failed", error="conflict", values=None)
        .txn([("get", "/a", 1), ("get", "/b", 2)], 4, 5)
    ),
    "there is no such key": Story().txn([("get", "/a", None), ("set", "/b", 2)], 0, 1).get("/b", 2, 2, 3),
    "it reads what it replaces": (
        started().txn([("get", "/a", 1), ("set", "/a", 3)], 2, 9).txn([("get", "/a", 3), ("set", "/a", 4)], 2, 9)
    ),
}  # fmt: skip
ILLEGAL = {  # with the keys that show it
    "half of a transaction is seen": (
        started().txn([("set", "/a", 3), ("set", "/b", 4)], 2, 9).txn([("get", "/a", 3), ("get", "/b", 2)], 3, 4), "ab"
    ),
    "half of it is seen by single reads, one after the other": (
        started().txn([("set", "/a", 3), ("set", "/b", 4)], 2, 9).get("/a", 3, 3, 4).get("/b", 2, 5, 6), "ab"
    ),
    "half of an unknown one is seen": (
        started().txn([("set", "/a", 3), ("set", "/b", 4)], 2, None).get("/a", 3, 3, 4).get("/b", 2, 5, 6), "ab"
    ),
    "write skew: each reads what the other has written, from before": (
        started().txn([("get", "/a", 1), ("set", "/b", 4)], 2, 9).txn([("get", "/b", 2), ("set", "/a", 3)], 2, 9), "ab"
    ),
    "a lost update: both replace the same value": (
        started().txn([("get", "/a", 1), ("set", "/a", 3), ("set", "/b", 5)], 2, 9)
        .txn([("get", "/a", 1), ("set", "/a", 4), ("set", "/b", 6)], 2, 9), "a"
    ),
    "a long fork: two readers see two writes in different orders": (
        started().set("/a", 3, 2, 99).set("/b", 4, 2, 99).txn([("get", "/a", 3), ("get", "/b", 2)], 3, 9)
        .txn([("get", "/a", 1), ("get", "/b", 4)], 3, 9), "ab"
    ),
    "a read only of a third key shows the order": (
        started().set("/c", 1, 0, 1).txn([("get", "/a", 1), ("set", "/c", 9)], 2, 3)
        .txn([("set", "/a", 3), ("set", "/b", 4)], 4, 9).txn([("get", "/c", 9), ("get", "/b", 2)], 5, 6)
        .txn([("get", "/a", 3), ("get", "/c", 9)], 5, 6).txn([("get", "/b", 2), ("get", "/c", 9)], 7, 8), "ab"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_legal_histories(name: str) -> None:
    assert LEGAL[name].wrong() is None


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_histories(name: str) -> None:
    story, keys = ILLEGAL[name]
    found = story.wrong()
    assert found is not None
    assert found[0] == [f"/{key}" for key in keys]


def test_the_answers_that_contradict_each_other_are_found() -> None:
    """The operations before and between them are not needed."""
    story = started()
    for at in range(10, 40, 3):
        story.set("/a", at, at, at + 1).txn([("get", "/a", at), ("get", "/b", 2)], at + 1, at + 2)
    first, other = len(story.requests) + 1, len(story.requests) + 3
    story.txn([("get", "/a", 37), ("set", "/a", 50)], 40, 60).set("/b", 7, 41, 42)
    assert story.txn([("get", "/a", 37), ("set", "/a", 51)], 40, 61).wrong() == (["/a"], [first, other])
    assert story.txn([("get", "/a", 51), ("get", "/b", 7)], 70, 71).wrong() == (["/a"], [first, other])


def half_seen_after(rounds: int) -> Story:
    """End with a read of half a transaction, after writes whose versions were told, and refusals for a version."""
    story, seq = started(), 2
    for at in range(2, 2 + 6 * rounds, 6):
        for key in ("/a", "/b"):
            refused = {"outcome": "failed", "error": "bad version"}
            story.set(key, at, at, at + 5, version=seq - 1).set(key, at + 1, at, at + 5, asked=0, **refused)
        story.txn([("get", "/a", at), ("get", "/b", at)], at, at + 5)
        seq += 1
    at = 2 + 6 * rounds
    story.txn([("set", "/a", at), ("set", "/b", at)], at, at + 3)
    return story.txn([("get", "/a", at), ("get", "/b", at - 6)], at + 1, at + 2)


@pytest.mark.slow
def test_what_versions_and_refusals_tell_is_left_out_first() -> None:
    """If they were kept, but most writes were unknown, far too many possibilities would be left."""
    story = half_seen_after(rounds=20)
    found: list[object] = []
    effort = sum(lines_executed(lambda: found.append(story.wrong())).values())
    assert found == [(["/a", "/b"], [99, 103])]
    assert effort < 1_000_000


def test_answers_are_reported_that_are_too_hard_to_shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearization, "EFFORT", 0)
    found = unexplained_together(half_seen_after(rounds=4).calls())
    assert found is not None
    paths, answers, more = found
    assert (paths, [one.invoke.client for one in answers], more) == (["/a", "/b"], [23], 21)


def test_no_key_by_itself_shows_what_the_illegal_histories_do() -> None:
    """Else the judgement of single keys would be enough. A lost update concerns one key, if that is read and then written."""
    for name, (story, _) in ILLEGAL.items():
        for path, calls in story.calls().items():
            assert linearization.first_unexplained(calls) is None, (name, path)


def test_keys_are_connected_through_others() -> None:
    story = Story()
    for keys in (("/a", "/b"), ("/c", "/d"), ("/e", "/e"), ("/d", "/b"), ("/f", "/g")):
        story.txn([("set", key, 1) for key in keys], 0, 1)
    story.set("/h", 1, 0, 1)
    story.txn([("set", "/i", 1)], 0, 1)
    assert connected(story.requests) == [["/a", "/b", "/c", "/d"], ["/e"], ["/f", "/g"]]


def random_transactions(seed: int, number: int, keys: int, clients: int, unknown: float) -> list[Transaction]:
    """Draw the transactions of a correct store. Unknown ones take effect late, or never. For odd seeds, one read is wrong."""
    choose = random.Random(seed)
    free, plan = [0] * clients, []
    for at in range(number):
        client = free.index(min(free))
        begin = free[client] + choose.randint(1, 5)
        end, known = begin + choose.randint(2, 20), choose.random() >= unknown
        late = begin + choose.randint(0, 200) if choose.random() < 0.5 else None
        free[client] = end + 1 + (0 if known else 20)
        uses = [
            (choose.choice(("get", "set", "both")), key) for key in choose.sample(range(keys), choose.choice((1, 1, 2)))
        ]
        steps = [("get", key) for use, key in uses if use != "set"] + [
            ("set", key) for use, key in uses if use != "get"
        ]
        plan.append((choose.randint(begin, end) if known else late, at, begin, end if known else None, steps))
    found: dict[int, list[int | None]] = {}
    store: list[int | None] = [None] * keys
    for _, at, steps in sorted((effect, at, steps) for effect, at, _, _, steps in plan if effect is not None):
        found[at] = [store[key] for op, key in steps if op == "get"]
        for op, key in steps:
            store[key] = 10 * at + key if op == "set" else store[key]
    if seed % 2 and found:
        told = found[choose.choice(list(found))]
        told[:] = [choose.choice((None, *range(10 * number))) for _ in told]
    return [
        made if end is not None else made.unanswered()
        for _, at, begin, end, steps in plan
        for made in [_transaction(at, begin, end, steps, found.get(at, []))]
    ]


def _transaction(
    at: int, begin: int, end: int | None, steps: Sequence[tuple[str, int]], found: list[int | None]
) -> Transaction:
    values, calls = iter(found), []
    for op, key in steps:
        asked = 10 * at + key if op == "set" else None
        invoke = Invoke(t=begin, due=begin, client=1, seq=at, node=1, op=op, path=f"/{key}", value=asked)  # type: ignore[arg-type]
        answer = None
        if end is not None:
            value = next(values, None) if op == "get" else None
            missing = op == "get" and value is None
            fields: dict[str, Any] = {"outcome": "failed", "error": "no node"} if missing else {"outcome": "ok"}
            answer = Complete(t=end, client=1, seq=at, value=value, **fields)
        calls.append((key, Call(invoke, answer)))
    return Transaction(tuple(calls))


@pytest.mark.slow
def test_random_histories_are_judged_as_by_the_definition() -> None:
    wrong = 0
    for seed in range(HISTORIES):
        transactions = random_transactions(seed, random.Random(seed).randint(3, 9), 2 + seed // 2 % 2, 3, 0.25)
        judged = telling(transactions)
        found = first_unserializable(judged)
        legal = found is None
        assert legal == explained(transactions), seed
        if found is not None:
            answers, _ = contradicting(judged, found)
            assert not explained([one if n in answers else one.unanswered() for n, one in enumerate(judged)]), seed
        assert legal or seed % 2, seed
        wrong += not legal
    assert wrong > HISTORIES // 5


@pytest.mark.slow
def test_a_long_history_is_judged_in_time_that_is_proportional_to_its_length() -> None:
    def effort(number: int) -> int:
        transactions = telling(random_transactions(2, number, 5, 4, 0.02))
        return sum(lines_executed(lambda: first_unserializable(transactions)).values())

    assert effort(480) < 3 * effort(240)


def test_too_many_possibilities_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearization, "MAX_CONFIGURATIONS", 500)
    story = started()
    for value in range(10, 34, 2):
        story.txn([("set", "/a", value), ("set", "/b", value + 1)], 2, 99)
    with pytest.raises(GaveUp, match="more than 500 possibilities"):
        story.txn([("get", "/a", 10), ("get", "/b", 13)], 100, 101).wrong()


# ---- the whole judgement ----


def lines_of(story: Story) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for request in story.requests:
        invoke, answer = request.invoke, request.complete
        steps = [{"op": one.op, "path": one.path, "value": one.value} for one in invoke.steps or ()]
        base = {"client": invoke.client, "seq": 1, "node": 1}
        fields = {"op": invoke.op, "path": invoke.path, "value": invoke.value} | ({"steps": steps} if steps else {})
        lines.append({"type": "invoke", "t": invoke.t * SECOND, "due": invoke.t * SECOND, **base, **fields})
        if answer is not None:
            told = {"outcome": answer.outcome, "values": answer.values, "value": answer.value, "error": answer.error}
            lines.append({"type": "complete", "t": answer.t * SECOND, **base, **told})
    return lines


def test_the_verdict_names_the_keys_and_the_writes_that_are_shown(tmp_path: Path) -> None:
    """Key /c takes part, but is not needed to show it."""
    story = started().set("/c", 5, 0, 1).txn([("set", "/a", 3), ("set", "/b", 4), ("set", "/c", 6)], 2, 9)
    verdict = run_of(tmp_path, lines_of(story.txn([("get", "/a", 3), ("get", "/b", 2), ("get", "/c", 6)], 3, 4)))
    assert verdict.violated == ["linearizable keys"]
    (violation,) = verdict.property("linearizable keys").violations
    assert violation.words == (
        "/b, /c: no order of the operations explains the answer to client 4, seq 1 (multi-get) beside that to "
        "client 1, seq 1 (transaction); it shows /b as client 1, seq 1 wrote it, /c as client 3, seq 1 wrote it"
    )
    assert [one.event["client"] for one in violation.evidence] == [1, 1, 3, 3, 4, 4]


def test_in_the_evidence_of_one_key_a_transaction_is_shown_as_a_whole(tmp_path: Path) -> None:
    story = started().txn([("get", "/b", 2), ("set", "/a", 3)], 2, 3).txn([("get", "/a", 1), ("set", "/b", 4)], 4, 5)
    (violation,) = run_of(tmp_path, lines_of(story)).property("linearizable keys").violations
    assert violation.words.endswith(
        "client 3, seq 1 (transaction) beside those to client 1, seq 1 (transaction) and client 2, seq 1 (transaction); "
        "it shows /a as client 1, seq 1 wrote it"
    )
    assert [one.event.get("op") for one in violation.evidence] == ["transaction", None] * 3


def test_transactions_that_are_in_order_pass(tmp_path: Path) -> None:
    story = started().txn([("get", "/a", 1), ("set", "/b", 4)], 2, 3).txn([("get", "/b", 4)], 4, 5).get("/a", 1, 6, 7)
    verdict = run_of(tmp_path, lines_of(story))
    assert (verdict.exit, verdict.reasons) == (0, [])
    assert verdict.property("linearizable keys").checked == 6  # steps


def test_a_write_of_a_transaction_is_lost(tmp_path: Path) -> None:
    story = started().txn([("set", "/a", 3), ("set", "/b", 4)], 2, 3).get("/a", 3, 4, 5).get("/b", 2, 6, 7)
    assert run_of(tmp_path, lines_of(story)).violated == ["linearizable keys", "durability"]


@pytest.mark.parametrize("values", [None, [], [1, 2]])
def test_an_answer_without_a_value_for_each_read_can_not_be_judged(tmp_path: Path, values: list[int] | None) -> None:
    lines = lines_of(started().txn([("get", "/a", 1), ("set", "/b", 4)], 2, 3))
    lines[-1]["values"] = values
    verdict = run_of(tmp_path, lines)
    assert verdict.exit == 2
    assert any("values for 1 reads of a transaction" in reason for reason in verdict.reasons), verdict.reasons


def test_what_a_transaction_found_is_part_of_the_record(tmp_path: Path) -> None:
    """The lines are those that the harness writes."""
    run_of(tmp_path, lines_of(started()))
    kept = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert kept[0]["steps"][0] == {"op": "set", "path": "/a", "value": 1}
    assert kept[1]["values"] == []
