"""The judgement of a run of which only the clients' history is known."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.model.events import FINAL_CLIENTS
from zab_chaos.model.oracle import linearization
from zab_chaos.model.oracle.evidence import LISTED
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.oracle.properties import history, judged_by
from zab_chaos.model.oracle.transactions import unexplained_together
from zab_chaos.model.verdict import Judgement, Verdict

SECOND = 1_000_000_000
Line = dict[str, Any]


def operation(seq: int, op: str, begin: float, end: float | None, value: int | None = None, **told: Any) -> list[Line]:
    """Return the lines of one operation at node 1. Each operation has its own client (`seq`). Times are in seconds."""
    asked = {"value": value} if op == "set" else {}
    base = {"client": seq, "seq": 1, "node": 1}
    lines = [
        {
            "type": "invoke",
            "t": int(begin * SECOND),
            "due": int(begin * SECOND),
            "op": op,
            "path": "/a",
            **base,
            **asked,
        }
    ]
    if end is not None:
        answer = {"outcome": "ok", **({"value": value} if op == "get" else {}), **told}
        lines.append({"type": "complete", "t": int(end * SECOND), **base, **answer})
    return lines


def run_of(
    folder: Path,
    *operations: list[Line],
    milestones: tuple[str, ...] = ("safety-ended", "converged"),
    faults: Sequence[tuple[str, float, Line]] = (),
    ends: Sequence[tuple[float, Line]] = (),
    observers: int = 0,
    **expect: float,
) -> Verdict:
    """Judge a run. `faults`: the lines of a fault, each with its type and its time in seconds. `ends`: when the process of
    node 2 ended by itself, and what else the harness says of it. `observers`: so many nodes besides the three."""
    expected = {"min_acked": 1, "progress_within": 5, **expect}
    facts = {"nodes": 3 + observers, "outcome": "finished", "expect": expected, "evidence": "history"}
    facts |= {"observers": observers} if observers else {}
    folder.joinpath("run.json").write_text(json.dumps(facts))
    lines = sorted((line for one in operations for line in one), key=lambda line: line["t"])
    folder.joinpath("ops.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    at = 1 + max(line["t"] for line in lines)
    told = [{"t": at, "event": name} for name in ("workload-stopped", *milestones)]
    ended: Line = {"event": "ended", "node": 2, "life": 1, "code": 3, "armed": False}
    told = [{"t": int(second * SECOND), **ended, **more} for second, more in ends] + told
    folder.joinpath("harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    lines = [{"type": kind, "t": int(at * SECOND), "id": 1, "confirmed": True, **of} for kind, at, of in faults]
    folder.joinpath("faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return judge(folder, stored=False)


def test_a_good_history_passes_and_the_verdict_names_what_was_not_judged(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), operation(2, "get", 2, 3, 7))
    assert (verdict.exit, verdict.reasons) == (0, [])
    for item in verdict.properties:
        judged = item.name in judged_by("history")
        assert (item.verdict is Judgement.NOT_APPLICABLE) == (
            not judged or item.name in ("isolation", "fault took effect", "expected state")
        ), item.name
        assert judged or item.why == "it is judged from the nodes' own traces, and this system leaves none"


def test_only_the_violations_that_are_listed_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds to find the fewest answers of a key that contradict each other."""
    explained: list[str] = []

    def explain(calls: dict[str, list[Any]], limit: int | None = None) -> Any:
        explained.extend(calls)
        return unexplained_together(calls, limit)

    monkeypatch.setattr(history, "unexplained_together", explain)
    lines = []
    for key in range(LISTED + 3):
        begin = 4 * key
        written, read = (
            operation(2 * key + 1, "set", begin, begin + 1, 7),
            operation(2 * key + 2, "get", begin + 2, begin + 3, 8),
        )
        lines += [
            [line | {"path": f"/{key}"} if line["type"] == "invoke" else line for line in one]
            for one in (written, read)
        ]
    item = run_of(tmp_path, *lines).property("linearizable keys")
    assert (len(item.violations), item.more) == (LISTED, 3)
    assert len(explained) == LISTED


def test_a_history_does_not_count_the_unknown_writes_that_took_effect(tmp_path: Path) -> None:
    """A read may show one, but another one may have been overwritten before it was read."""
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7, outcome="unknown"), operation(2, "get", 2, 3, 7))
    assert verdict.metrics["writes_unknown"] == 1
    assert verdict.metrics["unknown_with_effect"] is None


