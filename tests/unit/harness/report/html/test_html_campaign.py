"""The page of a campaign."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.conduct import steady_state
from tests.corpus.delivery import agreement_fork
from tests.corpus.story import Story
from tests.unit.harness.report.html.analysed import analysed
from tests.unit.harness.report.html.test_html_page import rows
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.html.campaign import (
    CampaignRun,
    RecoveryTime,
    campaign_csv,
    read_campaign,
    run_from_verdict,
)
from zab_chaos.harness.report.html.campaign_page import campaign_page
from zab_chaos.harness.report.html.numbers import catch_up_table
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.pipeline.campaign import summary


def keep(root: Path, name: str, story: Story, judged: bool = True, **facts: Any) -> Path:
    folder = root / name
    story.run |= facts
    story.save(folder)
    if judged:
        folder.joinpath("verdict.json").write_bytes(judge(folder).to_json())
    return folder


@pytest.fixture
def root(tmp_path: Path, told: Story) -> Path:
    """Four runs: one that passed, one with a defect that was caught, one that unexpectedly failed, one that was not judged."""
    results = tmp_path / "results"
    keep(results, "good/1", steady_state(), scenario="good", command="zab run good --seed 1")
    keep(results, "defects/forks/1", agreement_fork(), scenario="defects/forks", defect="forks")
    keep(results, "forks/1", agreement_fork(), scenario="forks", command="zab run forks --seed 7")
    keep(results, "told/1", told, judged=False, scenario="told")
    results.joinpath("latest").symlink_to("good/1")
    return results


def by_name(runs: list[CampaignRun]) -> dict[str, CampaignRun]:
    return {run.name: run for run in runs}


def test_every_run_is_read_once_with_its_verdict(root: Path) -> None:
    runs = by_name(read_campaign(root))
    assert {name: run.verdict for name, run in runs.items()} == {
        "good": "PASS",
        "defects/forks (defective)": "VIOLATION",
        "forks": "VIOLATION",
        "told": "NOT-JUDGED",
    }
    assert [name for name, run in runs.items() if not run.as_expected] == ["forks", "told"]


def test_a_violation_of_another_property_than_the_scenario_expects_is_unexpected(tmp_path: Path) -> None:
    for wanted in ("agreement", "watches"):
        expect = {"verdict": "VIOLATION", "violates": wanted}
        folder = keep(tmp_path, f"{wanted}/1", agreement_fork(), scenario=wanted, expect=expect)
        assert main(["report", str(folder)]) == 0
        said = f"The scenario expects a violation of {wanted}." in folder.joinpath("report.html").read_text()
        assert said is (wanted == "watches")
    runs = {name: (run.expected, run.as_expected) for name, run in by_name(read_campaign(tmp_path)).items()}
    assert runs == {"agreement": ("VIOLATION", True), "watches": ("a violation of watches", False)}


def test_a_run_without_a_command_is_shown_without_one(tmp_path: Path) -> None:
    keep(tmp_path, "held/1", steady_state(), judged=False, scenario="held", command=None)
    (run,) = read_campaign(tmp_path)
    assert run.command == ""


def test_a_fault_hits_a_node_in_a_phase(root: Path) -> None:
    hits = by_name(read_campaign(root))["told"].hits
    assert ("crash", "LEADING BROADCAST") in hits
    assert ("pause", "FOLLOWING BROADCAST") in hits
    assert ("partition", "LEADING BROADCAST") in hits
    assert len(hits) == 4


def test_a_fault_may_hit_a_node_that_is_down_and_a_repair_is_none(tmp_path: Path) -> None:
    story = Story()
    story.start()
    story.elect(3, 1)
    story.crash(2, heal=False)
    story.inject("wipe", [2])
    story.inject("restart", [2])
    story.boot(2)
    story.join(2)
    story.write()
    story.settle()
    keep(tmp_path, "x/1", story)
    (run,) = read_campaign(tmp_path)
    assert run.hits == [("crash", "FOLLOWING BROADCAST"), ("wipe", "down")]
    assert [one.do for one in run.recoveries] == ["crash", "wipe"]


def test_the_tables_of_a_campaign_count_its_runs() -> None:
    def run(seed: int, verdict: str, **more: Any) -> CampaignRun:
        return CampaignRun(Path("r"), "x", None, "", verdict=verdict, properties={"p": verdict}, seed=seed, **more)

    times = [RecoveryTime("crash", "LEADING", seconds) for seconds in (None, *(i / 1000 for i in range(1, 11)), None)]
    runs = [
        run(1, "PASS", recoveries=times, numbers={"longest_unavailability_s": 0.5}),
        run(2, "UNKNOWN"),
        run(3, "VIOLATION", numbers={"longest_unavailability_s": 2.0, "writes_acked": 7}),
    ]
    text = campaign_page(runs, "all", Path("campaign.html"))
    assert rows(text, "From a fault")[0][:7] == ["crash", "LEADING", "12", "0.005", "0.009", "0.010", "2"]
    assert rows(text, "Scenarios and properties") == [["x", "3", "✗ 1/3"]]
    assert "x, p: 1 VIOLATION, 1 UNKNOWN, 1 PASS" in text
    assert [row[2] for row in rows(text, "The runs with the longest")] == ["2.000", "0.500"]
    assert [row[2] for row in rows(text, "All runs")] == [
        "2",
        "3",
        "1",
    ]  # those that did not end as expected come first
    (*_, last) = csv.DictReader(campaign_csv(runs).splitlines())
    said = {name: last[name] for name in ("scenario", "defect", "seed", "verdict", "violated", "writes_acked")}
    assert said == {
        "scenario": "x", "defect": "", "seed": "3", "verdict": "VIOLATION", "violated": "p", "writes_acked": "7"
    }  # fmt: skip


def test_a_campaign_whose_roles_nobody_determined_has_no_column_for_them() -> None:
    run = CampaignRun(Path("r"), "x", None, "", verdict="PASS", recoveries=[RecoveryTime("crash", "", 0.25)])
    text = campaign_page([run], "all", Path("campaign.html"))
    assert "role hit" not in text
    assert rows(text, "From a fault")[0][:6] == ["crash", "1", "0.250", "0.250", "0.250", "0"]


def test_the_table_of_how_nodes_caught_up() -> None:
    row = {"kind": "DIFF", "campaign": "", "times": 3, "transactions": 50, "cut": 2, "bytes": 2**19}
    assert rows(str(catch_up_table({"catching_up": [row]})), "How nodes") == [["DIFF", "3", "50", "2", "0.500"]]


def test_recovery_times_are_the_verdicts(root: Path) -> None:
    folder = root / "told/1"
    verdict = judge(folder)
    folder.joinpath("verdict.json").write_bytes(verdict.to_json())
    recoveries = by_name(read_campaign(root))["told"].recoveries
    assert recoveries == [(one["do"], "", one["seconds"]) for one in verdict.metrics["faults"]]


def test_the_page_names_what_to_look_at_and_how_to_repeat_it(root: Path) -> None:
    text = campaign_page(read_campaign(root), "all", root / "campaign.html")
    surprises = text[text.index("did not end as expected") : text.index("Scenarios and properties")]
    assert "zab run forks --seed 7" in surprises
    assert "zab run good" not in surprises
    assert "agreement: 1 VIOLATION" in text
    assert text.count("<script") == 1  # the page's own, which its policy names by its hash


def test_a_run_without_reasons_is_explained_too() -> None:
    runs = [
        CampaignRun(Path("r", defect or verdict), "x", defect, "zab run x", "VIOLATION", verdict)
        for verdict, defect in (("PASS", None), ("PASS", "old-bug"), ("NOT-JUDGED", None))
    ]
    text = campaign_page(runs, "all", Path("campaign.html"))
    assert "<div>expected VIOLATION</div>" in text
    assert "<div>no property is violated</div><div><code>zab run x</code></div>" in text
    assert "no property is violated, so the defect old-bug was not caught" in text
    assert "it has no verdict that can be read; <code>zab verify r/NOT-JUDGED</code> judges it" in text


@pytest.mark.parametrize(
    ("defect", "words"), [(None, "expects."), ("old-bug", "expects, and every defect was caught.")]
)
def test_only_a_campaign_with_defects_says_that_they_were_caught(defect: str | None, words: str) -> None:
    verdict = "PASS" if defect is None else "VIOLATION"
    run = CampaignRun(Path("r"), "x", defect, "zab run x", verdict, verdict)
    assert f"Every run ended as its scenario {words}" in campaign_page([run], "all", Path("campaign.html"))


def test_one_run_is_singular(root: Path) -> None:
    text = campaign_page(read_campaign(root / "good"), "good", root / "campaign.html")
    assert "<h1>1 run</h1>" in text


def test_folders_of_garbage_and_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    for name, facts in (("a", '{"scenario": "' + hostile + '", "expect": [1], "defect": 7}'), ("b", "?"), ("c", "[]")):
        tmp_path.joinpath(name).mkdir()
        tmp_path.joinpath(name, "run.json").write_text(facts)
        tmp_path.joinpath(name, "faults.jsonl").write_text("?\n")
    metrics = {"faults": [7, {"do": hostile, "seconds": "x"}], "longest_unavailability_s": "y"}
    verdict = {"verdict": "PASS", "exit": 0, "properties": [], "reasons": [], "metrics": metrics}
    tmp_path.joinpath("a/verdict.json").write_text(json.dumps(verdict))
    runs = read_campaign(tmp_path)
    assert len(runs) == 3
    text = campaign_page(runs, hostile, Path("campaign.html"))
    assert hostile not in text
    assert "&lt;script&gt;" in text


def test_zab_report_of_a_folder_with_runs_writes_the_campaigns_page(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(root), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    file = root / "campaign.html"
    assert answer == {
        "report": str(file),
        "bytes": file.stat().st_size,
        "folder": str(root),
        "runs": 4,
        "not_as_expected": 2,
    }
    assert main(["report", "latest", "--results", str(root)]) == 0
    assert capsys.readouterr().out == f"{root}/good/1/report.html\n"


def test_a_folder_of_runs_may_be_named_by_its_path_below_the_results(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "defects", "--results", str(root)]) == 0
    assert capsys.readouterr().out == f"{root}/defects/campaign.html\n"
    assert main(["report", "nothing", "--results", str(root)]) == 4


def test_each_run_is_linked_to_its_page_if_it_has_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(root)])
    text = (root / "campaign.html").read_text()
    assert f"zab report {root}/good/1" in text
    assert "<a href=" not in text[text.index("All runs") :]
    capsys.readouterr()
    assert main(["report", str(root), "--pages"]) == 0
    assert capsys.readouterr() == (f"{root}/campaign.html\n", "")  # no bar where there is no terminal
    text = (root / "campaign.html").read_text()
    for name in ("good/1", "defects/forks/1", "forks/1", "told/1"):
        assert (root / name / "report.html").is_file()
        assert f'<a href="{name}/report.html">1</a>' in text[text.index("All runs") :]
    capsys.readouterr()
    assert main(["report", str(root / "good/1"), "--pages"]) == 4
    assert "Leave it out" in capsys.readouterr().err


def test_the_numbers_of_all_runs_are_a_csv_file_beside_it(root: Path) -> None:
    main(["report", str(root)])
    assert '<a href="campaign.csv">campaign.csv</a>' in (root / "campaign.html").read_text()
    with (root / "campaign.csv").open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert set(rows) == {str(run.folder) for run in read_campaign(root)}
    forked = rows[str(root / "forks/1")]
    assert (forked["verdict"], forked["expected"], forked["as_expected"]) == ("VIOLATION", "PASS", "False")
    assert "agreement" in forked["violated"].split("; ")
    caught = rows[str(root / "defects/forks/1")]
    assert (caught["verdict"], caught["expected"], caught["as_expected"]) == ("VIOLATION", "VIOLATION", "True")
    good = rows[str(root / "good/1")]
    verdict = json.loads((root / "good/1/verdict.json").read_text())
    assert int(good["writes_acked"]) == verdict["metrics"]["writes_acked"] > 0
    assert rows[str(root / "told/1")]["verdict"] == "NOT-JUDGED"


# ---- from the pipeline ----


def test_the_pipelines_results_make_the_same_page() -> None:
    verdicts = [analysed("leader-crash", seed) for seed in (1, 2, 3)]
    runs = [run_from_verdict(it.path, it.facts, it.json) for it in verdicts]
    assert [run.recoveries for run in runs][1] == [("crash", "leader", pytest.approx(0.2)), ("crash", "leader", None)]
    assert runs[0].hits == 2 * [("crash", "LEADING BROADCAST")]
    text = campaign_page(runs, "three runs", Path("report.html"), summary(verdicts))
    assert "102 ± 2.48" in text  # 101, 102, 103: t(2) is 4.303, the deviation 1
    assert "leader-crash, acked_per_second: 102 ± 2.48 1/s, 3 runs" in text
    assert "crash hit a node that was LEADING BROADCAST: 6" in text
    assert "crash: 0.300 s, leader-crash, 3" in text
    assert "3.000" in text  # MiB of snapshots


def test_two_campaigns_are_not_mixed() -> None:
    verdicts = [
        replace(analysed("hang", seed, latency_p99_ms=p99 + seed), campaign=campaign, path=f"/{campaign}/{seed}")
        for campaign, p99 in (("before", 340.0), ("after", 1050.0))
        for seed in (1, 2, 3)
    ]
    for it in verdicts[3:]:  # of the second campaign
        it.json.update(verdict="VIOLATION", properties=[{"name": "integrity", "verdict": "VIOLATION"}])
        for fault in it.json["metrics"]["faults"]:
            fault.update(seconds=1.0, was=["FOLLOWING BROADCAST"])
    runs = [run_from_verdict(it.path, it.facts, it.json, it.campaign) for it in verdicts]
    text = campaign_page(runs, "before, after", Path("report.html"), summary(verdicts))
    p99 = [re.sub(r" ±.*", "", cell) for row in rows(text, "Numbers by scenario") for cell in row if "±" in cell]
    assert [row[:3] for row in rows(text, "Numbers by scenario")] == [["hang", "before", "3"], ["hang", "after", "3"]]
    assert ("342" in p99, "1,052" in p99) == (True, True)
    assert "hang, after, latency_p99_ms: 1,052" in text
    assert "Numbers by ensemble size" not in text  # there is one size
    assert [row[:8] for row in rows(text, "From a fault")] == [
        ["crash", "leader", "before", "6", "0.200", "0.300", "0.300", "3"],
        ["crash", "leader", "after", "6", "1.000", "1.000", "1.000", "0"],
    ]
    assert rows(text, "Scenarios and properties") == [["hang, before", "3", "✓"], ["hang, after", "3", "✗ 3/3"]]
    assert rows(text, "Role and phase") == [["crash", "before", "", "6"], ["crash", "after", "6", ""]]
    assert [row[1:3] for row in rows(text, "How nodes caught up")] == [["before", "3"], ["after", "3"]]
    assert [row[2] for row in rows(text, "Runs that did not end as expected")] == 3 * ["after"]
    assert [row[2:4] for row in rows(text, "All runs")] == [
        [campaign, str(seed)] for campaign in ("after", "before") for seed in (1, 2, 3)
    ]
    assert {row[1] for row in rows(text, "The runs with the longest")} == {"before", "after"}
    listed = {(row["path"], row["campaign"]) for row in csv.DictReader(campaign_csv(runs).splitlines())}
    assert listed == {(it.path, it.campaign) for it in verdicts}


def test_one_campaign_has_no_column_for_its_name(root: Path) -> None:
    verdicts = [analysed("hang", seed) for seed in (1, 2)]
    runs = [run_from_verdict(it.path, it.facts, it.json) for it in verdicts]
    for text in (
        campaign_page(runs, "all", Path("report.html"), summary(verdicts)),
        campaign_page(read_campaign(root), "all", Path("campaign.html")),
    ):
        assert ">campaign<" not in text


def test_a_system_whose_nodes_record_nothing_never_failed_to_recover() -> None:
    it = analysed("own", 1, delivered=0)
    assert run_from_verdict(it.path, it.facts, it.json).recoveries == []


def test_properties_that_no_run_judged_have_no_column() -> None:
    judged = {"integrity": "PASS", "sync": "NOT-APPLICABLE", "linearizable keys": "VIOLATION"}
    runs = [
        CampaignRun(Path("s"), "y", None, "", "PASS"),
        CampaignRun(Path("r"), "x", None, "", "PASS", "VIOLATION", judged),
    ]
    text = campaign_page(runs, "two", Path("campaign.html"))
    assert [f">{name}<" in text for name in judged] == [True, False, True]
    assert "Judged in no run: sync" in text


def test_many_unexpected_runs_are_cut_short_and_counted() -> None:
    runs = [run_from_verdict(it.path, it.facts, it.json) for it in (analysed("x", seed) for seed in range(1, 151))]
    for run in runs:
        run.verdict, run.reasons = "VIOLATION", ["digests " + "[1, 2, 3] " * 100]
    text = campaign_page(runs, "many", Path("campaign.html"))
    assert "the first 100 of 150" in text
    assert len(text) < 200_000


def cells(page: str, caption: str) -> list[list[str]]:
    """Return the texts of the cells of a table's rows."""
    body = page[page.index("<tbody>", page.index(f"<span>{caption}")) :]
    rows = body[: body.index("</tbody>")].split("</tr>")[:-1]
    return [[re.sub("<.*?>", "", cell) for cell in row.split("</td>")[:-1]] for row in rows]


