"""The Java that Spark and ZooKeeper need: found, too old, missing, broken."""

import re
from pathlib import Path

import pytest

from zab_chaos.harness.machine import java


def test_java_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaMissing, match=re.escape(f"JAVA_HOME={tmp_path} has no bin/java. Install it: ")):
        java.find()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaMissing, match="there is no `java` on the PATH"):
        java.find()


@pytest.mark.parametrize(("version", "number"), [("11.0.2", 11), ("1.8.0_292", 8), ("17.0.1", None)])
def test_java_must_be_17(tmp_path: Path, version: str, number: int | None) -> None:
    found = tmp_path / "java"
    found.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n")
    found.chmod(0o755)
    if number is None:
        assert java.version(str(found)) == 'openjdk version "17.0.1" 2019-01-15'
    else:
        with pytest.raises(java.JavaMissing, match=rf"is Java {number}; the pipeline needs 17 or newer\. Install it: "):
            java.version(str(found))


def test_options_that_java_has_picked_up_are_not_its_version(tmp_path: Path) -> None:
    found = tmp_path / "java"
    found.write_text("#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21.0.1\"' >&2\n")
    found.chmod(0o755)
    assert java.version(str(found)) == 'openjdk version "21.0.1"'


def test_java_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(java.JavaMissing, match="does not run"):
        java.version(str(tmp_path / "none"))