@pytest.mark.parametrize("writer", [1, FINAL_CLIENTS, FINAL_CLIENTS + 1])
def test_what_the_harness_writes_at_the_end_is_not_enough_to_judge(tmp_path: Path, writer: int) -> None:
    verdict = run_of(tmp_path, operation(writer, "set", 0, 1, 7), operation(2, "get", 2, 3, 7))
    few = [] if writer <= FINAL_CLIENTS else ["0 writes were acknowledged; at least 1 is needed to judge"]
    assert verdict.reasons == few
    assert verdict.metrics["writes_acked"] == 1 - len(few)


def test_a_write_that_is_lost_at_the_end_was_not_durable(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), operation(2, "set", 2, 3, 8), operation(3, "get", 4, 5, 7))
    assert verdict.violated == ["linearizable keys", "durability"]
    (violation,) = verdict.property("durability").violations
    assert violation.words == (
        "/a: the write of client 2, seq 1 was acknowledged, but the later read of client 3, seq 1 shows the older write of "
        "client 1, seq 1"
    )
    assert [one.event["client"] for one in violation.evidence] == [1, 2, 2, 3, 3]
    assert "client 3, seq 1 (get)" in verdict.property("linearizable keys").violations[0].words


def test_a_write_that_only_one_of_the_reads_at_the_end_does_not_show_is_not_lost(tmp_path: Path) -> None:
    """A node that was cut off may still answer with an older value for a moment. That is not linearizable."""
    writes = [operation(1, "set", 0, 1, 7), operation(2, "set", 2, 3, 8)]
    verdict = run_of(tmp_path, *writes, operation(3, "get", 4, 5, 7), operation(4, "get", 6, 7, 8))
    assert verdict.violated == ["linearizable keys"]
    words = verdict.property("linearizable keys").violations[0].words
    assert words.endswith(
        "client 3, seq 1 (get) beside those to client 1, seq 1 (set) and client 2, seq 1 (set); "
        "it shows /a as client 1, seq 1 wrote it, which is outdated"
    )


def test_a_created_key_must_not_be_missing_at_the_end(tmp_path: Path) -> None:
    missing = operation(2, "get", 2, 3, outcome="failed", error="no node")
    assert run_of(tmp_path, operation(1, "create", 0, 1), missing).violated == ["linearizable keys", "durability"]


@pytest.mark.parametrize("lost", [True, False])
def test_a_loss_is_also_found_in_a_key_that_the_harness_writes_at_the_end(tmp_path: Path, lost: bool) -> None:
    """The load ends with the write at 3 s. Then the key is read, written by the harness, and read again."""
    load = [operation(1, "set", 0, 1, 7), operation(2, "set", 2, 3, 8)]
    end = [operation(3, "get", 4, 5, 7 if lost else 8), operation(4, "set", 6, 7, 9), operation(5, "get", 8, 9, 9)]
    run_of(tmp_path, *load, *end)
    told = [
        {"t": at, "event": name} for name, at in (("workload-stopped", 3.5), ("safety-ended", 10), ("converged", 10))
    ]
    lines = [json.dumps(line | {"t": int(line["t"] * SECOND)}) + "\n" for line in told]
    (tmp_path / "harness.jsonl").write_text("".join(lines))
    assert ("durability" in judge(tmp_path, stored=False).violated) == lost


