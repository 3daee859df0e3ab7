"""Mutants: each changes one place of one file, and counts by the outcome of the exploration of its tree."""

from pathlib import Path

import pytest

from mutants import planting
from mutants.__main__ import Result, arguments_of, attempt, backend_of, jobs_of, requested_tests, summary
from mutants.covering import covering_tests
from mutants.planting import HANDWRITTEN, HARNESS, PROCESSES, ROOT, Mutant, Stale, handwritten_mutants, planted_tree


def test_there_are_many_mutants_in_all_rooms_and_each_has_a_reason() -> None:
    found = handwritten_mutants(*HANDWRITTEN)
    assert len(found) >= 300
    assert len({(one.room, one.name) for one in found}) == len(found)
    assert all(one.why and one.old != one.new for one in found)
    rooms = {
        "application",
        "broadcast",
        "channel",
        "discovery",
        "election",
        "history",
        "primary",
        "replica",
        "sessions",
    }
    assert rooms | {"store", "synchronization", "tree", "driver"} <= {one.room for one in found}


def test_a_mutant_changes_one_place_or_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "ROOT", tmp_path)
    (tmp_path / "x.py").write_text("a = 1\nb = 1\nc = 2\n")

    def mutant(old: str) -> Mutant:
        return Mutant(name="m", room="r", file="x.py", old=old, new="c = 3")

    assert mutant("c = 2").text() == "a = 1\nb = 1\nc = 3\n"
    for old, times in (("= 1", 2), ("d", 0)):
        with pytest.raises(Stale, match=f"has the text {times} times"):
            mutant(old).text()


def test_a_planted_tree_is_a_temporary_copy() -> None:
    with planted_tree("node/core/zxid.py", "# nothing") as tree:
        assert (tree / "node/core/zxid.py").read_text() == "# nothing"
        assert (tree / "node/core/peer.py").read_bytes() == (ROOT / "node/core/peer.py").read_bytes()
    assert not tree.exists()
    assert (ROOT / "node/core/zxid.py").read_text() != "# nothing"


def test_words_choose_among_the_handwritten_mutants() -> None:
    """Without generated mutants, which need the library that generates them."""
    assert len(jobs_of(arguments_of(["history/common-ignores-the-epochs"]))) == 1
    assert len(jobs_of(arguments_of(["history/"]))) > 1
    assert jobs_of(arguments_of(["no such mutant"])) == []


def test_the_sample_of_processes_is_explored_there_and_only_when_it_is_named() -> None:
    assert len(jobs_of(arguments_of(["--which", PROCESSES]))) == len(handwritten_mutants(PROCESSES))
    assert jobs_of(arguments_of(["a-pipe-does-not-reconnect"])) == []
    assert arguments_of(["--which", PROCESSES]).seeds < arguments_of([]).seeds
    assert backend_of(arguments_of(["--which", PROCESSES])) == "processes"
    assert backend_of(arguments_of([])) == "sim"


def test_the_sample_of_the_harness_is_tested_and_only_when_it_is_named() -> None:
    mutants = handwritten_mutants(HARNESS)
    assert len(jobs_of(arguments_of(["--which", HARNESS]))) == len(mutants)
    assert jobs_of(arguments_of(["a-pass-never-fails"])) == []
    assert all(requested_tests(arguments_of(["--which", HARNESS]), one.file) for one in mutants)
    rooms = {"faults", "harness", "pipeline", "model"}  # of the judge only what other programs than our nodes need
    assert {one.file.partition("/")[0] for one in mutants} == rooms


def test_exploration_distinguishes_a_bug_from_a_correct_tree() -> None:
    file = "node/tree/tree.py"
    text = (ROOT / file).read_text()
    honest = attempt("none", "tree", file, lambda: text, seeds=1)
    assert (honest.outcome, honest.seed) == (None, None)
    bug = text.replace("            self._delete(change.path)", "            pass")
    assert bug != text
    caught = attempt("bug", "tree", file, lambda: bug.replace("self.zxid = zxid", "self.zxid = Zxid(7)"), seeds=5)
    assert caught.outcome in ("VIOLATION", "HARNESS-ERROR")
    assert caught.seed is not None
    patch = text.replace("self.zxid = zxid", "self.zxid = Zxid(zxids)")
    misspelt = attempt("misspelt", "tree", file, lambda: patch, seeds=1)
    assert (misspelt.outcome, misspelt.counts) == ("BROKEN", False)
    broken = attempt("broken", "tree", file, lambda: "import nothing_of_that_name", seeds=1)
    assert broken.outcome == "BROKEN"
    assert not broken.counts


def test_the_tests_of_the_judge_catch_its_mutants() -> None:
    file = "model/oracle/properties/abcast.py"
    text = (ROOT / file).read_text()
    bug = text.replace('if conflict.kind not in ("other", "bytes"):', "if True:")
    assert bug != text
    tests = requested_tests(arguments_of(["--which", "judge"]), file)
    caught = attempt("bug", "judge", file, lambda: bug, seeds=1, tests=tests)
    assert caught.outcome == "VIOLATION"
    assert caught.why.startswith("FAILED tests/unit/model/oracle/test_corpus.py")
    broken = attempt("broken", "judge", file, lambda: "import nothing_of_that_name", seeds=1, tests=tests)
    assert broken.outcome == "BROKEN"
    assert not broken.counts


def test_every_mutant_can_be_tested_if_that_is_asked_for() -> None:
    asked, not_asked = arguments_of(["--tests"]), arguments_of([])
    for file in {one.file for one in handwritten_mutants(*HANDWRITTEN)}:
        tests = requested_tests(asked, file)
        assert tests, file
        assert [test for test in tests if not (ROOT / test).exists()] == []
        assert requested_tests(not_asked, file) == []


def test_the_tests_of_a_file_come_before_those_of_its_folders() -> None:
    tests = covering_tests("node/net/link.py")
    assert tests[0] == "tests/unit/node/net"
    assert set(covering_tests("node/server.py")) < set(tests)
    assert covering_tests("node/net/link.py", "node/server.py") == tests


def test_a_test_that_fails_in_its_fixture_has_caught_the_mutant() -> None:
    """Most bugs of a node show when a test starts one. A tree of which no test can be imported is no program any more."""
    file = "node/net/keys.py"
    bug = (ROOT / file).read_text() + "\ncreate = None\n"
    caught = attempt("bug", "net", file, lambda: bug, seeds=1, tests=["tests/unit/node/net/test_link.py"])
    assert (caught.outcome, caught.why.partition(" ")[0]) == ("VIOLATION", "ERROR")


def test_a_stale_mutant_does_not_count() -> None:
    stale = attempt("old", "tree", "node/tree/tree.py", _raise_stale, seeds=1)
    assert (stale.outcome, stale.counts) == ("STALE", False)


def _raise_stale() -> str:
    raise Stale("the file has the text 0 times")


def test_the_share_is_that_of_the_mutants_that_count() -> None:
    def result(outcome: str | None, equivalent: str = "") -> Result:
        return Result("n", "r", outcome, None, [], "", equivalent)

    results = [
        result("VIOLATION"),
        result(None),
        result("HANG"),
        result("STALE"),
        result("BROKEN"),
        result(None, "same"),
    ]
    told = summary(results)
    assert "6 mutants; 3 do not count" in told
    assert "Of 3: 1 caught (33 of 100), 1 ended the harness or hung, 1 survive" in told
