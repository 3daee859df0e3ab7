"""Transactions on lists, judged by a level of isolation."""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.model.oracle.list_definition import Txn, is_allowed
from tests.unit.model.oracle.test_history import SECOND, Line, operation, run_of
from tests.unit.model.oracle.test_long_runs import lines_executed
from zab_chaos.model.events import FINAL_CLIENTS, Complete, Invoke, RequestStep
from zab_chaos.model.isolation import LEVELS, Anomaly, Level, Order, Strength
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.isolation import Isolation
from zab_chaos.model.verdict import Judgement, Verdict

HISTORIES = 500
LISTS = ("/list-1", "/list-2")


def appends(path: str, *elements: int) -> tuple[tuple[str, str, int], ...]:
    return tuple(("append", path, element) for element in elements)


def reads(path: str, *elements: int) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return (("read", path, elements),)


class _Run:
    def __init__(self, level: str) -> None:
        self.expect = {"isolation": level}


def judged(txns: Sequence[Txn], level: str) -> Isolation:
    facts = Facts()
    facts.run = _Run(level)  # type: ignore[assignment]
    lines: list[Invoke | Complete] = []
    for seq, txn in enumerate(txns, 1):
        steps = [
            RequestStep(op=op, path=path, value=what if isinstance(what, int) else None) for op, path, what in txn.steps
        ]
        kind = "list-append" if txn.appended else "list-read"
        name: dict[str, Any] = {"client": txn.session, "seq": seq, "node": 1}
        lines.append(Invoke(t=txn.begin, due=txn.begin, op=kind, steps=steps, **name))  # type: ignore[arg-type]
        found = [[*what] for op, _, what in txn.steps if op == "read" and not isinstance(what, int)]
        lists = {"lists": found} if txn.outcome == "ok" else {}
        error = {"error": "conflict"} if txn.outcome == "failed" else {}
        lines.append(Complete(t=txn.end, outcome=txn.outcome, **name, **lists, **error))  # type: ignore[arg-type]
    for line in sorted(lines, key=lambda line: (line.t, isinstance(line, Complete))):
        facts.invoke(line) if isinstance(line, Invoke) else facts.complete(line)
    assert not facts.damages
    checker = Isolation(facts)
    checker.at_end()
    return checker


def drawn(draw: random.Random) -> list[Txn]:
    """Return a history: transactions that commit in some order, whose reads show the state of some moment."""
    count = draw.choice((2, 3, 3, 4))
    outcomes = [draw.choice(("ok", "ok", "ok", "ok", "unknown", "failed")) for _ in range(count)]
    elements = dict.fromkeys(LISTS, 0)
    asked: list[list[tuple[str, str, int]]] = []
    for _ in range(count):
        steps = []
        for _ in range(draw.choice((1, 2, 2, 3))):
            path, op = draw.choice(LISTS), draw.choice(("append", "read"))
            elements[path] += op == "append"
            steps.append((op, path, elements[path]))
        asked.append(steps)
    states: list[dict[str, tuple[int, ...]]] = [dict.fromkeys(LISTS, ())]
    done: list[Txn] = [None] * count  # type: ignore[list-item]
    clock = 0
    for number in draw.sample(range(count), count):
        at = draw.choice((-1, -1, -1, draw.randrange(len(states))))
        steps, own = [], dict.fromkeys(LISTS, ())
        for op, path, element in asked[number]:
            if op == "append":
                own[path] = (*own[path], element)
                steps.append((op, path, element))
            else:
                seen = states[draw.choice((at, at, at, draw.randrange(len(states))))][path] + own[path]
                steps.append((op, path, _spoilt(draw, seen)))
        takes_effect = outcomes[number] == "ok" or draw.random() < (0.5 if outcomes[number] == "unknown" else 0.1)
        if takes_effect:
            states.append({path: states[-1][path] + own[path] for path in LISTS})
        begin = max(0, clock - draw.choice((0, 0, 3, 9)))
        clock += 2
        done[number] = Txn(
            number + 1, begin, max(begin + 1, clock - draw.choice((0, 1))), outcomes[number], tuple(steps)
        )
    return _with_sessions(draw, done)


def _spoilt(draw: random.Random, seen: tuple[int, ...]) -> tuple[int, ...]:
    if draw.random() < 0.93 or not seen:
        return seen
    return draw.choice((seen[:-1], seen[::-1], (*seen, seen[0]), (*seen, 9)))