@pytest.mark.parametrize(("settled", "read"), [("not-converged", False), ("not-converged", True), ("converged", False)])
def test_without_a_read_after_the_load_of_a_run_that_did_not_converge_durability_is_unknown(
    tmp_path: Path, settled: str, read: bool
) -> None:
    """The read of the load came before the faults, so it says nothing of what is left after them."""
    load = [operation(1, "set", 0, 1, 7), operation(2, "get", 2, 3, 7)]
    end = operation(3, "get", 5, 6, 7) if read else operation(3, "get", 5, 6, outcome="unknown", error="no stream")
    run_of(tmp_path, *load, end)
    told = [
        {"t": at * SECOND, "event": name} for name, at in (("workload-stopped", 4), ("safety-ended", 4), (settled, 7))
    ]
    (tmp_path / "harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    verdict = judge(tmp_path, stored=False)
    unknown = settled == "not-converged" and not read
    assert verdict.property("durability").verdict == (Judgement.UNKNOWN if unknown else Judgement.PASS)
    assert ("durability is unknown: no node told what /a holds in the end" in verdict.reasons) == unknown


def test_a_lost_key_is_reported_once_however_often_it_is_read(tmp_path: Path) -> None:
    """So the number of violations is that of the keys, and not six times as high."""
    reads = [operation(seq, "get", seq, seq + 0.5, outcome="failed", error="no node") for seq in (3, 4, 5)]
    verdict = run_of(tmp_path, operation(1, "set", 0, 0.5, 7), operation(2, "set", 1, 2, 8), *reads)
    durability = verdict.property("durability")
    assert [one.words for one in durability.violations] == [
        "/a: the write of client 2, seq 1 (and 1 before it) was acknowledged, but "
        "the later read of client 5, seq 1 finds no such key"
    ]
    assert (durability.checked, durability.more) == (3, 0)


def test_a_delete_that_was_refused_does_not_explain_that_a_key_is_missing(tmp_path: Path) -> None:
    refused = operation(2, "delete", 2, 3, outcome="failed", error="no leader")
    missing = operation(3, "get", 4, 5, outcome="failed", error="no node")
    verdict = run_of(tmp_path, operation(1, "create", 0, 1), refused, missing)
    assert verdict.violated == ["linearizable keys", "durability"]


def test_a_write_that_was_refused_is_not_lost(tmp_path: Path) -> None:
    refused = operation(2, "set", 2, 3, 8, outcome="failed", error="overloaded")
    assert run_of(tmp_path, operation(1, "set", 0, 1, 7), refused, operation(3, "get", 4, 5, 7)).violated == []


def test_a_value_that_was_written_again_is_not_lost(tmp_path: Path) -> None:
    writes = [operation(seq, "set", 2 * seq, 2 * seq + 1, value) for seq, value in enumerate((7, 8, 7))]
    assert run_of(tmp_path, *writes, operation(3, "get", 6, 7, 7)).violated == []


def test_reading_a_new_value_and_then_the_old_one_is_no_loss_but_not_linearizable(tmp_path: Path) -> None:
    verdict = run_of(
        tmp_path, operation(1, "set", 0, 1, 7), operation(2, "set", 2, 9, 8), operation(3, "get", 3, 4, 8),
        operation(4, "get", 5, 6, 7), operation(5, "get", 10, 11, 8),
    )  # fmt: skip
    assert verdict.violated == ["linearizable keys"]
    words = verdict.property("linearizable keys").violations[0].words
    assert "client 4, seq 1 (get) beside those to client 1, seq 1 (set) and client 3, seq 1 (get)" in words


def test_an_answer_that_a_key_is_missing_cites_no_write(tmp_path: Path) -> None:
    missing = operation(3, "get", 4, 5, outcome="failed", error="no node")
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), operation(2, "get", 2, 3, 7), missing)
    assert verdict.violated == ["linearizable keys", "durability"]
    words = verdict.property("linearizable keys").violations[0].words
    assert words.endswith("client 3, seq 1 (get: no node) beside that to client 1, seq 1 (set); it shows no /a")


def test_a_refusal_for_a_version_that_contradicts_other_answers_is_cited(tmp_path: Path) -> None:
    refused = operation(3, "set", 4, 5, 8, outcome="failed", error="bad version")
    refused[0]["version"] = 1
    writes = [operation(1, "set", 0, 1, 6, version=0), operation(2, "set", 2, 3, 7, version=1)]
    verdict = run_of(tmp_path, *writes, refused, operation(4, "get", 6, 7, 7, version=1))
    (violation,) = verdict.property("linearizable keys").violations
    assert violation.words.startswith(
        "/a: no order of the operations explains the answer to client 3, seq 1 (set on version 1: bad version) "
        "beside those to client 1, seq 1 (set: version 0) and client 2, seq 1 (set: version 1)"
    )
    assert [one.event["client"] for one in violation.evidence] == [1, 1, 2, 2, 3, 3]


def test_the_last_write_is_cited_if_the_count_of_many_contradicts_a_version(tmp_path: Path) -> None:
    writes = [operation(seq, "set", seq, seq + 0.5, seq) for seq in range(1, 21)]
    verdict = run_of(tmp_path, *writes, operation(21, "get", 21, 22, 20, version=10))
    (violation,) = verdict.property("linearizable keys").violations
    assert violation.words == (
        "/a: no order of the operations explains the answer to client 21, seq 1 (get: version 10) beside 11 other answers; "
        "it shows the write of client 20, seq 1 (set)"
    )


