"""The corpus: every known-bad run violates the right property, and every near miss passes."""

import json
import re
from pathlib import Path

import pytest

from tests.corpus.build import CASES, main, write
from tests.corpus.cases import Case
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.oracle.properties import ALL
from zab_chaos.model.verdict import Judgement, Outcome

EXPERIMENT = frozenset({"fault took effect", "trace integrity"})  # they say that records are damaged
# Their violations contradict themselves, whatever is missing from the records.
CERTAIN = frozenset(
    {
        "causal order",
        "channels",
        "client order",
        "committed stays",
        "epochs",
        "exactly once",
        "expected state",
        "global primary order",
        "one leader an epoch",
        "sanity",
    }
)
# Their violations contradict what the nodes' own traces have, whatever clients recorded.
SHOWN_BY_NODES = frozenset(
    {
        "agreement",
        "disk",
        "durability",
        "integrity",
        "local primary order",
        "prefix",
        "primary integrity",
        "promises",
        "quorum durability",
        "state equality",
        "synchronization",
        "total order",
    }
)
WITHOUT_A_LINE = frozenset({"progress-nobody-is-ever-elected"})  # nothing ever happens


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_judges_as_expected(case: Case, tmp_path: Path) -> None:
    """And each violation cites lines that exist and say so."""
    folder = write(case, tmp_path)
    verdict = judge(folder)
    said = "\n".join(verdict.reasons)
    assert {it.name for it in verdict.properties if it.verdict is Judgement.VIOLATION} == case.violated, said
    assert verdict.property(case.property).verdict == case.judgement, said
    assert verdict.verdict == case.verdict, said
    for name, violation in ((item.name, violation) for item in verdict.properties for violation in item.violations):
        assert violation.words
        assert violation.evidence or name in EXPERIMENT or case.name in WITHOUT_A_LINE
        for evidence in violation.evidence:
            line = json.loads((folder / evidence.file).read_text().splitlines()[evidence.line - 1])
            assert line["t"] == evidence.event["t"]
            assert evidence.event.items() <= line.items()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("integrity-the-digest-of-another-one", r"; 1:3 was broadcast with the digest [0-9a-f]{16}"),
        ("state-the-digest-at-another-zxid", r"but the history .* has [0-9a-f]{16}; [0-9a-f]{16} is its digest at 1:3"),
        ("agreement-same-zxid-other-bytes", r"node 3 delivered 1:4, which had another digest on its own disk"),
        (
            "channels-goes-on-after-a-gap",
            r"node 2 took frames 14 to 20 of session 1 from node 1, where frame 11 was due",
        ),
        (
            "channels-a-gap-before-what-is-not-known",
            r"node 2 took frames 0 to 10 .*, and then a later one: what is between them is missing",
        ),
        ("edited-truncation-dropped", r"does not continue its log: that ended at 1:4; epoch 2 began after 1:3"),
        (
            "client-order-taken-for-a-stranger",
            r"for one of another ensemble: the client says that it has seen \(1, 9\), but this ensemble has come to \(1, 2\)",
        ),
        ("values-lost-update", r"2:1 sets /a to version 3 where 4 was next: 1:4 made version 3"),
        ("values-sequential-name-given-twice", r"number 1 was next: 1:5 was the last to change the children of /a"),
    ],
)
def test_a_violation_says_what_would_explain_it(name: str, words: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    said = [violation.words for item in judge(write(case, tmp_path)).properties for violation in item.violations]
    assert any(re.search(words, text) for text in said), said


def test_nodes_that_do_not_recover_are_shown_with_what_they_did_last(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "recovery-never")
    (violation,) = judge(write(case, tmp_path)).property("recovery").violations
    assert [(line.event["event"], line.event.get("why")) for line in violation.evidence[:3]] == [
        ("link", "silent"),
        ("role", "start"),
        ("vote", None),
    ]


def test_every_crash_state_is_a_violation_of_its_own(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "disk-could-have-held-something-else")
    words = [violation.words for violation in judge(write(case, tmp_path)).property("disk").violations]
    assert [text.partition(":")[0] for text in words] == ["node 2 in its life 1", "node 3 in its life 1"]


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_every_property_has_known_bad_runs_and_a_near_miss(name: str) -> None:
    about = [case for case in CASES if case.property == name]
    assert sum(case.judgement in ("VIOLATION", "UNKNOWN") for case in about) >= 2
    assert sum(case.verdict == "PASS" for case in about) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [kind.name for kind in ALL if kind.name not in EXPERIMENT])
@pytest.mark.parametrize(
    ("file", "certain"),
    [
        ("harness.jsonl", CERTAIN),
        ("ops.jsonl", CERTAIN | SHOWN_BY_NODES),
        ("log/node-1-1.log", {kind.name for kind in ALL}),
    ],
)
def test_if_records_are_damaged_only_what_is_there_is_a_violation(
    name: str, file: str, certain: frozenset[str], tmp_path: Path
) -> None:
    """Some violations mean that something is missing from the records. If lines may be missing there, these are UNKNOWN."""

    def judged(case: Case) -> Judgement:
        folder = write(case, tmp_path)
        (folder / file).parent.mkdir(exist_ok=True)
        with (folder / file).open("a") as damaged:
            damaged.write("[\n")
        return judge(folder).property(name).verdict

    bad = [case for case in CASES if case.property == name and case.judgement == "VIOLATION"]
    assert any(judged(case) is Judgement.VIOLATION for case in bad) == (name in certain)


@pytest.mark.parametrize("name", ["channels-a-frame-that-is-none", "progress-a-client-stays-without-a-leader"])
def test_a_file_that_no_property_is_judged_by_keeps_none_from_being_judged(name: str, tmp_path: Path) -> None:
    folder = write(next(case for case in CASES if case.name == name), tmp_path)
    (folder / "log").mkdir()
    (folder / "log" / "node-1-1.log").write_text("changed\n")
    assert judge(folder).verdict is Outcome.VIOLATION


@pytest.mark.slow
def test_the_corpus_can_be_written_for_another_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert str(len(CASES)) in capsys.readouterr().out
    assert len(list(tmp_path.glob("*/expected.json"))) == len(CASES)
