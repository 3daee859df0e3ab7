"""The page of a run as a file: complete without scripts, loading nothing, and safe against hostile contents of a folder."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import conduct, delivery, promises
from tests.corpus.cases import CASES, Case
from tests.corpus.story import Story, ensemble
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.html.markup import Html, element
from zab_chaos.harness.report.html.page import page
from zab_chaos.harness.report.html.run_data import read_run_data
from zab_chaos.harness.report.html.terms import TERMS, explained
from zab_chaos.harness.report.sentences import describe_line
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core.messages import NAMES

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u2028"
assert conduct
assert delivery
assert promises


class Page(HTMLParser):
    """Parses a page: its elements, the content of each script and style, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self._open: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag in self.inside else None

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open].append(data)
        else:
            self.text += data

    def data(self) -> Any:
        return json.loads(self.inside["script"][0])


def read(folder: Path) -> Page:
    return Page(page(read_run_data(folder)))


def test_nothing_in_the_page_refers_to_anything_outside(folder: Path) -> None:
    text = page(read_run_data(folder))
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch\(|XMLHttp|import\(", text)
    for tag, attributes in Page(text).elements:
        assert tag not in ("link", "img", "iframe", "object", "base", "form", "a")
        assert not {"src", "href", "style", "action"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(folder: Path) -> None:
    found = read(folder)
    (policy,) = [attributes["content"] for _, attributes in found.elements if "http-equiv" in attributes]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (style,), (_, script) = found.inside["style"], found.inside["script"]
    for name, content in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"


def test_texts_of_a_folder_are_escaped_everywhere(told: Story, tmp_path: Path) -> None:
    told.run |= {
        "scenario": HOSTILE,
        "command": HOSTILE,
        "seed": HOSTILE,
        "outcome": [HOSTILE],
        "versions": {HOSTILE: 1},
    }
    told.event(1, "role", role="LOOKING", leader=None, why=HOSTILE)
    told.event(1, "abort", why=HOSTILE)
    told.inject(HOSTILE, [1], target=HOSTILE, params={HOSTILE: HOSTILE})
    told.milestone(HOSTILE)
    told.save(tmp_path / "run")
    event = {"event": {"t": 1, "event": "abort", "why": HOSTILE}, "file": f"trace/{HOSTILE}", "line": 1}
    item = {
        "name": HOSTILE,
        "source": HOSTILE,
        "verdict": "VIOLATION",
        "statement": HOSTILE,
        "checked": 1,
        "violations": [{"words": HOSTILE, "evidence": [event]}],
        "more": 0,
    }
    verdict = {"verdict": "VIOLATION", "exit": 1, "properties": [item], "reasons": [HOSTILE], "metrics": {}}
    tmp_path.joinpath("run/verdict.json").write_text(json.dumps(verdict))
    tmp_path.joinpath("run/harness.jsonl").open("a").close()
    tmp_path.joinpath("run/ops.jsonl").write_text(HOSTILE + "\n")
    found = read(tmp_path / "run")
    assert len(found.inside["script"]) == 2
    assert "img" not in [tag for tag, _ in found.elements]
    assert HOSTILE in found.text
    assert HOSTILE in [one["words"] for one in found.data()["milestones"]]


def test_the_data_are_the_run_in_microseconds_since_the_workload_began(folder: Path) -> None:
    file = folder / "faults.jsonl"
    *others, last = map(json.loads, file.read_text().splitlines())
    file.write_text("".join(json.dumps(line) + "\n" for line in [*others, last | {"confirmed": False}]))
    data, story = read(folder).data(), read_run_data(folder)
    assert data["nodes"] == [1, 2, 3]
    crash = story.spans[0]
    assert data["faults"][0]["begin"] == (crash.at - story.zero) // 1000
    assert data["begin"] < 0 < data["end"]  # it began before its workload
    assert [one["confirmed"] for one in data["faults"]] == [True, True, True, False]
    assert [one["node"] for one in data["pauses"]] == [3]
    assert [(one["kind"], one["node"]) for one in data["events"]] == [
        ("member", 1),
        ("established", 2),
        ("established", 3),
    ]
    operations = data["operations"]
    assert len(operations["due"]) == len(operations["took"]) == len(operations["outcome"]) == 10
    due = [sum(operations["due"][: i + 1]) for i in range(10)]
    assert due == [(one - story.zero) // 1000 for one in story.operations.due]
    assert operations["took"] == [one // 1000 for one in story.operations.took]
    lines = [json.loads(line) for line in folder.joinpath("ops.jsonl").read_text().splitlines()]
    numbers = [sum(operations["line"][: i + 1]) for i in range(10)]
    assert [lines[number - 1]["t"] for number in numbers] == [one["t"] for one in lines if one["type"] == "invoke"]


def rows(text: str, caption: str) -> list[list[str]]:
    """Return the texts of the cells of the table with this caption."""
    table = text[text.index(f"<caption><span>{caption}") :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    lines = re.findall("<tr>.*?</tr>", body)
    return [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<td.*?</td>", line)] for line in lines]


def test_the_tables_show_when_what_happened_to_whom(folder: Path) -> None:
    text = page(read_run_data(folder))
    assert rows(text, "Faults") == [
        ["0.037", "crash", "one = 3", "", "0.035", "yes"],
        ["0.088", "pause", "one = 3", "", "0.002", "yes"],
        ["0.091", "wipe", "one = 1", "", "0.001", "yes"],
        ["0.114", "partition", "one = 2", "links 2→1, 2→3", "0.001", "yes"],
    ]
    assert rows(text, "Lives") == [
        ["1", "1", "fresh", "-0.022", "0.091", "wipe (fault 3)"],
        ["1", "2", "amnesiac", "0.093", "0.646", "ended itself: asked to"],
        ["2", "1", "fresh", "-0.021", "0.647", "ended itself: asked to"],
        ["3", "1", "fresh", "-0.020", "0.037", "crash (fault 1)"],
        ["3", "2", "recovered", "0.073", "0.648", "ended itself: asked to"],
    ]
    buttons = [it for tag, it in Page(text).elements if tag == "button" and it.get("class") == "show"]
    assert (buttons[0]["data-begin"], buttons[0]["data-end"]) == ("-463000", "572000")  # half a second around the crash


def test_the_tables_of_slow_writes_are_in_their_units_and_the_longest_outage_comes_first(tmp_path: Path) -> None:
    story = Story()
    story.start()
    story.elect(3, 1)
    story.milestone("workload-started")
    for seconds in (0.2, 0.5):
        seq = story.invoke()
        story.t += int(seconds * 1e9)
        story.complete(1, seq, story.commit((1, seq)))
    story.save(tmp_path / "run")
    text = page(read_run_data(tmp_path / "run"))
    assert rows(text, "Latency in ms") == [[name, "2", "209", "509", "509", "509", "509"] for name in ("all", "writes")]
    assert rows(text, "Outages") == [["0.209", "0.718", "0.509"], ["0.000", "0.209", "0.209"]]


def test_thousands_are_separated_in_all_tables(tmp_path: Path) -> None:
    story = Story()
    story.start()
    story.elect(3, 1)
    story.milestone("workload-started")
    for _ in range(1001):
        seq = story.invoke()
        story.complete(1, seq, story.commit((1, seq)))
    story.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    text = page(read_run_data(tmp_path))
    assert {row[1] for row in rows(text, "Latency in ms")} == {"1,001"}
    assert {row[1]: row[4] for row in rows(text, "Properties")}["exactly once"] == "1,001"


def test_an_unconfirmed_fault_and_the_worst_properties_are_conspicuous(tmp_path: Path) -> None:
    story = delivery.agreement_fork()
    story.inject("pause", [1], confirmed=False)
    story.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    text = page(read_run_data(tmp_path))
    assert rows(text, "Faults")[-1][-1] == "NOT CONFIRMED"
    badges = list(dict.fromkeys(row[0] for row in rows(text, "Properties")))
    assert badges == ["✗ VIOLATION", "? UNKNOWN", "✓ PASS", "– NOT-APPLICABLE"]


def test_properties_that_a_system_leaves_no_evidence_for_are_not_among_the_judged(tmp_path: Path) -> None:
    story = delivery.agreement_fork()
    story.save(tmp_path)
    facts = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(facts | {"evidence": "history"}))
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path, stored=False).to_json())
    text = page(read_run_data(tmp_path))
    assert "total order" not in [row[1] for row in rows(text, "Properties")]
    assert ["total order", "DSN 2011"] in [[row[0], row[2]] for row in rows(text, "Not judged")]


def test_a_wipe_whose_disk_is_found_again_did_not_take_effect(tmp_path: Path) -> None:
    """The processes confirmed it; the traces contradict."""
    story = ensemble()
    story.crash(3, do="wipe")
    story.boot(3, "recovered")
    story.join(3)
    story.settle()
    story.save(tmp_path)
    assert rows(page(read_run_data(tmp_path)), "Faults")[0][-1] == "yes"
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    assert rows(page(read_run_data(tmp_path)), "Faults")[0][-1] == "NOT CONFIRMED"


@pytest.mark.parametrize(
    ("evidence", "words", "cited"),
    [
        ({"tampered": ["link 1-2 is cut"]}, "somebody else changed the links: link 1-2 is cut", "another program had"),
        ({"node-3": "it is down"}, "the final healing failed: node-3: it is down", "the final healing failed"),
    ],
)
def test_a_healing_of_no_particular_fault_is_not_damage(
    told: Story, evidence: dict[str, Any], words: str, cited: str, tmp_path: Path
) -> None:
    told.heal(id=0, confirmed=False, evidence=evidence)
    told.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    run = read_run_data(tmp_path)
    text = Page(page(run)).text
    assert run.source.damages == []
    assert words in text
    assert [mark.words.startswith(cited) for mark in run.judged.marks] == [True]


def test_a_session_may_have_any_number_of_64_bits(told: Story, tmp_path: Path) -> None:
    """Clients of the library have random session numbers."""
    before = len(told.files["ops.jsonl"]) // 2
    for client in (2**62 + 1, 2**63 - 1, 2**64 - 1):
        told.write(1, client=client)
    told.save(tmp_path / "other")
    assert len(read(tmp_path / "other").data()["operations"]["due"]) == before + 3


def test_faults_at_one_time_are_on_different_rows(told: Story, tmp_path: Path) -> None:
    told.inject("partition", [1], pairs=[[1, 2]])
    told.inject("pause", [2])
    told.save(tmp_path / "run")
    *_, cut, pause = read(tmp_path / "run").data()["faults"]
    assert cut["row"] != pause["row"]


def test_a_backend_that_records_nothing_of_its_nodes_has_no_lanes(folder: Path) -> None:
    assert "fill: phase" in read(folder).text
    assert read(folder).data()["alive"] == []
    shutil.rmtree(folder / "trace")
    text = read(folder).text
    assert "what its nodes did is not recorded" in text
    assert "Commit lag" not in text
    assert "fill: phase" not in text
    assert "amnesiac: counts in no quorum" not in text
    data = read(folder).data()
    assert data["nodes"] == [1, 2, 3]  # those that run.json declares
    assert len([one for one in data["alive"] if one["node"] == 3]) == 2  # it was killed once, which is known


def test_a_slow_link_is_not_called_cut(told: Story, tmp_path: Path) -> None:
    told.inject("latency", [1], target=None, pairs=[[1, 2]])
    told.save(tmp_path / "run")
    data, text = read(tmp_path / "run").data(), read(tmp_path / "run").text
    assert {one["link"]: [it["cut"] for it in one["times"]] for one in data["links"]} == {
        "1→2": [False],
        "2→1": [True],
        "2→3": [True],
    }
    assert "links = 1" in text
    assert "None" not in text


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_known_run_good_or_bad_has_a_report_that_says_its_verdict(case: Case, tmp_path: Path) -> None:
    case.tell().save(tmp_path / "run")
    verdict = judge(tmp_path / "run")
    tmp_path.joinpath("run/verdict.json").write_bytes(verdict.to_json())
    story = read_run_data(tmp_path / "run")
    found = Page(page(story))
    assert f" {verdict.verdict}" in found.text
    for item in verdict.properties:
        assert item.statement in found.text
        assert all(violation.words in found.text for violation in item.violations)
    assert ("What was violated" in found.text) is bool(verdict.violated)
    cited = {(one.file, one.line) for item in verdict.properties for v in item.violations for one in v.evidence}
    assert {(mark.file, mark.line) for mark in story.judged.marks} == cited
    assert all(f"{file}:{line}" in found.text for file, line in cited)


def test_a_long_line_is_cut_short_in_its_citation(folder: Path) -> None:
    event = {
        "t": 1,
        "node": 1,
        "life": 1,
        "event": "deliver",
        "epoch": 1,
        "first": 1,
        "digests": dg.show_all(list(range(500))),
    }
    violation = {"words": "bad", "evidence": [{"file": "trace/node-1-1.jsonl", "line": 3, "event": event}]}
    item = {
        "name": "p",
        "source": "s",
        "verdict": "VIOLATION",
        "statement": "st",
        "checked": 1,
        "violations": [violation],
        "more": 7,
    }
    verdict = {"verdict": "VIOLATION", "exit": 1, "properties": [item], "reasons": [], "metrics": {}}
    folder.joinpath("verdict.json").write_text(json.dumps(verdict))
    text = read(folder).text
    assert "node 1 (life 1) delivered 1:1 to 1:500 (500 transactions)" in text
    assert "and 492 more" in text
    assert "and 7 more, which the verdict does not list" in text


def test_a_run_that_was_not_judged_says_how_to_judge_it(folder: Path) -> None:
    text = read(folder).text
    assert "NOT JUDGED" in text
    assert f"zab verify {folder}" in text


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        (
            "trace/node-2-1.jsonl",
            {"event": "truncate", "keep": [1, 4], "last": [1, 9]},
            "truncated its log from 1:9 to 1:4",
        ),
        (
            "trace/node-2-1.jsonl",
            {"event": "channel", "peer": 3, "session": 1, "first": 7, "last": 18, "ended": "closed"},
            "accepted frames 7 to 18 of session 1 from node 3, until it ended (closed)",
        ),
        (
            "trace/node-2-1.jsonl",
            {
                "event": "left",
                "accepted_epoch": 2,
                "current_epoch": 1,
                "last_zxid": [2, 1],
                "log": [[[1, 1], [1, 4]], [[2, 1], [2, 1]]],
            },
            "left on its disk f.p = 2, f.a = 1, last zxid 2:1; log 1:1 to 1:4, 2:1",
        ),
        ("trace/node-2-1.jsonl", {"event": "accepted_epoch", "epoch": 4}, "promised epoch 4 (f.p, durable)"),
        ("trace/node-2-1.jsonl", {"event": "phase", "phase": "DISCOVERY", "epoch": 4}, "entered DISCOVERY in epoch 4"),
        ("trace/node-2-1.jsonl", {"event": "link", "node": 2, "peer": 3, "state": "opened"}, "link to node 3 opened"),
        ("trace/node-2-1.jsonl", {"event": "vote", "leader": 0, "round": 5}, "votes for nobody (round 5)"),
        ("trace/node-2-1.jsonl", {"event": "truncate"}, "wrote `truncate`"),
        ("trace/node-2-1.jsonl", {"event": "accept", "digests": 5}, "wrote `accept`"),
        (
            "ops.jsonl",
            {"type": "complete", "client": 4, "outcome": "ok", "node": 1, "seq": 2, "zxid": [1, 3]},
            "zxid 1:3",
        ),
        (
            "faults.jsonl",
            {"type": "inject", "id": 3, "do": "crash", "target": "leader"},
            "fault 3 injected: crash of leader",
        ),
        ("harness.jsonl", {"event": "not-converged"}, "the run: not-converged"),
    ],
)
def test_every_line_is_described_in_words_even_of_an_unexpected_form(
    file: str, line: dict[str, Any], words: str
) -> None:
    assert words in describe_line(file, line)


def test_markup_escapes_everything_that_it_did_not_produce() -> None:
    made = element("p", "a<b", element("b", "&"), None, title='"x"', hidden=True, class_="k", data_x=None)
    assert made == '<p title="&quot;x&quot;" hidden class="k">a&lt;b<b>&amp;</b></p>'
    assert isinstance(made, Html)


def test_zab_report_writes_the_file_and_prints_its_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr() == (f"{folder}/report.html\n", "")
    assert folder.joinpath("report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_zab_report_prints_json_and_counts_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.joinpath("harness.jsonl").write_text("?\n")
    out = folder.parent / "other.html"
    assert main(["report", str(folder), "--json", "--out", str(out)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "report": str(out),
        "folder": str(folder),
        "verdict": None,
        "bytes": out.stat().st_size,
        "damages": 1,
    }
    assert not folder.joinpath("report.html").exists()


def test_zab_report_reports_a_wrong_argument(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nowhere", "--results", str(folder.parent)]) == 4
    assert "no run at nowhere" in capsys.readouterr().err
    assert main(["report", str(folder), "--out", str(folder)]) == 4
    assert "is a folder" in capsys.readouterr().err
    assert main(["report", str(folder), "--out", str(folder / "no" / "file.html")]) == 4
    assert "there is no folder" in capsys.readouterr().err


def test_names_of_the_protocol_are_explained_where_a_text_has_them() -> None:
    assert set(TERMS) == {*NAMES.values(), "f.p", "f.a"} - {"PING"}
    page = Page(explained("node 3 sent ACK-LD & left f.p = 2, no COMMITS <b> of ACK"))
    assert page.text == "node 3 sent ACK-LD & left f.p = 2, no COMMITS <b> of ACK"
    assert [(tag, of["title"]) for tag, of in page.elements] == [
        ("abbr", TERMS[one]) for one in ("ACK-LD", "f.p", "ACK")
    ]


def test_a_violation_without_a_recording_has_the_command_that_makes_one(tmp_path: Path) -> None:
    story = delivery.agreement_fork()
    story.run |= {"command": "zab run 'a b' --on sim --seed 7 --no-record", "backend": "sim", "record": False}
    story.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    exact = (
        "The messages between the nodes are missing. zab run 'a b' --on sim --seed 7 --record repeats the run exactly"
    )
    assert exact in read(tmp_path).text
    for facts, words in (
        ({"backend": "processes"}, "--record makes another run like it, and records it."), ({"record": True}, None),
        ({"backend": "zookeeper"}, None), ({"command": None}, None),
    ):  # fmt: skip
        (tmp_path / "run.json").write_text(json.dumps(story.run | facts))
        text = read(tmp_path).text
        assert (words in text) if words else ("between the nodes are missing" not in text)


def test_unknown_facts_are_left_out(told: Story, tmp_path: Path) -> None:
    """A simulated run has no facts about a machine or toxiproxy. Of places that can't be read, only some are listed."""
    told.run |= {"machine": None, "versions": {"zab-chaos": "1", "toxiproxy": None}}
    told.save(tmp_path / "run")
    text = read(tmp_path / "run").text
    assert "zab-chaos 1" in text
    assert "toxiproxy" not in text
    assert "? cores" not in text
    assert "Messages between nodes are missing: the run was not recorded, or its backend can't see them" in text
    (tmp_path / "run" / "harness.jsonl").write_text("?\n" * 60)
    facts = told.run | {"machine": {"cores": 2, "memory": 8 * 2**30, "kernel": "6.1"}, "command": "zab run x --seed 7"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(facts))
    text = read(tmp_path / "run").text
    assert "and 10 more places" in text
    assert "2 cores, 8 GiB, 6.1" in text
    assert "Repeat this run: zab run x --seed 7" in text


def test_a_defect_and_several_targets_are_named(told: Story, tmp_path: Path) -> None:
    told.run |= {"defect": "ack-before-sync"}
    told.inject("crash", [1, 2], target=["first", "second"])
    told.heal()
    told.save(tmp_path / "run")
    text = read(tmp_path / "run").text
    assert "The nodes were built with the defect ack-before-sync." in text
    assert "first, second = 1 2" in text


def test_a_quorum_of_lost_disks_is_explained(told: Story, tmp_path: Path) -> None:
    told.save(tmp_path / "run")
    verdict = judge(tmp_path / "run")
    said = json.loads(verdict.to_json()) | {"verdict": "BEYOND-FAULT-MODEL", "exit": 5}
    (tmp_path / "run" / "verdict.json").write_text(json.dumps(said))
    assert "were right not to form an ensemble again" in read(tmp_path / "run").text