def test_a_refused_write_that_is_seen_at_the_end_is_named(tmp_path: Path) -> None:
    refused = operation(2, "set", 2, 3, 8, outcome="failed", error="no leader")
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), refused, operation(3, "get", 4, 5, 8))
    assert verdict.violated == ["linearizable keys", "durability"]
    (violation,) = verdict.property("durability").violations
    assert violation.words.endswith("client 3, seq 1 shows the write of client 2, seq 1, which was refused")
    assert "wrote it, which was refused" in verdict.property("linearizable keys").violations[0].words


@pytest.mark.parametrize(("until", "lost"), [(3, False), (None, False), (1.5, True)])
def test_a_write_that_may_have_been_deleted_is_not_lost(tmp_path: Path, until: float | None, lost: bool) -> None:
    """A delete that ended before the write did not remove it."""
    begin, end = (0, 1.5) if lost else (2.5, until)
    deleted = operation(2, "delete", begin, end)
    refused = operation(3, "set", 4, 5, 8, outcome="failed", error="no leader")
    written = operation(1, "set", 1.6, 2, 7)
    verdict = run_of(tmp_path, written, deleted, refused, operation(4, "get", 6, 7, 8))
    assert verdict.violated == ["linearizable keys", *(["durability"] if lost else [])]


@pytest.mark.parametrize(("blind", "shown"), [(True, None), (True, 7), (False, None)])
def test_a_blind_delete_succeeds_without_a_key_and_leaves_none(tmp_path: Path, blind: bool, shown: int | None) -> None:
    twice = [operation(1, "set", 0, 1, 7), operation(2, "delete", 2, 3), operation(3, "delete", 4, 5)]
    gone = {} if shown else {"outcome": "failed", "error": "no node"}
    verdict = run_of(
        tmp_path, *twice, operation(4, "get", 6, 7, shown, **gone), **({"blind_deletes": True} if blind else {})
    )
    assert verdict.violated == ([] if blind and shown is None else ["linearizable keys"])


def test_a_blind_delete_succeeds_without_a_key_also_if_versions_name_writes(tmp_path: Path) -> None:
    written = [operation(1, "set", 0, 1, 7, version=70), operation(2, "set", 2, 3, 8, version=71)]
    written[1][0]["version"] = 70
    deleted = [operation(seq, "delete", 2 * seq, 2 * seq + 1) for seq in (3, 4)]
    assert run_of(tmp_path, *written, *deleted, opaque_versions=True, blind_deletes=True).violated == []
    assert run_of(tmp_path, *written, *deleted, opaque_versions=True).violated == ["linearizable keys"]


def test_a_blind_delete_on_condition_needs_its_version(tmp_path: Path) -> None:
    delete = operation(2, "delete", 2, 3)
    delete[0]["version"] = 0
    assert run_of(tmp_path, operation(1, "set", 0, 1, 7), delete, blind_deletes=True).violated == []
    again = operation(3, "delete", 4, 5)
    again[0]["version"] = 0
    assert run_of(tmp_path, operation(1, "set", 0, 1, 7), delete, again, blind_deletes=True).violated


def test_no_service_without_a_fault_is_no_progress(tmp_path: Path) -> None:
    late = [operation(3, "set", 2, 8, 9, outcome="unknown", error="no answer")]
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), *late, operation(2, "set", 9, 9.5, 8))
    assert verdict.violated == ["progress"]
    assert "no fault was there" in verdict.property("progress").violations[0].words


def test_writes_of_many_keys_that_nobody_serves_are_no_progress(tmp_path: Path) -> None:
    """No key and no node is asked for long."""
    served = [operation(1, "set", 0, 1, 7), operation(2, "set", 9, 9.5, 8)]
    waits = [gives_up(second, "set", path=f"/{second}", node=1 + second % 3) for second in range(2, 9)]
    verdict = run_of(tmp_path, *served, *waits)
    assert verdict.violated == ["progress"]
    assert verdict.property("progress").violations[0].words.startswith("no write was answered for 7.0 s")
    for kind, violated in (("pause", []), ("wait", ["progress"])):  # to wait breaks nothing
        (tmp_path / kind).mkdir()
        fault = [("inject", 4, {"do": kind, "nodes": [2]}), ("heal", 6, {})]
        assert run_of(tmp_path / kind, *served, *waits, faults=fault).violated == violated


