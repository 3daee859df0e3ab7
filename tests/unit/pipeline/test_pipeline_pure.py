"""What the pipeline works out without Spark."""

import os
import re
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from model.properties import ALL as ORACLE
from pipeline import java
from pipeline.expectations import expected, seconds
from pipeline.files import as_pattern, located
from pipeline.ingest import _run_json
from pipeline.judge import EXIT, WORST_FIRST, worst
from pipeline.lines import _counted
from pipeline.properties import ALL
from pipeline.session import _cores, is_local
from pipeline.shared import Shared, shared


def test_the_properties_are_the_oracles() -> None:
    """Same names, sources and statements, in the same order."""
    assert [(it.name, it.source, it.statement) for it in ALL] == [(it.name, it.source, it.statement) for it in ORACLE]


def test_the_verdicts_are_the_oracles() -> None:
    from model import verdict

    assert {str(name): code for name, code in verdict.EXIT_CODES.items()} == EXIT
    assert [str(name) for name in verdict.WORST_FIRST] == list(WORST_FIRST)
    assert worst([]) == "PASS"
    assert worst(["PASS", "UNKNOWN", "VIOLATION"]) == "VIOLATION"


@pytest.mark.parametrize(("said", "value"), [(5, 5.0), ("800ms", 0.8), ("2min", 120.0), ("1.5", 1.5), (" 3 s ", 3.0)])
def test_times(said: object, value: float) -> None:
    assert seconds(said) == value


@pytest.mark.parametrize("said", ["soon", "5 parsecs", True, "", "-1"])
def test_what_is_no_time(said: object) -> None:
    with pytest.raises(ValueError, match="is no time"):
        seconds(said)


def test_a_bound_that_is_no_time_is_named_and_not_used() -> None:
    wanted = expected('{"converges_within": "soon", "min_acked": 3}')
    assert wanted.converges_within is None
    assert wanted.min_acked == 3
    assert wanted.wrong("recovery") == ["run.json, expect.converges_within: 'soon' is no time; " + TIMES]
    assert wanted.wrong("agreement") == []


TIMES = "write seconds as a number, or for instance 5s, 800ms, 2min"


def test_lines_before_a_block() -> None:
    """Blocks of a file, in any order: path, start, first row, lines."""
    blocks = [("b", 0, 7, 4), ("a", 100, 50, 5), ("a", 0, 9, 10), ("a", 200, 90, 1)]
    assert _counted(blocks) == [
        ("a", 0, 9, 0, 16), ("a", 100, 50, 10, 16), ("a", 200, 90, 15, 16), ("b", 0, 7, 0, 4),
    ]  # fmt: skip


def test_a_path_is_taken_literally() -> None:
    assert as_pattern("file:///a%20b/%5Bx%5D") == r"file:///a b/\[x\]"
    assert located("/runs/50%20{a}*") == r"file:///runs/50%20\{a\}\*"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "give the folder of one run"),
        ("{", "does not describe a run"),
        ("[]", "it is no JSON object"),
        ('{"nodes": 0}', "look at nodes"),
        ('{"nodes": 3, "outcome": 1, "expect": []}', "look at outcome, expect"),
    ],
)
def test_a_run_json_that_cannot_be_used(text: str | None, words: str) -> None:
    from pipeline.folders import Folder

    said, error = _run_json(Folder(1, "/r"), text)
    assert said == {}
    assert error is not None
    assert words in error


def test_cores_of_a_local_master() -> None:
    assert [_cores(it) for it in ("local", "local[3]", "local[4,2]")] == [1, 3, 4]
    assert _cores("local[*]") == os.cpu_count()
    assert is_local("local[2]")
    assert not is_local("spark://h:1")


def test_java_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaMissing, match=re.escape(f"JAVA_HOME={tmp_path} has no bin/java. Install it: ")):
        java.find()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaMissing, match="there is no `java` on the PATH"):
        java.find()


def test_java_that_is_too_old_or_does_not_run(tmp_path: Path) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    with pytest.raises(java.JavaMissing, match=r"is Java 11; the pipeline needs 17 or newer\. Install it: "):
        java.version(str(old))
    with pytest.raises(java.JavaMissing, match="does not run"):
        java.version(str(tmp_path / "none"))


def test_what_several_ask_for_is_made_once() -> None:
    made: list[str] = []
    together = Barrier(4)

    class Thing(Shared):
        @shared
        def inner(self) -> str:
            made.append("inner")
            return "i"

        @shared
        def outer(self) -> str:
            made.append("outer")
            return self.inner + "o"

    thing, answers = Thing(), list[Any]()

    def ask() -> None:
        together.wait()
        answers.append(thing.outer)

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["io"] * 4
    assert made == ["outer", "inner"]
    assert Thing().inner == "i"
