import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from zab_chaos.harness.report import summary, terminal
from zab_chaos.harness.report.html.operations import read_operations
from zab_chaos.harness.report.html.run_data import read_run_data
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.results.fault_spans import read_spans
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model.verdict import Outcome, Verdict

SECOND = 10**9


def write_lines(run: RunFolder, name: str, lines: list[dict[str, Any]]) -> None:
    run.file(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def write(client: int, seq: int, due: float, done: float, outcome: str = "ok", op: str = "set") -> list[dict[str, Any]]:
    """Return the lines of a write that is sent halfway between its due time and its answer."""
    key = {"client": client, "seq": seq, "node": 1}
    return [
        {
            "type": "invoke",
            "t": int((due + done) / 2 * SECOND),
            "due": int(due * SECOND),
            "op": op,
            "path": "/a",
            **key,
        },
        {"type": "complete", "t": int(done * SECOND), "outcome": outcome, **key},
    ]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run whose workload begins at 10 s. The leader is crashed at 12 s; a link is cut from 13 s to 14.5 s."""
    run = run_folder.create(tmp_path, "leader-crash", 7)
    run.write_run({"scenario": "leader-crash", "seed": 7, "command": "zab run leader-crash --seed 7", "expect": {}})
    write_lines(
        run,
        "harness.jsonl",
        [{"t": 9 * SECOND, "event": "established"}, {"t": 10 * SECOND, "event": "workload-started"}],
    )
    crash = {"do": "crash", "target": "leader", "nodes": [2], "params": {}, "confirmed": True, "evidence": {}}
    cut = {"do": "partition", "target": "node-1", "nodes": [1], "params": {}, "confirmed": True, "evidence": {}}
    write_lines(
        run,
        "faults.jsonl",
        [
            {"type": "inject", "t": 12 * SECOND, "id": 1, **crash},
            {"type": "inject", "t": 13 * SECOND, "id": 2, **cut},
            {"type": "heal", "t": int(14.5 * SECOND), "id": 2, "confirmed": False, "evidence": {}},
        ],
    )
    ops = (
        write(1, 4, 11.9, 11.95)
        + write(1, 1, 11.9, 12.9)
        + write(1, 2, 12.1, 12.8, "unknown")
        + write(2, 1, 12.2, 12.75)
    )
    ops += write(2, 2, 12.3, 12.7, op="get") + write(2, 3, 12.25, 12.74)
    ops += write(2, 4, 13.1, 14.2, "unknown")
    write_lines(run, "ops.jsonl", ops)
    return run


def judge(run: RunFolder, **changes: Any) -> None:
    item = {"name": "total order", "source": "DSN", "verdict": "PASS", "statement": "a before b", "checked": 1200}
    verdict = {"verdict": "PASS", "exit": 0, "properties": [item | {"violations": []}], "reasons": [], "metrics": {}}
    run.file("verdict.json").write_text(json.dumps(verdict | changes))


def broken(name: str, count: int) -> dict[str, Any]:
    """Return a violated property with `count` violations, each with the same line of evidence."""
    line = {"event": "role", "t": 12 * SECOND, "node": 1, "life": 1, "role": "LOOKING"}
    cited = [{"file": "trace/node-1-1.jsonl", "line": 9, "event": line}]
    found = [{"words": f"node 1 lost [1, {i}]", "evidence": cited} for i in range(count)]
    known = {"source": "DSN", "verdict": "VIOLATION", "statement": "it stays", "checked": 5}
    return {"name": name, "violations": found, **known}


def shown(run: RunFolder, width: int = 80) -> str:
    out = io.StringIO()
    terminal.show(run, Console(file=out, width=width))
    return out.getvalue()


def test_the_pause_is_the_longest_between_two_successful_writes_around_the_fault(run: RunFolder) -> None:
    crash, cut = read_operations(Source(run.path)).pauses_of_writes([12 * SECOND, 13 * SECOND])
    # successes at 11.95, 12.74, 12.75 and 12.9 s: the pause began before the crash at 12 s; the unknown write and the
    # read do not count
    assert crash == pytest.approx(0.79)
    assert cut is None  # nothing succeeded any more


def test_a_fault_lasts_until_it_is_healed_and_took_effect_if_both_are_confirmed(run: RunFolder) -> None:
    crash, cut = read_spans(Source(run.path))
    assert crash.seconds(10 * SECOND) == (2.0, None)
    assert crash.confirmed
    assert cut.seconds(10 * SECOND) == (3.0, 1.5)
    assert not cut.confirmed  # the healing could not be confirmed
    assert summary.describe_faults(run) == [
        "    2.000 s  crash of leader = 2",
        "    3.000 s  partition of node-1, for 1.500 s  NOT CONFIRMED",
    ]


def test_a_healing_that_is_confirmed_does_not_confirm_the_injection(run: RunFolder) -> None:
    inject = {"type": "inject", "t": 12 * SECOND, "id": 1, "do": "crash", "nodes": [2], "confirmed": False}
    heal = {"type": "heal", "t": 13 * SECOND, "id": 1, "confirmed": True, "evidence": {}}
    write_lines(run, "faults.jsonl", [inject, heal])
    assert [span.effect for span in read_spans(Source(run.path))] == ["NOT CONFIRMED"]


@pytest.mark.parametrize("listed", [True, False])
def test_a_fault_that_the_verdict_doubts_did_not_take_effect(run: RunFolder, listed: bool) -> None:
    """The processes confirmed the crash, and the judge found in the traces that they did not die. It lists only some faults."""
    inject = {"type": "inject", "t": 12 * SECOND, "id": 1 if listed else 2, "do": "crash"}
    cited = {"file": "faults.jsonl", "line": 1, "event": inject}
    doubted = broken("fault took effect", 1) | {"more": 0 if listed else 3, "verdict": "UNKNOWN"}
    doubted["violations"][0]["evidence"] = [cited]
    judge(run, verdict="UNKNOWN", properties=[doubted])
    assert any("crash" in line and "NOT CONFIRMED" in line for line in shown(run).splitlines())
    assert "crash of leader = 2  NOT CONFIRMED" in summary.full_text(run, run.read_verdict(), None)
    assert [span.confirmed for span in read_run_data(run.path).spans] == [False, False]


def test_time_without_requests_is_not_a_pause(run: RunFolder) -> None:
    """Writes come a minute apart and take 10 ms each: one crash between them, one after the last."""
    write_lines(run, "ops.jsonl", write(1, 1, 11, 11.01) + write(1, 2, 71, 71.01) + write(1, 3, 131, 131.01))
    first, last = read_operations(Source(run.path)).pauses_of_writes([40 * SECOND, 140 * SECOND])
    assert first == pytest.approx(0.01)
    assert last == 0


def test_a_pause_that_begins_after_the_next_fault_is_that_one_s(run: RunFolder) -> None:
    """The second pause begins between two faults and ends after the later one: it is a pause after both."""
    write_lines(run, "ops.jsonl", write(1, 1, 11, 11.01) + write(1, 2, 50, 53) + write(1, 3, 61, 64))
    first, second, third = read_operations(Source(run.path)).pauses_of_writes([40 * SECOND, 45 * SECOND, 62 * SECOND])
    assert first == 0
    assert second == third == pytest.approx(3)


def test_the_last_answers_before_a_crash_do_not_hide_its_pause(run: RunFolder) -> None:
    """A write is answered 3 ms after the crash, then none until after the next fault."""
    write_lines(run, "ops.jsonl", write(1, 1, 39.9, 40.003) + write(1, 2, 40.1, 47) + write(1, 3, 47.1, 47.2))
    crash, cut = read_operations(Source(run.path)).pauses_of_writes([40 * SECOND, 45 * SECOND])
    assert crash == cut == pytest.approx(6.9)


def test_the_beginning_of_the_next_fault_s_pause_is_not_the_pause_of_a_fault(run: RunFolder) -> None:
    """The second pause begins 1 ms before the second fault."""
    write_lines(run, "ops.jsonl", write(1, 1, 39.9, 40.2) + write(1, 2, 44.999, 52))
    first, second = read_operations(Source(run.path)).pauses_of_writes([40 * SECOND, 45 * SECOND])
    assert (first, second) == (pytest.approx(0.3), pytest.approx(7.001))


def test_the_report_ends_with_the_command_that_repeats_the_run(run: RunFolder) -> None:
    judge(run)
    text = shown(run)
    assert text.rstrip().endswith("zab run leader-crash --seed 7")
    assert text.index("PASS  (exit 0)") < text.index(str(run.path)) < text.index("zab run")
    assert f"report   zab report {run.path}" in text


def test_faults_and_properties_are_tables_within_80_columns(run: RunFolder) -> None:
    judge(run)
    lines = shown(run).splitlines()
    assert any("crash" in line and "leader = 2" in line and "790 ms" in line and "yes" in line for line in lines)
    assert any("partition" in line and "1.50" in line and "to the end" in line and "NO" in line for line in lines)
    assert any("total order" in line and "1200" in line and "PASS" in line for line in lines)
    assert all(len(line) <= 80 for line in lines if str(run.path) not in line)


@pytest.mark.parametrize(("reached", "effect"), [((False, False), "not reached"), ((False, True), "yes")])
def test_a_crash_point_that_no_node_came_to_is_shown_as_not_reached(
    run: RunFolder, reached: tuple[bool, bool], effect: str
) -> None:
    """A point that is drawn by a nemesis need not be reached."""
    point = {"point": "after-sync:TXN"}
    armed = {"do": "crash-at", "target": "all", "nodes": [1, 2], "params": point, "confirmed": True, "evidence": {}}
    shown_by = {str(node): {"pid": node, "reached": came} for node, came in enumerate(reached, 1)}
    healed = {"type": "heal", "id": 1, "confirmed": True, "evidence": {**shown_by, "up": True}}
    write_lines(
        run, "faults.jsonl", [{"type": "inject", "t": 12 * SECOND, "id": 1, **armed}, {"t": 13 * SECOND, **healed}]
    )
    judge(run)
    (line,) = [line for line in shown(run).splitlines() if "crash-at" in line]
    assert effect in line


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        (("no records", "no records"), "not judged: promises, disk (no records)"),
        (("no promises", "no syncs"), "not judged: promises, disk (the report says why)"),
    ],
)
def test_only_judged_properties_are_in_the_table(run: RunFolder, reasons: tuple[str, str], line: str) -> None:
    known = {"source": "DSN", "statement": "it stays", "checked": 0, "verdict": "NOT-APPLICABLE"}
    unjudged = [{"name": name, "why": why, **known} for name, why in zip(("promises", "disk"), reasons, strict=True)]
    judged = [known | {"name": "epochs", "verdict": "PASS", "checked": 5}, known | {"name": "watches"}]
    judge(run, properties=[*judged, *unjudged])
    lines = shown(run).splitlines()
    assert {"nothing to check: watches", line} < set(lines)
    assert [one.split()[0] for one in lines if "DSN" in one] == ["epochs"]


def test_the_source_of_a_property_is_dim(run: RunFolder) -> None:
    judge(run)
    out = io.StringIO()
    terminal.show(run, Console(file=out, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[2mDSN" in out.getvalue()


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"shape": "majority-minority", "pairs": None, "direction": "out"}, "shape majority-minority"),
        ({"shape": "one-way", "pairs": None, "direction": "in"}, "shape one-way; direction in"),
        ({"pairs": [[1, 2]], "direction": "both"}, "pairs [[1, 2]]"),
        ({"pairs": None, "direction": "both", "ms": 5}, "direction both; ms 5"),
        ({"keeps_cache": False, "crash-at": None, "enough": "all"}, ""),
        (
            {"keeps_cache": True, "crash-at": "before-sync:TXN", "enough": "one"},
            "keeps_cache True; crash-at before-sync:TXN; enough one",
        ),
        ({"point": "after-sync:TXN", "wipe": False, "enough": "all"}, "point after-sync:TXN; enough all"),
    ],
)
def test_parameters_are_shown_only_where_they_count(run: RunFolder, params: dict[str, Any], shown: str) -> None:
    (crash, *_) = run.lines("faults.jsonl")
    write_lines(run, "faults.jsonl", [crash | {"do": "partition", "params": params}])
    assert [span.detail for span in read_spans(Source(run.path))] == [shown]


def test_a_wait_pauses_no_writes_and_ends_no_pause(run: RunFolder) -> None:
    judge(run)
    faults = list(run.lines("faults.jsonl"))
    wait = faults[0] | {"t": int(12.5 * SECOND), "id": 3, "do": "wait"}
    write_lines(run, "faults.jsonl", [faults[0], wait, *faults[1:]])
    lines = shown(run).splitlines()
    assert any("crash" in line and "790 ms" in line for line in lines)
    assert next(line for line in lines if " wait " in line).rstrip().endswith("yes")


def test_a_violation_is_told_in_words_with_its_evidence(run: RunFolder) -> None:
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("durability", 5) | {"more": 10}])
    text = shown(run)
    assert "durability (DSN) is violated: it stays" in text
    assert "node 1 lost [1, 0]" in text
    assert "trace/node-1-1.jsonl:9  node 1 (life 1) became LOOKING" in text
    assert "{" not in text  # the line itself is in the file, and folded in the page
    assert "  and 2 more (verdict.json)\n  and 10 more, which the verdict does not list\n" in text


def left(node: int, life: int, *runs: list[list[int]], **fields: Any) -> dict[str, Any]:
    held = {"accepted_epoch": 2, "current_epoch": 1, "last_zxid": runs[-1][-1] if runs else [0, 0]}
    return {"t": life, "node": node, "life": life, "n": 1, "event": "left", **held, "log": runs, **fields}


def test_after_a_violation_each_servers_log_is_shown_as_its_last_life_has_left_it(run: RunFolder) -> None:
    """Logs that were not read, as those of nodes that write traces themselves, are not shown."""
    write_lines(run, "trace/node-1-1.jsonl", [left(1, 1, [[1, 1], [1, 9]])])
    write_lines(run, "trace/node-1-2.jsonl", [left(1, 2, [[1, 1], [1, 4]], [[2, 1], [2, 1]], snapshots=[[0, 0]])])
    write_lines(run, "trace/node-2-1.jsonl", [left(2, 1, *[[[at, 1], [at, 2]] for at in range(1, 15)])])
    write_lines(run, "trace/node-3-1.jsonl", [left(3, 1), {"event": "left"}, {"event": "exit"}])
    write_lines(run, "trace/node-4-1.jsonl", [left(4, 1, damage=["log.1 is no transaction log"])])
    judge(run)
    assert "Logs at the end" not in shown(run)
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("durability", 1)])
    lines = [line for line in shown(run).splitlines() if line.startswith("  node ") and "f.p" in line]
    assert lines[0] == "  node 1: 1:1 to 1:4, 2:1; snapshots 0:0; f.p = 2, f.a = 1"
    assert lines[1].startswith("  node 2: and 2 more, 3:1 to 3:2, 4:1 to 4:2, ")
    assert lines[2] == "  node 4: nothing; snapshots none; f.p = 2, f.a = 1; log.1 is no transaction log"
    assert len(lines) == 3
    verdict = run.read_verdict()
    assert verdict is not None
    assert "Logs at the end\n  node 1: 1:1 to 1:4, 2:1;" in summary.full_text(run, verdict, None)


def test_the_headlines_violation_comes_first_and_the_others_are_a_line_each(run: RunFolder) -> None:
    """`progress` comes after `integrity`, whatever their order in the file. Nothing is printed twice."""
    reasons = ["progress is violated: node 1 lost [1, 0]", "integrity is violated: node 1 lost [1, 0]"]
    found = [broken("progress", 2) | {"more": 6}, broken("integrity", 1)]
    judge(run, verdict="VIOLATION", exit=1, properties=found, reasons=reasons)
    lines = shown(run).splitlines()
    assert lines[1] == "Integrity violated: node 1 lost [1, 0]; also violated: progress"
    told = [line for line in lines if "violated" in line][1:]
    assert told == [
        "integrity (DSN) is violated: it stays",
        "also violated: progress: node 1 lost [1, 0] (and 7 more)",
    ]


def test_an_uncertain_property_is_not_called_violated_and_no_reason_is_printed_twice(run: RunFolder) -> None:
    reasons = ["integrity is not certain", "too little happened"]
    judge(run, verdict="UNKNOWN", exit=2, properties=[broken("integrity", 1) | {"verdict": "UNKNOWN"}], reasons=reasons)
    text = shown(run)
    assert "integrity (DSN) is uncertain: it stays" in text
    assert text.lower().count("integrity is not certain") == text.count("too little happened") == 1


def test_what_else_is_uncertain_is_named_without_the_statement_that_may_not_hold(run: RunFolder) -> None:
    found = [
        broken(name, violations) | {"verdict": "UNKNOWN"} for name, violations in (("integrity", 1), ("channels", 0))
    ]
    judge(
        run, verdict="UNKNOWN", exit=2, properties=found, reasons=["integrity is not certain", "node 2 sent too much"]
    )
    lines = shown(run).splitlines()
    assert "also uncertain: channels" in lines
    assert "  node 2 sent too much" in lines


def test_the_events_before_a_violation_have_the_times_of_the_schedule(run: RunFolder) -> None:
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("integrity", 1)], reasons=["integrity is violated"])
    assert "    2.000 s  node 1 (life 1) became LOOKING" in shown(run).splitlines()


def test_a_wait_pauses_no_writes(run: RunFolder) -> None:
    crash, *cut = run.lines("faults.jsonl")
    write_lines(run, "faults.jsonl", [crash, crash | {"t": int(12.5 * SECOND), "id": 3, "do": "wait"}, *cut])
    judge(run)
    paused = {line.split()[1]: line.split()[-2:] for line in shown(run).splitlines() if " yes" in line or " NO" in line}
    assert paused == {"crash": ["790", "ms"], "wait": ["2", "yes"], "partition": ["the", "end"]}


def test_the_verdict_of_now_is_shown_instead_of_the_stored_one(run: RunFolder) -> None:
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("integrity", 1)], reasons=["integrity is violated"])
    out = io.StringIO()
    now = Verdict(verdict=Outcome.PASS, exit=0, properties=[], reasons=[], metrics={})
    terminal.show(run, Console(file=out, width=80), judged=now)
    assert "PASS  (exit 0)" in out.getvalue()
    assert "integrity" not in out.getvalue()


def test_several_targets_of_a_fault_are_named_one_after_the_other(run: RunFolder) -> None:
    crash = {"do": "crash", "target": ["Follower", "Third"], "nodes": [1, 2], "confirmed": True, "evidence": {}}
    write_lines(run, "faults.jsonl", [{"type": "inject", "t": 12 * SECOND, "id": 1, **crash}])
    assert "Follower, Third = 1 2" in shown(run)


def test_an_unexpected_verdict_is_pointed_out(run: RunFolder) -> None:
    run.write_run(run.read_run() | {"expect": {"verdict": "BEYOND-FAULT-MODEL"}})
    judge(run)
    assert "the scenario expects BEYOND-FAULT-MODEL" in shown(run)
    run.write_run(run.read_run() | {"expect": {"verdict": "VIOLATION", "violates": "agreement"}})
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("integrity", 1)])
    assert "VIOLATION  (exit 1)  the scenario expects a violation of agreement" in shown(run)


def test_a_run_with_a_defect_is_expected_to_catch_it(run: RunFolder) -> None:
    """Its scenario passes without the defect, and says so."""
    run.write_run(run.read_run() | {"expect": {"verdict": "PASS"}, "defect": "dirty-read"})
    judge(run)
    assert "PASS  (exit 0)  the defect dirty-read was not caught\n" in shown(run)
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("values and versions", 1)])
    assert "VIOLATION  (exit 1)  the defect dirty-read was caught\n" in shown(run)
    judge(run, verdict="VIOLATION", exit=1, properties=[broken("sanity", 1)])
    assert "the defect dirty-read was caught, by other properties than values and versions\n" in shown(run)


@pytest.mark.parametrize(("violated", "word"), [("integrity", "not shown"), ("agreement", "shown")])
def test_a_scenario_that_shows_a_known_bug_says_whether_it_did(violated: str, word: str, run: RunFolder) -> None:
    """It expects a PASS, which it has on the releases without the bug."""
    ticket = {"ticket": "ZOOKEEPER-4643", "ticket_violates": ["durability", "agreement"]}
    run.write_run(run.read_run() | {"expect": {"verdict": "PASS"}} | ticket)
    judge(run, verdict="VIOLATION", exit=1, properties=[broken(violated, 1)])
    assert f"VIOLATION  (exit 1)  the bug was {word}: ZOOKEEPER-4643\n" in shown(run)


def test_of_a_harness_error_only_the_reason_is_shown(run: RunFolder) -> None:
    """Properties that could not be judged would only hide the sentence that helps."""
    run.write_run(run.read_run() | {"expect": {"verdict": "PASS"}})
    reasons = ["the harness failed: no toxiproxy", "nothing was delivered"]
    unsure = broken("recovery", 1) | {"verdict": "UNKNOWN"}
    judge(run, verdict="HARNESS-ERROR", exit=3, reasons=reasons, properties=[unsure])
    first, *others = shown(run).split("\n\n")[0].splitlines()[1:]
    assert first == "The harness failed: no toxiproxy"
    assert others[0] == "HARNESS-ERROR  (exit 3)"
    assert [line.split()[0] for line in others[1:]] == ["results", "report", "repeat"]


def test_a_violation_before_the_harness_failed_is_shown(run: RunFolder) -> None:
    properties = [broken("agreement", 1), broken("recovery", 1) | {"verdict": "UNKNOWN"}]
    reasons = ["the harness failed: no toxiproxy", "agreement is violated: node 1 lost [1, 0]"]
    judge(run, verdict="HARNESS-ERROR", exit=3, reasons=reasons, properties=properties)
    text = shown(run)
    assert text.lstrip().startswith("The harness failed: no toxiproxy\nagreement (DSN) is violated: it stays\n")
    assert "  node 1 lost [1, 0]\n    trace/node-1-1.jsonl:9" in text
    assert "recovery" not in text
    assert "HARNESS-ERROR  (exit 3)  what was recorded until then violates agreement" in " ".join(text.split("\n"))


def test_a_run_that_was_not_judged_is_shown(tmp_path: Path) -> None:
    run = run_folder.create(tmp_path, "a", 1)
    assert "HARNESS-ERROR" in shown(run)
