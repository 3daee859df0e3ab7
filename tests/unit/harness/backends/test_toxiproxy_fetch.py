"""Getting the toxiproxy server: what is said meanwhile, what is said when it fails, and what is left."""

import shutil
import stat
from pathlib import Path

import pytest

from zab_chaos.harness.backends.toxiproxy import fetch as fetching
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyError
from zab_chaos.harness.results.run_folder import private

NOWHERE = "http://127.0.0.1:1"  # nobody listens there


def test_without_go_and_offline_one_sentence_and_its_remedy_come_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToxiproxyError) as raised:
        fetching.fetch(tmp_path / "cache" / "toxiproxy-server", NOWHERE)
    sentence, mends, command = str(raised.value).splitlines()
    assert sentence.endswith("It is not on this machine, and can't be fetched.")
    assert mends == "This mends it:"
    assert "curl" in command
    assert capsys.readouterr().err.splitlines() == ["Downloading toxiproxy 2.12.0, once"]
    assert list((tmp_path / "cache").iterdir()) == []


def with_go(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing on the PATH but a Go that does this."""
    go = folder / "bin" / "go"
    go.parent.mkdir()
    go.write_text(script)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))


def test_what_a_build_leaves_is_removed_and_its_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_go(
        '#!/bin/sh\n/bin/mkdir -p "$GOMODCACHE/deep" "$GOCACHE"\necho "no such module" >&2\nexit 1\n',
        tmp_path,
        monkeypatch,
    )
    with pytest.raises(ToxiproxyError, match="`go install` said: no such module"):
        fetching.fetch(tmp_path / "cache" / "toxiproxy-server", NOWHERE)
    assert capsys.readouterr().err.startswith("Building toxiproxy 2.12.0 with Go, once: about a minute\nDownloading")
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_is_fetched_where_files_are_private_is_for_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's first fault of the network fetches it. Other users on the machine then couldn't start it."""
    with_go('#!/bin/sh\n: > "$GOBIN/server"\n', tmp_path, monkeypatch)
    target = tmp_path / "cache" / "toxiproxy" / "toxiproxy-server"
    with private():
        fetching.fetch(target, NOWHERE)
        (tmp_path / "run").mkdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (target, *target.parents[:2], tmp_path / "run")]
    assert modes == [0o755, 0o755, 0o755, 0o700]