CUT_OFF = {"do": "partition", "nodes": [3], "pairs": [[1, 3], [2, 3], [3, 1], [3, 2]]}
CUT_APART = {"do": "partition", "nodes": [3], "pairs": [[1, 3], [2, 3], [1, 2]]}


@pytest.mark.parametrize(
    ("fault", "nodes", "promised", "violated"),
    [
        ({"do": "crash", "nodes": [3]}, (1, 2, 3), True, ["progress"]),
        ({"do": "pause", "nodes": [3]}, (1, 2, 3), True, ["progress"]),
        ({"do": "remove-member", "nodes": [3]}, (1, 2, 3), True, ["progress"]),
        ({"do": "upgrade", "nodes": [3]}, (1, 2, 3), True, ["progress"]),
        (CUT_OFF, (1, 2, 3), True, ["progress"]),
        (CUT_OFF, (1, 2, 3), False, []),  # perhaps this system needs all nodes
        (CUT_OFF, (3,), True, []),  # only the node that is cut off was asked
        (CUT_APART, (1, 2, 3), True, []),
        ({"do": "crash", "nodes": [2, 3]}, (1,), True, []),
        ({"do": "slow-disk", "nodes": [3]}, (1, 2, 3), True, []),  # a leader that is slow may make all slow
    ],
)  # fmt: skip
def test_a_majority_that_faults_have_left_serves_if_that_is_promised(
    tmp_path: Path, fault: Line, nodes: Sequence[int], promised: bool, violated: list[str]
) -> None:
    served = [operation(1, "set", 0, 1, 7), operation(2, "set", 12, 13, 8)]
    waits = [gives_up(second, "set", path=f"/{second}", node=nodes[second % len(nodes)]) for second in range(2, 11)]
    faults = [("inject", 1.5, fault), ("heal", 11.5, {})]
    verdict = run_of(tmp_path, *served, *waits, faults=faults, serves_with_majority=promised)
    assert verdict.violated == violated
    for found in verdict.property("progress").violations:
        assert "; no fault affected nodes 1 and 2, a majority" in found.words


@pytest.mark.parametrize(
    ("fault", "node", "violated"),
    [
        ({"do": "crash", "nodes": [2, 3]}, 1, []),  # 1 of 3 voters is left, and with it both observers
        ({"do": "crash", "nodes": [3, 4, 5]}, 1, ["progress"]),
        ({"do": "partition", "nodes": [1], "pairs": [[1, 2], [1, 3], [2, 4], [3, 4], [2, 5], [3, 5]]}, 2, ["progress"]),
        ({"do": "crash", "nodes": [3]}, 5, ["progress"]),  # an observer is left with a majority
    ],
)
def test_observers_are_not_needed_for_a_majority_and_do_not_help(
    tmp_path: Path, fault: Line, node: int, violated: list[str]
) -> None:
    served = [operation(1, "set", 0, 1, 7), operation(2, "set", 12, 13, 8)]
    waits = [gives_up(second, "set", path=f"/{second}", node=node) for second in range(2, 11)]
    faults = [("inject", 1.5, fault), ("heal", 11.5, {})]
    verdict = run_of(tmp_path, *served, *waits, faults=faults, observers=2, serves_with_majority=True)
    assert verdict.violated == violated


def test_without_a_fault_the_observers_are_among_those_that_are_left(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, *WELL, *(gives_up(second, "set", path="/b") for second in range(2, 9)), observers=2)
    assert verdict.violated == ["progress"]


def test_the_time_for_a_majority_starts_anew_with_each_fault(tmp_path: Path) -> None:
    served = [operation(1, "set", 0, 1, 7), operation(2, "set", 12, 13, 8)]
    waits = [gives_up(second, "set", path=f"/{second}") for second in range(2, 11)]
    first, second = {"do": "crash", "nodes": [2]}, {"do": "crash", "nodes": [3]}
    faults = [("inject", 1.5, first), ("heal", 6, {}), ("inject", 6.5, {**second, "id": 2}), ("heal", 11.4, {"id": 2})]
    assert run_of(tmp_path, *served, *waits, faults=faults, serves_with_majority=True).violated == []


