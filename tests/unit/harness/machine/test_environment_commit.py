"""The commit of the checkout, for run.json."""

import os
import subprocess
from pathlib import Path

import pytest

from zab_chaos.harness.machine import checkout, environment


def test_asking_for_the_commit_changes_nothing_in_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain `git status` rewrites the index, and leaves its lock behind if it is killed with the run."""
    file = tmp_path / "a"
    file.write_text("a")
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "a"], [*who, "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    os.utime(file, (1, 1))  # its entry in the index is out of date, and its content is the same
    before = (tmp_path / ".git" / "index").read_bytes()
    monkeypatch.setattr(checkout, "root", lambda: tmp_path)
    found = environment.commit()
    assert found is not None
    assert "changes" not in found
    assert (tmp_path / ".git" / "index").read_bytes() == before
