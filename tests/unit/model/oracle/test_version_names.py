"""Versions that name writes: each belongs to one write of its key, and conditions are judged by that."""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.unit.model.oracle.test_linearization import REFUSED, Calls
from tests.unit.model.oracle.test_long_runs import lines_executed
from zab_chaos.model.oracle.linearization import Call, _is_plain, by_search, first_unexplained
from zab_chaos.model.oracle.version_names import Contradiction, resolved

BAD = {"error": "bad version", **REFUSED}
HISTORIES = 3000


def first_wrong(calls: Sequence[Call]) -> Call | None:
    try:
        return first_unexplained(resolved(calls))
    except Contradiction as contradiction:
        return contradiction.call


LEGAL = {
    "versions that do not count": Calls().create(1, 0, 1, version=70).set(2, 2, 3, version=9).get(2, 4, 5, version=9),
    "a condition that held, and one that did not": (
        Calls().set(1, 0, 1, version=70).set(2, 2, 3, condition=70, version=9).set(3, 4, 5, condition=70, **BAD)
        .get(2, 6, 7, version=9)
    ),
    "a read tells the version of a write that was not answered": (
        Calls().set(1, 0, None).get(1, 2, 3, version=70).set(2, 4, 5, condition=70, version=71)
        .set(3, 6, 7, condition=70, **BAD)
    ),
    "a version from before the key was deleted": (
        Calls().create(1, 0, 1, version=70).delete(2, 3, condition=70).create(2, 4, 5, version=72)
        .delete(6, 7, condition=70, **BAD)
    ),
    "an unknown write made the version that only `exists` has shown": (
        Calls().set(1, 0, None).exists(2, 3, version=70).set(2, 4, 5, condition=70, version=71)
    ),
    "a condition may be false because of a write that was not answered": (
        Calls().set(1, 0, 1, version=70).set(2, 2, None).set(3, 4, 5, condition=70, **BAD).get(2, 6, 7)
    ),
    "one of two that name the same version is refused": (
        Calls().set(1, 0, 1, version=70).set(2, 2, 9, condition=70, version=71).set(3, 2, 9, condition=70, **BAD)
    ),
}  # fmt: skip
ILLEGAL = {
    "one version of two writes": Calls().set(1, 0, 1, version=70).set(2, 2, 3, version=70),
    "two versions of one write": Calls().set(1, 0, 1, version=70).get(1, 2, 3, version=71),
    "a read shows the version of another write": (
        Calls().set(1, 0, 1, version=70).set(2, 2, 3, version=71).get(2, 4, 5, version=70)
    ),
    "a condition held although its version was replaced": (
        Calls().set(1, 0, 1, version=70).set(2, 2, 3, version=71).set(3, 4, 5, condition=70, version=72)
    ),
    "a condition held twice": (
        Calls().set(1, 0, 1, version=70).set(2, 2, 9, condition=70, version=71).set(3, 2, 9, condition=70, version=72)
    ),
    "a condition was refused although it was true": Calls().set(1, 0, 1, version=70).set(2, 2, 3, condition=70, **BAD),
    "a refused write took effect": (
        Calls().set(1, 0, 1, version=70).set(2, 2, 3, version=71).set(3, 4, 5, condition=70, **BAD).get(3, 6, 7, version=72)
    ),
    "the version of a write without an answer was replaced": (
        Calls().set(1, 0, None).get(1, 2, 3, version=70).set(2, 4, 5, version=71).set(3, 6, 7, condition=70, version=72)
    ),
    "an outdated read": Calls().set(1, 0, 1, version=70).set(2, 2, 3, version=71).get(1, 4, 5, version=70),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_legal_histories(name: str) -> None:
    assert first_wrong(LEGAL[name].calls) is None


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_histories(name: str) -> None:
    assert first_wrong(ILLEGAL[name].calls) is not None


def test_without_conditions_no_search_is_needed() -> None:
    """Each version says the same as the value beside it, so that long histories are judged as quickly as without versions."""
    story = Calls()
    for number in range(1, 500):
        story.set(number, 10 * number, 10 * number + 15, version=7 * number).get(number, 10 * number, 10 * number + 15)
    calls = resolved(story.calls)
    assert _is_plain(calls)
    assert first_unexplained(calls) is None


def with_conditions(writes: int) -> Calls:
    """A legal history, in which two of three writes have a condition, and each is read."""
    story = Calls()
    for number in range(writes):
        told = {"condition": 7 * number - 7} if number % 3 and number else {}
        story.set(number, 10 * number, 10 * number + 5, version=7 * number, **told)
        story.get(number, 10 * number + 6, 10 * number + 7, version=7 * number)
    return story


@pytest.mark.slow
def test_with_conditions_four_times_the_history_is_four_times_the_work() -> None:
    before, after = (
        sum(lines_executed(partial(first_wrong, with_conditions(writes).calls)).values()) for writes in (50, 200)
    )
    assert after < 4.6 * before


def test_with_conditions_a_long_history_is_judged_too() -> None:
    story = with_conditions(2000)
    assert first_wrong(story.calls) is None
    assert first_wrong(story.set(3000, 10**6, 10**6 + 1, condition=7, version=1).calls) is not None


# ---- random histories, compared with trying all orders ----


def explained(calls: Sequence[Call]) -> bool:
    """Return whether some order explains all answers, by the definition. Each write makes a version of its own, which is not
    known before something names it."""
    return any(_explained(calls, frozenset(), None, Names({}, frozenset())))


State = tuple[int | None, int] | None  # the value, and the index of the write


class Names(NamedTuple):
    """What is known of the versions: those of some writes, and which ones (write, version) do not belong together."""

    known: dict[int, int]
    denied: frozenset[tuple[int, int]]

    def having(self, write: int, version: int) -> "Names | None":
        """Return what is known if this write makes this version; None if that can't be."""
        other = any(it == version and one != write for one, it in self.known.items())
        if other or self.known.get(write, version) != version or (write, version) in self.denied:
            return None
        return Names(self.known | {write: version}, self.denied)

    def without(self, write: int, version: int) -> "Names | None":
        """Return what is known if this write does not make this version; None if that can't be."""
        return None if self.known.get(write) == version else Names(self.known, self.denied | {(write, version)})


def _explained(calls: Sequence[Call], done: frozenset[int], state: State, names: Names) -> Iterator[bool]:
    """Yield True for each order of the calls that are left."""
    left = [number for number in range(len(calls)) if number not in done]
    if all(not calls[number].known for number in left):
        yield True
        return
    first = min(calls[number].answer.t for number in left if calls[number].known)  # type: ignore[union-attr]
    for number in left:
        if calls[number].invoke.t <= first:
            for after, known in _effects(number, calls[number], state, names):
                yield from _explained(calls, done | {number}, after, known)


def _effects(number: int, call: Call, state: State, names: Names) -> Iterator[tuple[State, Names]]:
    """Yield the states in which the call may leave the key, each with what is then known of the versions."""
    invoke, answer = call.invoke, call.answer if call.known else None
    if answer is not None and answer.outcome == "failed":
        if (
            answer.error == "no node"
            and state is None
            and (invoke.op in ("get", "delete") or invoke.version is not None)
        ):
            yield state, names
        if answer.error == "node exists" and invoke.op == "create" and state is not None:
            yield state, names
        if answer.error == "bad version" and state is not None and invoke.version is not None:
            other = names.without(state[1], invoke.version)
            if other is not None:
                yield state, other
        return
    if invoke.version is not None:
        bound = None if state is None else names.having(state[1], invoke.version)
        if bound is None:
            return
        names = bound
    if invoke.op == "get":
        if answer is not None and state is not None and state[0] == answer.value:
            bound = names if answer.version is None else names.having(state[1], answer.version)
            if bound is not None:
                yield state, bound
        return
    if invoke.op == "delete":
        if state is not None:
            yield None, names
        return
    if invoke.op == "create" and state is not None:
        return
    version = answer.version if answer is not None else None
    made = names if version is None else names.having(number, version)
    if made is not None:
        yield (invoke.value, number), made


def random_history(random_: random.Random) -> list[Call]:
    """Return a history of a store with opaque versions, in which sometimes an answer is wrong."""
    story, at = Calls(), 0
    state: tuple[int, int] | None = None
    told: list[int] = []
    for number in range(random_.randint(3, 6)):
        at += random_.randint(1, 4)
        end: int | None = at + random_.randint(1, 6)
        op = random_.choice(("set", "set", "cas", "cas", "get", "get", "create", "delete"))
        wrong = random_.random() < 0.1
        lost = random_.random() < 0.2 and op != "get"
        acts = not lost or random_.random() < 0.5
        version = 200 - 3 * number
        fields: dict[str, Any] = {}
        condition = None
        if op in ("cas", "delete") and told and random_.random() < 0.9:
            condition = random_.choice(told[-2:])
            fields["condition"] = condition
        error = None
        if op == "create":
            error = "node exists" if state is not None else None
        elif state is None and (op in ("get", "delete") or condition is not None):
            error = "no node"
        elif condition is not None and state is not None and state[1] != condition:
            error = "bad version"
        if wrong and op != "get":
            error = None if error else error
        if error:
            fields |= {"outcome": "failed", "error": error}
        elif op == "get":
            fields["version"] = random_.choice([*told, 100]) if wrong or state is None else state[1]
            told.append(fields["version"])
        elif op == "delete":
            state = None if acts else state
        else:
            fields["version"] = random_.choice([version, *told[-1:]]) if wrong else version
            state = (number, version) if acts else state
        if lost:
            fields = {key: value for key, value in fields.items() if key == "condition"} | {"outcome": "unknown"}
        elif "version" in fields and op != "get":
            told.append(fields["version"])
        if op == "get":
            story.get(state[0] if state is not None else None, at, end, **fields)
        elif op == "delete":
            story.delete(at, end, **fields)
        else:
            (story.create if op == "create" else story.set)(number, at, end, **fields)
    return story.calls


def test_random_histories_are_judged_as_by_the_definition() -> None:
    verdicts = {True: 0, False: 0}
    for seed in range(HISTORIES):
        calls = random_history(random.Random(seed))
        expected = explained(calls)
        verdicts[expected] += 1
        assert (first_wrong(calls) is None) == expected, (seed, calls)
        if expected:
            assert by_search(resolved(calls)) is None, seed
    assert min(verdicts.values()) > HISTORIES // 10