def test_a_refusal_of_the_content_of_a_write_is_progress(tmp_path: Path) -> None:
    late = operation(3, "set", 2, 8, 9, outcome="unknown", error="no answer")
    refused = operation(4, "set", 4, 5, 10, outcome="failed", error="too large")
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), late, refused, operation(2, "set", 9, 9.5, 8))
    assert verdict.violated == []


WELL = [
    line
    for second in range(1, 12)
    for line in (
        operation(second, "set", second, second + 0.1, second),
        operation(20 + second, "get", second + 0.2, second + 0.3, second),
    )
]  # writes and reads of /a at node 1 that are served, one of each in every second


def on(lines: list[Line], **of: Any) -> list[Line]:
    """Return the lines of an operation with another path or node."""
    return [line | {name: value for name, value in of.items() if name in line} for line in lines]


def gives_up(second: int, op: str, **of: Any) -> list[Line]:
    """Return the lines of an operation that its client gives up after a second."""
    return on(operation(100 + second, op, second, second + 1, 7, outcome="unknown", error="no answer"), **of)


def test_a_key_whose_writes_are_not_served_is_no_progress(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, *WELL, *(gives_up(second, "set", path="/b") for second in range(2, 9)))
    assert verdict.violated == ["progress"]
    (violation,) = verdict.property("progress").violations
    assert violation.words.startswith("key /b: none of its writes was answered for 7.0 s, though some waited")
    assert violation.words.endswith("no fault was there")


def test_a_key_whose_reads_are_not_served_is_no_progress(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, *WELL, *(gives_up(second, "get", path="/b") for second in range(2, 9)))
    (violation,) = verdict.property("progress").violations
    assert violation.words.startswith("key /b: none of its reads was answered for 7.0 s")


def test_a_node_that_serves_no_reads_is_no_progress(tmp_path: Path) -> None:
    """It has as long as the nodes have to converge: it may have to catch up before it can serve."""
    waits = [gives_up(second, "get", path=f"/{second}", node=2) for second in range(2, 9)]
    (violation,) = run_of(tmp_path, *WELL, *waits).property("progress").violations
    assert violation.words.startswith("node 2: none of its reads was answered for 7.0 s")
    assert run_of(tmp_path, *WELL, *waits, converges_within=8).violated == []


@pytest.mark.parametrize(("op", "more", "kind"), [("exists", {}, "exists"), ("set", {"version": 3}, "cas")])
def test_a_kind_of_operation_that_nobody_serves_is_no_progress(tmp_path: Path, op: str, more: Line, kind: str) -> None:
    waits = [gives_up(second, op, path=f"/{second}", node=1 + second % 3) for second in range(2, 9)]
    for invoke, _ in waits:
        invoke |= more
    (violation,) = run_of(tmp_path, *WELL, *waits).property("progress").violations
    assert violation.words.startswith(f"no {kind} was answered for 7.0 s, though some waited")
    answered = (
        operation(200, "set", 5, 5.1, outcome="failed", error="bad version") if more else operation(200, op, 5, 5.1)
    )
    answered[0] |= more | {"path": "/9"}
    assert "progress" not in run_of(tmp_path, *WELL, *waits, answered).violated


def test_a_node_that_ended_by_itself_and_stays_away_is_no_progress(tmp_path: Path) -> None:
    """Nobody needs to ask it for anything. A fault of its links does not start it again."""
    cut = {"do": "partition", "nodes": [2], "pairs": [[1, 2], [2, 1], [2, 3], [3, 2]]}
    faults = [("inject", 1, cut), ("heal", 2, {})]
    verdict = run_of(tmp_path, *WELL, faults=faults, ends=[(1.5, {})])
    assert verdict.violated == ["progress"]
    (violation,) = verdict.property("progress").violations
    assert violation.words.startswith(
        "node 2 ended by itself, with exit code 3, and was gone for 9.3 s without a fault"
    )
    assert [line.event["event"] for line in violation.evidence] == ["ended"]
    assert run_of(tmp_path, *WELL, faults=faults, ends=[(1.5, {})], converges_within=11).violated == []


@pytest.mark.parametrize(
    ("more", "do", "shown"),
    [
        ({}, "partition", [{"node": 2, "code": 3}]),
        ({}, "disk-error", []),
        ({"armed": True}, "partition", []),
        ({"code": 65}, "partition", []),
    ],
)
def test_a_process_that_ended_by_itself_is_in_the_metrics(
    tmp_path: Path, more: Line, do: str, shown: list[Line]
) -> None:
    """It comes back with the next fault that starts its node, and nothing else would tell of it."""
    faults = [
        ("inject", 1, {"do": do, "target": "node-2", "nodes": [2], "evidence": {}}),
        ("heal", 3, {"evidence": {}}),
    ]
    verdict = run_of(
        tmp_path, operation(1, "set", 0, 1, 7), operation(2, "get", 4, 5, 7), faults=faults, ends=[(2, more)]
    )
    assert verdict.metrics["ended"] == shown