def _with_sessions(draw: random.Random, txns: list[Txn]) -> list[Txn]:
    """Give transactions that do not overlap to one client; an answer that is not known ends its session."""
    found: list[Txn] = []
    for txn in sorted(txns, key=lambda txn: txn.begin):
        before = [one for one in found if one.session < 100 and one.outcome == "ok" and one.end < txn.begin]
        last = [one for one in before if not any(two.session == one.session and two.begin > one.begin for two in found)]
        session = draw.choice(last).session if last and draw.random() < 0.6 else len(found) + 1
        found.append(Txn(session, txn.begin, txn.end, txn.outcome, txn.steps))
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_a_history_is_accepted_if_and_only_if_some_order_explains_it(level: str) -> None:
    draw = random.Random(level)
    counts = {True: 0, False: 0}
    for _ in range(HISTORIES):
        txns = drawn(draw)
        allowed = is_allowed(txns, LEVELS[level])
        counts[allowed] += 1
        found = judged(txns, level)
        assert (not found.findings) == allowed, (txns, [it.words for it in found.findings.listed])
    assert min(counts.values()) > HISTORIES / 25


A, B = LISTS
OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
# What happened, and how it is told. T2 stands for client 2, seq 2.
ANOMALIES: dict[str, tuple[list[Txn], str]] = {
    "G0": (
        [
            Txn(1, 0, 9, OK, appends(A, 1) + appends(B, 1)),
            Txn(2, 0, 9, OK, appends(B, 2) + appends(A, 2)),
            Txn(3, 10, 11, OK, reads(A, 1, 2) + reads(B, 2, 1)),
        ],
        "G0 (dirty writes): T2 appended 2 to /list-1 after T1, as T3 read; T1 appended 1 to /list-2 after T2, as T3 read. "
        "Promised is strict-serializable; no level allows it",
    ),
    "G1c": (
        [Txn(1, 0, 9, OK, appends(A, 1) + reads(B, 2)), Txn(2, 0, 9, OK, appends(B, 2) + reads(A, 1))],
        "G1c (circular information flow): T2 read /list-1 with 1 of T1; T1 read /list-2 with 2 of T2. Promised is "
        "strict-serializable; no level allows it",
    ),
    "G1c with an append that no read shows": (
        [
            Txn(1, 0, 9, OK, appends(A, 2) + appends(B, 1)),
            Txn(2, 0, 9, OK, appends(A, 1) + reads(B, 1)),
            Txn(3, 0, 9, OK, reads(A, 1)),
        ],
        "G1c (circular information flow): T2 read /list-2 with 1 of T1; T1 appended 2 to /list-1 after T2, for no read shows "
        "it. Promised is strict-serializable; no level allows it",
    ),
    "G-single": (
        [Txn(1, 0, 9, OK, appends(A, 5, 1) + appends(B, 1)), Txn(2, 0, 9, OK, reads(A, 5, 1) + reads(B))],
        "G-single (read skew): T2 read /list-1 with 1 of T1; T2 read /list-2 without 1 of T1. Promised is "
        "strict-serializable; the strongest level that allows it is read-committed",
    ),
    "G-nonadjacent": (
        [
            Txn(1, 0, 9, OK, appends(A, 1)),
            Txn(2, 0, 9, OK, appends(B, 2)),
            Txn(3, 0, 9, OK, reads(A, 1) + reads(B)),
            Txn(4, 0, 9, OK, reads(B, 2) + reads(A)),
        ],
        "G-nonadjacent (long read skew): T3 read /list-1 with 1 of T1; T3 read /list-2 without 2 of T2; T4 read /list-2 with "
        "2 of T2; T4 read /list-1 without 1 of T1. Promised is strict-serializable; the strongest level that allows it is "
        "read-committed",
    ),
    "P4": (
        [Txn(1, 0, 9, OK, reads(A) + appends(A, 1)), Txn(2, 0, 9, OK, reads(A) + appends(A, 2))],
        "P4 (lost update): T1 read /list-1 without 2 of T2, and appended to it; T2 read /list-1 without 1 of T1, and appended"
        " to it. Promised is strict-serializable; the strongest level that allows it is read-committed",
    ),
    "P4 that a read shows": (
        [
            Txn(1, 0, 9, OK, reads(A) + appends(A, 1)),
            Txn(2, 0, 9, OK, appends(A, 2)),
            Txn(3, 10, 11, OK, reads(A, 2, 1)),
        ],
        "P4 (lost update): T1 read /list-1 without 2 of T2; T1 appended 1 to /list-1 after T2, as T3 read. Promised is "
        "strict-serializable; the strongest level that allows it is read-committed",
    ),
    "an append that is lost": (
        [
            Txn(1, 0, 1, OK, appends(A, 1)),
            Txn(2, 2, 3, OK, reads(A, 1)),
            Txn(3, 2, 3, OK, appends(A, 2)),
            Txn(4, 4, 5, OK, reads(A, 1)),
        ],
        "G-single-realtime (stale read): T4 read /list-1 without 2 of T3; T4 was called after T3 had returned. Promised is "
        "strict-serializable; the strongest level that allows it is strong-session-serializable",
    ),
    "G2": (
        [Txn(1, 0, 9, OK, reads(A) + appends(B, 1)), Txn(2, 0, 9, OK, reads(B) + appends(A, 2))],
        "G2 (write skew): T1 read /list-1 without 2 of T2; T2 read /list-2 without 1 of T1. Promised is strict-serializable; "
        "the strongest level that allows it is strong-snapshot-isolation",
    ),
    "a stale read": (
        [Txn(1, 0, 1, OK, appends(A, 1)), Txn(2, 2, 3, OK, reads(A))],
        "G-single-realtime (stale read): T2 read /list-1 without 1 of T1; T2 was called after T1 had returned. Promised is "
        "strict-serializable; the strongest level that allows it is strong-session-serializable",
    ),
    "a session that does not see its own append": (
        [Txn(1, 0, 1, OK, appends(A, 1)), Txn(1, 2, 3, OK, reads(A))],
        "G-single-session (stale read): client 1, seq 2 read /list-1 without 1 of T1; client 1, seq 2 came after T1 in the "
        "same session. Promised is strict-serializable; the strongest level that allows it is serializable",
    ),
    "steps in time are told as one": (
        [
            Txn(1, 0, 1, OK, appends(A, 1)),
            Txn(2, 2, 3, OK, appends(B, 1)),
            Txn(3, 4, 5, OK, reads(A)),
        ],
        "G-single-realtime (stale read): T3 read /list-1 without 1 of T1; T3 was called after T1 had returned. Promised is "
        "strict-serializable; the strongest level that allows it is strong-session-serializable",
    ),
    "an aborted read": (
        [Txn(1, 0, 1, FAILED, appends(A, 1)), Txn(2, 2, 3, OK, reads(A, 1)), Txn(3, 4, 5, OK, reads(A, 1))],
        "T2 read /list-1, in which 1 of T1 is, which was rolled back (G1a, an aborted read)",
    ),
    "an intermediate read": (
        [Txn(1, 0, 5, OK, appends(A, 1, 2)), Txn(2, 0, 5, OK, reads(A, 1))],
        "T2 read /list-1, which shows 1 of T1, but not its 2 (G1b, an intermediate read)",
    ),
    "an element that nobody appended": (
        [Txn(1, 0, 1, OK, reads(A, 7))],
        "T1 read /list-1, in which 7 is, which nobody appended",
    ),
    "an element twice": (
        [Txn(1, 0, 1, UNKNOWN, appends(A, 1)), Txn(2, 2, 3, OK, reads(A, 1, 1))],
        "T2 read /list-1, in which 1 of T1 is twice",
    ),
    "an element too early": (
        [Txn(1, 0, 1, OK, reads(A, 1) + appends(A, 1))],
        "T1 read /list-1, in which 1 is, which it appended only later",
    ),
    "elements of one transaction in another order": (
        [Txn(1, 0, 1, OK, appends(A, 1, 2)), Txn(2, 2, 3, OK, reads(A, 2, 1))],
        "T2 read /list-1, in which 2 of T1 is not after its 1, which it appended before",
    ),
    "an own append that is not there": (
        [Txn(1, 0, 1, OK, appends(A, 1) + reads(A))],
        "T1 read /list-1, which does not end with 1, what it had appended before",
    ),
    "a lost append": (
        [
            Txn(1, 0, 1, OK, appends(A, 1)),
            Txn(2, 0, 1, OK, appends(A, 2)),
            Txn(3, 0, 4, OK, reads(A, 1)),
            Txn(4, 5, 6, OK, reads(A, 2)),
        ],
        "/list-1: element 1 is 2 for T4 and 1 for T3: an append was lost, or two came in different orders",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ANOMALIES)
def test_an_anomaly_is_told_in_words(what: str) -> None:
    txns, words = ANOMALIES[what]
    words = re.sub(r"T(\d)", r"client \1, seq \1", words)
    assert [found.words for found in judged(txns, "strict-serializable").findings.listed][:1] == [words]


@pytest.mark.parametrize("what", ANOMALIES)
def test_the_levels_that_are_told_to_allow_an_anomaly_allow_it(what: str) -> None:
    txns, words = ANOMALIES[what]
    for level in LEVELS:
        strongest = LEVELS.get(words.partition("allows it is ")[2])
        allowed = strongest is not None and strongest.implies(LEVELS[level])
        assert (judged(txns, level).judgement() is Judgement.PASS) == allowed, level
        assert is_allowed(txns, LEVELS[level]) == allowed, level


def test_two_levels_that_allow_an_anomaly_are_both_told() -> None:
    anomaly = Anomaly("G2-realtime", Level(Strength.SERIALIZABLE, Order.REAL_TIME))
    assert anomaly.allowed_by == ["strong-session-serializable", "strong-snapshot-isolation"]


@pytest.mark.parametrize("what", ANOMALIES)
def test_what_is_told_is_cited_call_and_answer(what: str) -> None:
    txns, words = ANOMALIES[what]
    (found, *_) = judged(txns, "strict-serializable").findings.listed
    named = {int(number) for number in re.findall(r"(?:T|seq )(\d)", words)}
    assert sorted((it.event["seq"], it.event["type"]) for it in found.evidence) == [
        (seq, kind) for seq in sorted(named) for kind in ("complete", "invoke")
    ]


@pytest.mark.parametrize(
    ("name", "anti"),
    [("G0", {0}), ("G1c", {0}), ("G-single", {1}), ("P4", {1, 2}), ("G-nonadjacent", {2}), ("G2", {2, 3})],
)
def test_the_dependencies_of_an_anomaly_are_a_cycle_with_the_edges_of_its_name(name: str, anti: set[int]) -> None:
    found = [judged(txns, "strict-serializable").findings.listed[0] for txns, _ in ANOMALIES.values()]
    named = [one for one in found if one.words.startswith(name)]
    assert named
    for one in named:
        cycle = one.dependencies
        assert [it.after for it in cycle] == [it.before for it in (*cycle[1:], cycle[0])]
        kinds = [it.kind for it in cycle]
        assert kinds.count("rw") in anti
        assert [kind in kinds for kind in ("real-time", "session")] == [
            f"-{kind} " in one.words.partition("(")[0] for kind in ("realtime", "session")
        ]
        assert "; ".join(it.words for it in cycle) in one.words


def test_transactions_that_only_lie_between_in_time_are_not_cited() -> None:
    txns, _ = ANOMALIES["steps in time are told as one"]
    (found,) = judged(txns, "strict-serializable").findings.listed
    assert [it.event["seq"] for it in found.evidence] == [3, 3, 1, 1]


def test_cycles_without_a_common_transaction_are_told_apart() -> None:
    skew = [
        Txn(2 * at + number, 10 * at, 10 * at + 9, OK, txn.steps)
        for at in range(3)
        for number, txn in enumerate(ANOMALIES["G2"][0])
    ]
    apart = [
        Txn(
            txn.session,
            txn.begin,
            txn.end,
            OK,
            tuple((op, f"{path}.{number // 2}", what) for op, path, what in txn.steps),
        )
        for number, txn in enumerate(skew)
    ]
    assert len(judged(apart, "strict-serializable").findings.listed) == 3


@pytest.mark.slow
def test_the_time_grows_with_the_length_of_the_history() -> None:
    short, long = (_executed(count) for count in (400, 800))
    grown = {name: (short[name], lines) for name, lines in long.items() if lines > 2.5 * short[name] + 100}
    assert not grown


def _executed(count: int) -> dict[str, int]:
    txns = [
        Txn(
            number % 5, 10 * number, 10 * number + 9, OK,
            appends(f"/list-{number // 20}", number) + reads(f"/list-{number // 20}", *range(number // 20 * 20, number + 1)),
        )
        for number in range(count)
    ]  # fmt: skip
    return lines_executed(lambda: judged(txns, "strict-serializable"))


def test_a_level_that_does_not_exist_is_unknown() -> None:
    checker = judged(ANOMALIES["G2"][0], "linearizable")
    assert checker.judgement() is Judgement.UNKNOWN
    assert "'linearizable' is none of strict-serializable, " in checker.unknown[0]


def lines(seq: int, begin: float, end: float, *steps: Line, lists: list[list[int]], client: int = 0) -> list[Line]:
    """Return the lines of a committed transaction. Times are in seconds."""
    name = {"client": client or seq, "seq": 1, "node": 1}
    t, op = int(begin * SECOND), "list-append" if any(step["op"] == "append" for step in steps) else "list-read"
    asked = {"type": "invoke", "t": t, "due": t, "op": op, "path": A, "steps": list(steps), **name}
    return [asked, {"type": "complete", "t": int(end * SECOND), "outcome": "ok", "lists": lists, **name}]


def appending(element: int) -> Line:
    return {"op": "append", "path": A, "value": element}


READING: Line = {"op": "read", "path": A}


def verdicts(verdict: Verdict) -> tuple[Judgement, Judgement]:
    found = {it.name: it.verdict for it in verdict.properties}
    assert found["linearizable keys"] is Judgement.NOT_APPLICABLE
    return found["isolation"], found["durability"]


def test_a_run_with_lists_alone_is_judged(tmp_path: Path) -> None:
    verdict = run_of(
        tmp_path,
        lines(1, 1, 2, appending(1), READING, lists=[[1]]),
        lines(2, 3, 4, READING, lists=[[1]]),
        lines(3, 11, 12, READING, lists=[[1]], client=FINAL_CLIENTS + 1),
    )
    assert verdicts(verdict) == (Judgement.PASS, Judgement.PASS)


@pytest.mark.parametrize(
    ("level", "expected"), [("strict-serializable", Judgement.VIOLATION), ("serializable", Judgement.PASS)]
)
def test_an_append_that_the_last_read_does_not_show_is_lost_at_each_level(
    tmp_path: Path, level: str, expected: Judgement
) -> None:
    verdict = run_of(
        tmp_path,
        lines(1, 1, 2, appending(1), lists=[]),
        lines(2, 1, 2, appending(2), lists=[]),
        lines(3, 20, 21, READING, lists=[[2]], client=FINAL_CLIENTS + 1),
        isolation=level,
    )
    assert verdicts(verdict) == (expected, Judgement.VIOLATION)
    (words,) = [found.words for it in verdict.properties if it.name == "durability" for found in it.violations]
    assert words == (
        "/list-1: the append of 1 of client 1, seq 1 was acknowledged, but the later read of client 1000001, seq 1 does not "
        "show it"
    )


def test_appends_that_no_node_shows_in_the_end_are_unknown(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, lines(1, 1, 2, appending(1), lists=[]), milestones=("safety-ended",))
    assert verdicts(verdict) == (Judgement.PASS, Judgement.UNKNOWN)


def test_a_session_also_ends_at_an_unknown_outcome_of_another_operation(tmp_path: Path) -> None:
    """Else the second transaction, of the same client, would have to see what the first one appended."""
    first, second = lines(1, 1, 2, appending(1), lists=[]), lines(1, 5, 6, READING, lists=[[]])
    between = operation(1, "set", 3, 4, 7, outcome="unknown")
    for seq, pair in enumerate((first, between, second), 1):
        for line in pair:
            line["seq"] = seq
    level = {"isolation": "strong-session-serializable"}
    found = [
        run_of(tmp_path, *history, **level).property("isolation").verdict
        for history in ([first, second], [first, between, second])
    ]
    assert found == [Judgement.VIOLATION, Judgement.PASS]


def test_without_transactions_on_lists_it_is_not_applicable(tmp_path: Path) -> None:
    found = run_of(tmp_path, operation(1, "set", 0, 1, 7), operation(2, "get", 2, 3, 7)).property("isolation")
    assert (found.verdict, found.why) == (Judgement.NOT_APPLICABLE, "the clients asked for no transactions on lists")


def test_an_answer_without_a_list_for_each_read_is_damage(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, lines(1, 1, 2, READING, READING, lists=[[]]))
    assert any("has 1 values for 2 reads of a transaction" in reason for reason in verdict.reasons), verdict.reasons
