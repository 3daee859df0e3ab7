"""Fetching the toxiproxy server: the messages, the errors, and the files that are left."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from zab_chaos.harness.backends.toxiproxy import fetch as fetching
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyError
from zab_chaos.harness.machine.cache import LOCK
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import private

NOWHERE = "http://127.0.0.1:1"  # nobody listens there


def test_without_go_and_offline_the_error_is_one_sentence_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToxiproxyError) as raised:
        fetching.fetch(tmp_path / "cache" / "toxiproxy-server", NOWHERE)
    sentence, mends, command, elsewhere = str(raised.value).splitlines()
    assert sentence.endswith("It is not on this machine, and can't be fetched.")
    assert mends == "This mends it:"
    assert "curl" in command
    assert "ZAB_TOXIPROXY" in elsewhere
    assert capsys.readouterr().err.splitlines() == ["Downloading toxiproxy 2.12.0, once"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [LOCK]


def with_go(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a fake `go` that runs this script on the PATH, and nothing else."""
    go = folder / "bin" / "go"
    go.parent.mkdir()
    go.write_text(script)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))


def test_a_failed_build_is_reported_and_leaves_nothing(
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
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [LOCK]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, subprocess.TimeoutExpired("go", 600)])
def test_a_build_that_is_interrupted_ends_with_its_compilers(
    ending: BaseException | type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would go on writing into the folder that is removed: more than 100 MB stayed in the cache."""
    started = tmp_path / "compiler"
    with_go(
        f"#!/bin/sh\n/bin/sleep 600 &\necho $! > {started}.new\n/bin/mv {started}.new {started}\nwait\n",
        tmp_path,
        monkeypatch,
    )

    class Interrupted(subprocess.Popen[str]):
        def communicate(self, *_arguments: object, **_more: object) -> NoReturn:  # type: ignore[override]
            assert wait_until(started.exists, 60)
            raise ending

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises((KeyboardInterrupt, ToxiproxyError)):
        fetching.fetch(tmp_path / "cache" / "toxiproxy-server", NOWHERE)
    compiler = int(started.read_text())
    assert wait_until(lambda: not runs(compiler), 60)


def test_a_build_dies_with_the_process_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of pytest that was ended by SIGTERM left its build behind, and that a folder of 430 MB."""
    started = tmp_path / "go"
    with_go(
        f"#!/bin/sh\necho $$ > {started}.new\n/bin/mv {started}.new {started}\nexec /bin/sleep 600\n",
        tmp_path,
        monkeypatch,
    )
    target = tmp_path / "cache" / "toxiproxy-server"
    code = f"from pathlib import Path; from {fetching.__name__} import fetch; fetch(Path({str(target)!r}), {NOWHERE!r})"
    fetcher = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        assert wait_until(started.exists, 60)
    finally:
        fetcher.kill()
        fetcher.wait()
    go = int(started.read_text())
    assert wait_until(lambda: not runs(go), 60)


def runs(pid: int) -> bool:
    """Return whether a process runs: one that was killed stays as a zombie where its new parent does not wait for it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_all_users_can_read_what_was_fetched_under_a_private_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run fetches it under a private umask. Without this, other users of the machine could not execute it."""
    with_go('#!/bin/sh\n: > "$GOBIN/server"\n', tmp_path, monkeypatch)
    target = tmp_path / "cache" / "toxiproxy" / "toxiproxy-server"
    with private():
        fetching.fetch(target, NOWHERE)
        (tmp_path / "run").mkdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (target, *target.parents[:2], tmp_path / "run")]
    assert modes == [0o755, 0o755, 0o755, 0o700]


@pytest.mark.parametrize("go", [True, False])
def test_the_remedy_works_for_a_home_with_a_space_in_its_path(
    go: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell runs it; `go` and `curl` are replaced by scripts."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in {"go": ': > "$GOBIN/server"', "curl": ': > "$3"'}.items():
        if go or name != "go":
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
    for name in ("mkdir", "mv", "chmod"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    target = tmp_path / "my home" / "toxiproxy-server"
    target.parent.mkdir()
    subprocess.run(["/bin/sh", "-c", fetching.remedy(target)], check=True)
    assert [path.name for path in target.parent.iterdir()] == ["toxiproxy-server"]