def test_nodes_that_do_not_come_back_have_an_exit_code(tmp_path: Path) -> None:
    ends = [(5, {}), (20, {"life": 2}), (21, {"life": 3, "code": 7})]
    verdict = run_of(tmp_path, *WELL, milestones=("safety-ended", "not-converged"), ends=ends)
    (violation,) = verdict.property("recovery").violations
    assert violation.words.endswith("after everything was healed; node 2 ended by itself, with exit code 7")
    assert [line.event["event"] for line in violation.evidence] == ["safety-ended", "ended", "not-converged"]


def test_a_node_that_ended_at_a_crash_point_or_with_a_fault_is_not_gone_by_itself(tmp_path: Path) -> None:
    assert run_of(tmp_path, *WELL, ends=[(1.5, {"armed": True})]).violated == []
    back = on(operation(200, "get", 6, 6.1, 5), node=2)
    assert run_of(tmp_path, *WELL, back, ends=[(1.5, {})]).violated == []
    stopped = [("inject", 5, {"do": "disk-full", "nodes": [2]}), ("heal", 7, {})]
    assert run_of(tmp_path, *WELL, faults=stopped, ends=[(1.5, {}), (5.5, {"life": 2})]).violated == []
    damaged = [("inject", 1, {"do": "corrupt", "nodes": [2]}), ("heal", 1.2, {})]
    for code, violated in ((65, []), (3, ["progress"])):
        assert run_of(tmp_path, *WELL, faults=damaged, ends=[(1.5, {"code": code})]).violated == violated


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_node_that_a_fault_may_still_keep_down_need_not_serve(tmp_path: Path, confirmed: bool) -> None:
    waits = [gives_up(second, "get", path=f"/{second}", node=2) for second in range(2, 9)]
    fault = [("inject", 1, {"do": "corrupt", "nodes": [2]}), ("heal", 1.5, {"confirmed": confirmed})]
    assert run_of(tmp_path, *WELL, *waits, faults=fault).violated == (["progress"] if confirmed else [])


def test_no_part_of_the_service_has_to_be_there_while_a_fault_is(tmp_path: Path) -> None:
    waits = [gives_up(second, "set", path="/b") for second in range(2, 9)]
    fault = [("inject", 4, {"do": "pause", "nodes": [2]}), ("heal", 6, {})]
    assert run_of(tmp_path, *WELL, *waits, faults=fault).violated == []


@pytest.mark.parametrize("told", [{"outcome": "ok"}, {"outcome": "failed", "error": "node exists"}])
def test_one_answer_in_time_is_progress_of_a_key(tmp_path: Path, told: Line) -> None:
    answered = on(operation(200, "create", 5, 5.1, 9, **told), path="/b")
    answered[0]["value"] = 9
    waits = [gives_up(second, "set", path="/b") for second in range(2, 9)]
    assert "progress" not in run_of(tmp_path, *WELL, *waits, answered).violated


def test_writes_that_all_nodes_but_the_leader_refuse_are_progress(tmp_path: Path) -> None:
    refused = [
        on(operation(100 + at, "set", at, at + 0.1, 7, outcome="failed", error="no leader"), node=2)
        for at in range(2, 9)
    ]
    assert run_of(tmp_path, *WELL, *refused).violated == []


def test_rare_requests_do_not_wait_together(tmp_path: Path) -> None:
    assert run_of(tmp_path, *WELL, *(gives_up(second, "set", path="/b") for second in (2, 5, 8))).violated == []


@pytest.mark.parametrize("op", ["multi", "children"])
def test_operations_of_several_keys_are_unknown(tmp_path: Path, op: str) -> None:
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), operation(2, op, 2, 3))
    assert verdict.property("linearizable keys").verdict is Judgement.UNKNOWN
    assert f"{op}: operations of several keys can't be judged key by key" in verdict.reasons


