"""Linearizability of one key: small legal and illegal histories, and random ones compared with trying all orders."""

import random
from collections.abc import Sequence

import pytest

from tests.unit.model.oracle.definition import explained as some_order_explains
from zab_chaos.model.events import Complete, Invoke
from zab_chaos.model.oracle import linearization
from zab_chaos.model.oracle.linearization import (
    Call,
    GaveUp,
    State,
    Transaction,
    _says_nothing,
    _version,
    by_search,
    contradicting,
    first_unexplained,
)

FOREVER = 10**9
HISTORIES = 10_000


class Calls:
    """A builder of calls: operation, time of the call, time of the return (None: never), and the answer."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def _add(self, op: str, begin: int, end: int | None, value: int | None, **told: object) -> "Calls":
        seq = len(self.calls) + 1
        asked = value if op in ("set", "create") else None
        invoke = Invoke(t=begin, due=begin, client=1, seq=seq, node=1, op=op, path="/a", value=asked)
        if "condition" in told:
            invoke.version = int(str(told.pop("condition")))
        fields: dict[str, object] = {"outcome": "ok", "value": value if op == "get" else None, **told}
        answer = None if end is None else Complete(t=end, client=1, seq=seq, **fields)  # type: ignore[arg-type]
        self.calls.append(Call(invoke, answer))
        return self

    def set(self, value: int, begin: int, end: int | None, **told: object) -> "Calls":
        return self._add("set", begin, end, value, **told)

    def get(self, value: int | None, begin: int, end: int | None, **told: object) -> "Calls":
        return self._add("get", begin, end, value, **told)

    def create(self, value: int, begin: int, end: int | None, **told: object) -> "Calls":
        return self._add("create", begin, end, value, **told)

    def delete(self, begin: int, end: int | None, **told: object) -> "Calls":
        return self._add("delete", begin, end, None, **told)

    def exists(self, begin: int, end: int | None, **told: object) -> "Calls":
        return self._add("exists", begin, end, None, **told)

    def check(self, begin: int, end: int | None, **told: object) -> "Calls":
        return self._add("check", begin, end, None, **told)


REFUSED = {"outcome": "failed"}
LEGAL = {
    "one after the other": Calls().set(1, 0, 1).get(1, 2, 3).set(2, 4, 5).get(2, 6, 7),
    "a read beside a write may see either": Calls().set(1, 0, 1).set(2, 2, 9).get(1, 3, 4).get(2, 5, 6),
    "two writes at once, in either order": Calls().set(1, 0, 9).set(2, 0, 9).get(2, 10, 11).get(2, 12, 13),
    "an unknown write takes effect late": Calls().set(1, 0, 1).set(2, 2, None).get(1, 3, 4).get(2, 50, 51),
    "an unknown write never takes effect": Calls().set(1, 0, 1).set(2, 2, 3, outcome="unknown").get(1, 5, 6),
    "it takes effect after its client gave it up": (
        Calls().set(1, 0, 1).set(2, 2, 3, outcome="unknown").get(1, 4, 5).get(2, 6, 7)
    ),
    "nothing is there before the first write": Calls().get(None, 0, 1, outcome="failed", error="no node").set(1, 2, 3),
    "a refusal for want of a leader says nothing": Calls().set(1, 0, 1).set(2, 2, 3, error="no leader", **REFUSED).get(1, 4, 5),
    "made, refused, removed, made again": (
        Calls().create(1, 0, 1).create(2, 2, 3, error="node exists", **REFUSED).delete(4, 5).create(3, 6, 7).get(3, 8, 9)
    ),
    "versions count": Calls().create(1, 0, 1, version=0).set(2, 2, 3, version=1).get(2, 4, 5, version=1),
    "a condition that held, and one that did not": (
        Calls().create(1, 0, 1, version=0).set(2, 2, 3, condition=0, version=1)
        .set(3, 4, 5, condition=0, error="bad version", **REFUSED).get(2, 6, 7, version=1)
    ),
    "asked for before and after it was there": (
        Calls().exists(0, 1).check(2, 3, error="no node", **REFUSED).create(1, 4, 5, version=0).exists(6, 7, version=0)
        .check(8, 9, condition=0, version=0).check(10, 11, condition=1, error="bad version", **REFUSED)
        .get(1, 12, 13, version=0).delete(14, 15).exists(16, 17)
    ),
}  # fmt: skip
ILLEGAL = {
    "a lost write": Calls().set(1, 0, 1).set(2, 2, 3).get(1, 4, 5),
    "a value that nobody wrote": Calls().set(1, 0, 1).get(7, 2, 3),
    "a read from the future": Calls().set(1, 0, 1).get(2, 2, 3).set(2, 4, 5),
    "new, then old": Calls().set(1, 0, 1).set(2, 2, 9).get(2, 3, 4).get(1, 5, 6),
    "an unknown write that comes and goes": Calls().set(1, 0, 1).set(2, 2, None).get(2, 3, 4).get(1, 5, 6).get(2, 7, 8),
    "a failed write that is read": Calls().set(1, 0, 1).set(2, 2, 3, error="bad path", **REFUSED).get(2, 4, 5),
    "made twice": Calls().create(1, 0, 1).create(2, 2, 3),
    "there is nothing, although it was written": Calls()
    .set(1, 0, 1)
    .get(None, 2, 3, outcome="failed", error="no node"),
    "an unknown write that takes effect twice": (
        Calls().set(1, 0, 1).set(2, 2, None).get(2, 3, 4).set(3, 5, 6).get(2, 7, 8).delete(9, 10)
    ),
    "there, although nothing was made": Calls().exists(0, 1, version=0),
    "not there, although it was made": Calls().create(1, 0, 1, version=0).exists(2, 3),
    "checked, although nothing was made": Calls().check(0, 1),
    "checked at another version": Calls().create(1, 0, 1, version=0).check(2, 3, version=1),
    "there at another version": Calls().create(1, 0, 1, version=0).exists(2, 3, version=1),
    "refused as there, although nothing was made": Calls().create(1, 0, 1, error="node exists", **REFUSED),
    "refused as missing, although it was made": Calls().create(1, 0, 1).delete(2, 3, error="no node", **REFUSED),
    "refused as there, although it was not to be made": (
        Calls().create(1, 0, 1).set(2, 2, 3, error="node exists", **REFUSED)
    ),
    "not set for lack of a key, which a set would make": Calls().set(1, 0, 1, error="no node", **REFUSED),
    "not made for lack of a key, which a create makes": Calls().create(1, 0, 1, error="no node", **REFUSED),
    "not told whether it is there, because it is not": Calls().exists(0, 1, error="no node", **REFUSED),
    "not read because it is there": Calls().set(1, 0, 1).get(None, 2, 3, error="node exists", **REFUSED),
    "refused for a version, although none was asked for": (
        Calls().create(1, 0, 1, version=0).set(2, 2, 3, error="bad version", **REFUSED)
    ),
    "not read for a version that was not asked for": Calls()
    .get(None, 0, 1, error="bad version", **REFUSED)
    .set(1, 2, 3),
    "refused for a version that it has": (
        Calls().create(1, 0, 1, version=0).set(2, 2, 3, condition=0, error="bad version", **REFUSED)
    ),
    "removed, although nothing was made": Calls().delete(0, 1),
    "there, although it was removed": Calls().create(1, 0, 1).delete(2, 3).get(1, 4, 5),
    "a version that skips": Calls().create(1, 0, 1, version=0).set(2, 2, 3, version=2),
    "a condition ignored": Calls()
    .create(1, 0, 1, version=0)
    .set(2, 2, 3, version=1)
    .set(3, 4, 5, condition=0, version=2),
}


@pytest.mark.parametrize("story", LEGAL.values(), ids=LEGAL.keys())
def test_legal_histories(story: Calls) -> None:
    assert first_unexplained(story.calls) is None


@pytest.mark.parametrize("story", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_illegal_histories(story: Calls) -> None:
    wrong = first_unexplained(story.calls)
    assert wrong is not None
    assert wrong in story.calls


def explained(calls: Sequence[Call], versions: bool = False) -> bool:
    return some_order_explains([Transaction(((0, call),)) for call in calls], versions)


def first_unexplained_by_definition(calls: list[Call]) -> Call | None:
    """Return the operation with whose answer the history stops being linearizable, by trying every order."""
    versions = any(call.invoke.version is not None or _version(call) is not None for call in calls)
    if explained(calls, versions):
        return None
    returns = sorted((call.answer.t, number) for number, call in enumerate(calls) if call.known and call.answer)
    for last in returns:
        known = {number for t, number in returns if (t, number) <= last}
        if not explained([call if n in known else Call(call.invoke, None) for n, call in enumerate(calls)], versions):
            return calls[last[1]]
    raise AssertionError("the whole history is not explained")


def contradict(calls: list[Call], found: Call) -> bool:
    """Return whether the answers that are cited for an operation contradict each other, by the definition."""
    transactions = [Transaction(((0, call),)) for call in calls]
    answers, _ = contradicting(transactions, calls.index(found))
    return not explained([call if n in answers else Call(call.invoke, None) for n, call in enumerate(calls)], True)


def random_calls(seed: int) -> Calls:
    """Draw up to seven operations of one key, whose values make sense often enough."""
    choose, story = random.Random(seed), Calls()
    for value in range(1, choose.randint(2, 7)):
        begin = choose.randrange(1, 20)
        end = choose.choice((None, *(begin + choose.randint(1, 8) for _ in range(5))))
        if choose.random() < 0.5:
            story.set(value, begin, end)
        else:
            missing = {"outcome": "failed", "error": "no node"} if choose.random() < 0.15 else {}
            story.get(None if missing else choose.randint(1, 6), begin, end, **missing)
    return story


@pytest.mark.slow
def test_both_methods_agree_with_the_definition() -> None:
    judged = [
        (first_unexplained(calls) is None, by_search(calls) is None, explained(calls))
        for calls in map(calls_of, range(3000))
    ]
    assert [seed for seed, (zones, search, definition) in enumerate(judged) if not zones == search == definition] == []
    assert 200 < sum(definition for _, _, definition in judged) < 2800


def calls_of(seed: int) -> list[Call]:
    return random_calls(seed).calls


def random_conditional_calls(seed: int) -> Calls:
    """Draw operations of all kinds, with conditions and versions. About half have an unknown outcome."""
    choose, story = random.Random(seed), Calls()
    for value in range(1, choose.randint(3, 8)):
        begin, known = choose.randrange(1, 14), choose.random() < 0.55
        end = begin + choose.randint(1, 9) if known else None
        op = choose.choice(("set", "set", "set", "get", "get", "create", "delete" if seed % 2 else "set"))
        asked = {"condition": choose.randint(0, 2)} if op in ("set", "delete") and choose.random() < 0.35 else {}
        told: dict[str, object] = {}
        if known and choose.random() < 0.2:
            errors = {"set": "bad version" if asked else "no leader", "create": "node exists", "get": "no node"}
            told = {"error": errors.get(op, "no node"), **REFUSED}
        elif known and op != "delete" and choose.random() < 0.6:
            told = {"version": 0 if op == "create" else choose.randint(0, 3)}
        if op == "delete":
            story.delete(begin, end, **asked, **told)
        elif op == "get":
            story.get(None if told.get("error") else choose.randint(1, 6), begin, end, **told)
        else:
            (story.set if op == "set" else story.create)(value, begin, end, **asked, **told)
    return story


@pytest.mark.slow
def test_the_reductions_of_the_search_make_no_difference() -> None:
    differing, legal = [], 0
    for seed in range(3000):
        calls = [call for call in random_conditional_calls(seed).calls if not _says_nothing(call)]
        versions = any(call.invoke.version is not None or _version(call) is not None for call in calls)
        definition = explained(calls, versions)
        legal += definition
        if (by_search(calls) is None) != definition:
            differing.append(seed)
    assert differing == []
    assert 300 < legal < 2700


def answered(op: str, value: int, condition: int | None, state: State) -> tuple[dict[str, object], State]:
    """Return the answer of a correct store, and its state afterwards."""
    if op == "exists":
        return {"version": state[1]} if state is not None else {}, state
    if op == "create" and state is not None:
        return {"error": "node exists", **REFUSED}, state
    if state is None and (op in ("get", "check", "delete") or condition is not None):
        return {"error": "no node", "value": None, **REFUSED}, state
    if state is not None and condition not in (None, state[1]):
        return {"error": "bad version", **REFUSED}, state
    if op == "delete":
        return {}, None
    after = (value, state[1] + 1 if state is not None else 0) if op in ("set", "create") else state
    return {"version": after[1], **({"value": after[0]} if op == "get" else {})} if after is not None else {}, after


def random_store_calls(seed: int, calls: int | None = None, unknown: float = 0.3) -> Calls:
    """Draw the calls of clients of a correct store. Unknown ones take effect late, or never. For odd seeds, one answer is
    that of another state."""
    choose, state = random.Random(seed), None
    counts = choose.random() < 0.7  # versions
    kinds = choose.choice(
        ("set get", "set get delete", "set get delete create", "set set get delete create exists check")
    )
    most = choose.choice((2, 10**6))  # values
    plan = []
    for number in range(calls or choose.randint(3, 9)):
        begin, known = 3 * number + choose.randrange(3), choose.random() >= unknown
        end = begin + choose.randint(1, 9) if known else None
        effect = choose.randint(begin, end if end is not None else begin + 30)
        op = choose.choice([kind for kind in kinds.split() if counts or kind not in ("exists", "check")])
        asked = (
            {"condition": choose.randint(0, 2)} if counts and op in ("set", "delete") and choose.random() < 0.3 else {}
        )
        plan.append((effect if known or choose.random() < 0.6 else FOREVER, number, op, begin, end, asked))
    written = [choose.randint(1, most) for _ in plan]
    lie = choose.randrange(len(plan)) if seed % 2 else None
    told: dict[int, dict[str, object]] = {}
    for effect, number, op, _, _, asked in sorted(plan, key=lambda one: one[:2]):
        seen = (choose.choice(written), choose.randint(0, 3))
        if number == lie:
            told[number], _ = answered(op, written[number], asked.get("condition"), choose.choice((None, seen)))
        elif effect < FOREVER:
            told[number], state = answered(op, written[number], asked.get("condition"), state)
    story = Calls()
    for _, number, op, begin, end, asked in plan:
        says = {name: it for name, it in told.get(number, {}).items() if counts or name != "version"}
        value = says.pop("value", written[number])
        story._add(op, begin, end, value, **asked, **(says if end is not None else {}))  # type: ignore[arg-type]
    return story


@pytest.mark.slow
def test_the_search_finds_the_first_operation_that_no_order_explains() -> None:
    wrong = 0
    for seed in range(HISTORIES):
        calls = random_store_calls(seed).calls
        found = first_unexplained_by_definition(calls)
        assert by_search(calls) is found, seed
        assert found is None or contradict(calls, found), seed
        assert seed % 2 or found is None, seed
        wrong += found is not None
    assert wrong > HISTORIES // 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 8, 14, 16])
def test_a_long_history_is_judged(seed: int) -> None:
    """The key has some thirty writes with an unknown outcome."""
    story = random_store_calls(seed, 3000, 0.01)
    assert by_search(story.calls) is None
    assert by_search(story.get(-2, 10_000, 10_001).calls) is story.calls[-1]


def test_many_unknown_writes_are_judged() -> None:
    """Sixty writes have an unknown outcome; some of them made the versions that are seen later."""
    story = Calls().create(1000, 0, 1, version=0)
    for number in range(30):
        story.set(number, 10 + 3 * number, None).set(100 + number, 10 + 3 * number, None, condition=number)
    for number in range(10):
        story.set(200 + number, 200 + 4 * number, 201 + 4 * number, version=2 * number + 2)
        story.get(200 + number, 202 + 4 * number, 203 + 4 * number, version=2 * number + 2)
    assert first_unexplained(story.calls) is None
    assert first_unexplained(story.get(200, 300, 301, version=2).calls) is story.calls[-1]


def test_many_concurrent_plain_writes_are_judged() -> None:
    story = Calls()
    for value in range(1, 200):
        story.set(value, 0, 1000)
    assert first_unexplained(story.get(3, 1001, 1002).get(3, 1003, 1004).calls) is None
    # A read shows 3 after 4 had been written, so 4 can't be the last value.
    assert first_unexplained(story.get(4, 1005, 1006).calls) is story.calls[-2]


def test_too_many_possibilities_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearization, "MAX_CONFIGURATIONS", 1000)
    story = Calls()
    for value in range(1, 25):
        story.set(value, 0, 100)
    with pytest.raises(GaveUp, match="more than 1,000 possibilities"):
        first_unexplained(story.get(3, 101, 102).delete(200, 201).calls)  # no plain read or write