def test_every_table_shows_each_run_and_number_in_its_place(tmp_path: Path) -> None:
    """Three runs of `a`, one of them not as expected, and a run of `b` that was not judged."""
    good, bad = {"integrity": "PASS"}, {"integrity": "VIOLATION", "sync": "NOT-APPLICABLE"}
    runs = [
        CampaignRun(
            tmp_path / "a" / str(seed), "a", None, f"zab run a --seed {seed}", "PASS", "VIOLATION" if seed == 10 else "PASS",
            bad if seed == 10 else good, [RecoveryTime("crash", "leader", 0.1 * it) for it in times], seed=seed,
            numbers={"acked": 99, "writes_acked": seed, "longest_unavailability_s": 0.2 * seed},
            hits=[("crash", "LEADING BROADCAST")] * seed,
        )
        for seed, times in ((9, range(1, 21)), (10, [10]), (2, [2]))
    ]  # fmt: skip
    never = [RecoveryTime("crash", "leader", None)]
    runs.append(CampaignRun(tmp_path / "b" / "1", "b", None, "", "PASS", recoveries=never, hits=[("crash", "down")]))
    page = tmp_path / "pages" / "campaign.html"
    for run in runs[:1]:
        run.folder.mkdir(parents=True)
        run.folder.joinpath("report.html").touch()
    text = campaign_page(runs, "all", page)
    assert re.findall(r"</span> (\d+) ", text[: text.index("</header>")]) == ["1", "2", "1"]
    assert '<a href="../a/9/report.html">9</a>' in text
    assert [row[0] for row in cells(text, "Runs that did not end as expected")] == [
        "✗ VIOLATIONexpected PASS", "! NOT-JUDGEDexpected PASS",
    ]  # fmt: skip
    assert [row[1:6] for row in cells(text, "All runs")] == [
        ["a", "10", "integrity", "10", "2.000"],
        ["b", "", "", "", "0.000"],
        ["a", "2", "", "2", "0.400"],
        ["a", "9", "", "9", "1.800"],
    ]
    assert cells(text, "Scenarios and properties") == [["a", "3", "✗ 1/3"], ["b", "1 (1 not judged)", ""]]
    assert "a, integrity: 1 VIOLATION, 2 PASS" in text
    assert [row[:7] for row in cells(text, "From a fault")] == [
        ["crash", "leader", "23", "1.000", "1.800", "2.000", "1"]
    ]
    assert cells(text, "Role and phase") == [["crash", "21", "1"]]
    assert [text.count(f'class="hit hit-{shade}"') for shade in range(6)] == [1, 0, 0, 0, 1, 0]
    assert [row[2:4] for row in cells(text, "The runs with the longest pauses")] == [
        ["2.000", "zab run a --seed 10"], ["1.800", "zab run a --seed 9"], ["0.400", "zab run a --seed 2"],
    ]  # fmt: skip
    rows = csv.DictReader(campaign_csv(runs[::-1]).splitlines())
    assert [(row["seed"], row["violated"], row["acked"]) for row in rows] == [
        ("", "", ""), ("2", "", "99"), ("10", "integrity", "99"), ("9", "", "99"),
    ]  # fmt: skip


def test_what_repairs_something_hits_no_node_and_is_not_recovered_from() -> None:
    it = analysed("x", 1)
    for fault in it.json["metrics"]["faults"]:
        fault["do"] = "restart"
    run = run_from_verdict(it.path, it.facts, it.json)
    assert (run.hits, run.recoveries) == ([], [])