def test_a_key_that_a_multi_writes_is_not_judged(tmp_path: Path) -> None:
    multi = operation(2, "multi", 2, 3)
    multi[0]["steps"] = [{"op": "set", "path": "/a", "value": 8}]
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), multi, operation(3, "get", 4, 5, 8))
    assert verdict.violated == []


def test_a_sequential_create_is_judged_under_its_numbered_name(tmp_path: Path) -> None:
    made = [operation(seq, "create", seq, seq + 0.5, path=f"/a{seq:010}") for seq in (1, 2)]
    made += [operation(3, "create", 3, 3.5, outcome="unknown", error="no answer")]
    for invoke in (one[0] for one in made):
        invoke |= {"value": 7, "sequential": True}
    verdict = run_of(tmp_path, *made)
    assert (verdict.exit, verdict.reasons) == (0, [])
    made.append([line | {"client": 4, "t": line["t"] + 3 * SECOND} for line in made[1]])
    assert run_of(tmp_path, *made).violated == ["linearizable keys"]


def test_an_outdated_answer_is_found_in_a_key_with_too_many_possibilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linearization, "MAX_CONFIGURATIONS", 3)
    late = [operation(number, "set", 1, None, number) for number in (3, 4, 5)]
    writes = [operation(1, "set", 0, 2, 7), operation(2, "set", 0, 2, 7), *late, operation(6, "set", 3, 4, 8)]
    verdict = run_of(tmp_path, *writes, operation(7, "get", 5, 6, 7), operation(8, "get", 7, 8, 8))
    assert verdict.violated == ["linearizable keys"]
    assert "client 7, seq 1 (get)" in verdict.property("linearizable keys").violations[0].words


def test_a_key_with_too_many_possibilities_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearization, "MAX_CONFIGURATIONS", 3)
    late = [operation(number, "set", 1, None, number) for number in (3, 4, 5)]
    verdict = run_of(tmp_path, operation(1, "set", 0, 2, 7), operation(2, "set", 0, 2, 7), *late)
    assert verdict.property("linearizable keys").verdict is Judgement.UNKNOWN
    assert (
        "linearizable keys: /a was given up: more than 3 possibilities for each thousand operations" in verdict.reasons
    )
    other = [line | {"path": "/b"} for line in operation(6, "get", 3, 4, 9)]
    verdict = run_of(tmp_path, operation(1, "set", 0, 2, 7), operation(2, "set", 0, 2, 7), *late, other)
    assert verdict.violated == ["linearizable keys"]


@pytest.mark.parametrize(
    ("code", "faults", "judged"),
    [
        (65, {2: "corrupt"}, Judgement.UNKNOWN),
        (1, {2: "corrupt"}, Judgement.VIOLATION),
        (65, {2: "pause"}, Judgement.VIOLATION),
        (65, {2: "corrupt", 3: "wipe"}, Judgement.VIOLATION),
        (65, {2: "corrupt", 4.5: "corrupt"}, Judgement.VIOLATION),
    ],
    ids=["refuses", "ends-otherwise", "not-damaged", "has-another-disk", "does-not-refuse-the-next"],
)
def test_a_node_that_stays_down_with_damaged_files_is_no_failure_to_recover(
    tmp_path: Path, code: int, faults: dict[float, str], judged: Judgement
) -> None:
    lines = [
        ("inject", at, {"do": do, "nodes": [2], "id": number}) for number, (at, do) in enumerate(faults.items(), 1)
    ]
    run_of(tmp_path, operation(1, "set", 0, 1, 7), faults=lines)
    told = [
        {"event": "workload-stopped", "t": 2},
        {"event": "ended", "node": 2, "life": 2, "code": code, "armed": False, "t": 4},
        {"event": "safety-ended", "t": 5},
        {"event": "not-converged", "t": 9},
    ]
    written = [json.dumps(line | {"t": int(line["t"] * SECOND)}) + "\n" for line in told]  # type: ignore[call-overload]
    tmp_path.joinpath("harness.jsonl").write_text("".join(written))
    verdict = judge(tmp_path, stored=False)
    assert verdict.property("recovery").verdict is judged
    refused = any("node 2 refuses its disk, which fault 1 (corrupt) has damaged" in it for it in verdict.reasons)
    assert refused is (judged is Judgement.UNKNOWN)


def test_a_run_that_did_not_converge_has_not_recovered(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, operation(1, "set", 0, 1, 7), milestones=("safety-ended", "not-converged"))
    assert verdict.violated == ["recovery"]
