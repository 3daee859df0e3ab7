"""Finding and fetching the toxiproxy server; ports; commands that die with their parent."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.file_server import serving
from zab_chaos.harness.backends.toxiproxy import fetch
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyError, cached, find
from zab_chaos.harness.machine import cache, die_with_parent, ports
from zab_chaos.harness.machine.ports import NoFreePortError, free_ports, release_ports

TIED = Path(die_with_parent.__file__)
ROOT = Path(__file__).parents[3]


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_configured_server_comes_before_the_path(tmp_path: Path) -> None:
    wish = executable(tmp_path / "mine")
    on_path = executable(tmp_path / "bin" / "toxiproxy-server")
    assert find({"ZAB_TOXIPROXY": str(wish), "PATH": str(on_path.parent)}) == wish
    assert find({"PATH": str(on_path.parent)}) == on_path


def test_a_configured_server_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToxiproxyError, match="not an executable file"):
        find({"ZAB_TOXIPROXY": str(tmp_path / "nothing")})


def test_the_cache_is_beside_the_checkout() -> None:
    assert cached().parts[-4:-1] == (".cache", "toxiproxy", "2.12.0")


@pytest.fixture
def release(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Return (address, folder) of a release whose files the test provides."""
    folder = tmp_path / "release"
    with serving(folder) as address:
        yield address, folder


@pytest.fixture
def without_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("without_go")
def test_a_downloaded_server_must_have_the_pinned_sum(
    release: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = release
    asset = fetch.platform_asset()
    assert asset is not None
    (folder / asset).write_bytes(b"not what was released")
    target = tmp_path / "cache" / "toxiproxy-server"
    with pytest.raises(ToxiproxyError, match=r"(?s)fetched:\n  - [^\n]*sha256.*This mends it:\n  mkdir -p .*curl"):
        fetch.fetch(target, address)
    assert [path.name for path in target.parent.iterdir()] == [cache.LOCK]

    right = hashlib.sha256(b"not what was released").hexdigest()
    monkeypatch.setitem(fetch.SHA256, asset, right)
    assert fetch.fetch(target, address) == target
    assert os.access(target, os.X_OK)


@pytest.mark.usefixtures("without_go")
def test_a_release_that_cannot_be_reached_is_a_clear_error(release: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ToxiproxyError, match=r"(?s)404.*This mends it"):
        fetch.fetch(tmp_path / "cache" / "toxiproxy-server", release[0])


@pytest.mark.usefixtures("without_go")
def test_without_go_and_offline_only_the_remedy_is_shown(tmp_path: Path) -> None:
    with pytest.raises(ToxiproxyError) as caught:
        fetch.fetch(tmp_path / "cache" / "toxiproxy-server", "http://127.0.0.1:9")
    needed, mends, command, _elsewhere = str(caught.value).splitlines()
    assert "can't be fetched." in needed
    assert mends == "This mends it:"
    assert "curl" in command


def test_a_failed_build_is_reported_and_the_release_is_tried(
    release: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = executable(tmp_path / "bin" / "go")
    go.write_text("#!/bin/sh\necho no network for $3 $CGO_ENABLED >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    with pytest.raises(ToxiproxyError, match=r"(?s)no network.*404.*This mends it:\n  CGO_ENABLED=0 .*go install"):
        fetch.fetch(tmp_path / "cache" / "toxiproxy-server", release[0])


def test_a_built_server_is_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = executable(tmp_path / "bin" / "go")
    go.write_text('#!/bin/sh\nmkdir "$GOCACHE" "$GOMODCACHE"\necho "$@" > "$GOBIN/server"\n')
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    target = tmp_path / "cache" / "toxiproxy-server"
    fetch.fetch(target)
    assert "Version=2.12.0 github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0" in target.read_text()
    assert {path.name for path in target.parent.iterdir()} == {target.name, cache.LOCK}  # what the build left is gone
    assert os.access(target, os.X_OK)


def test_ports_are_ours_alone_and_below_the_ephemeral_ones() -> None:
    mine = free_ports(20)
    try:
        assert len(set(mine)) == 20
        assert all(ports.LOWEST <= port < 32768 for port in mine)
        ask = "from zab_chaos.harness.machine import ports; "
        ask += (
            f"ports.LOWEST, ports.HIGHEST = {min(mine)}, {max(mine)}; print([p for p in {mine} if ports._reserve(p)])"
        )
        root = ROOT
        answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, cwd=root)
        assert answer.stdout.strip() == "[]", "another process gets none of them"
    finally:
        release_ports(mine)
    assert not set(mine) & ports._held.keys()


def test_a_dead_owners_lock_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    release_ports([port])
    ports._lock_file(port).touch()
    monkeypatch.setattr(ports, "LOWEST", port)
    monkeypatch.setattr(ports, "HIGHEST", port)
    assert free_ports(1) == [port]
    with pytest.raises(NoFreePortError, match="only 0 of 1"):
        free_ports(1)
    release_ports([port])


def test_a_tied_process_becomes_the_command() -> None:
    command = [sys.executable, str(TIED), "--parent", str(os.getpid()), "sh", "-c", "echo $$; exit 3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate()
    assert int(output) == process.pid
    assert process.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--parent", "1", "true"], ""), ([], "give a command"), (["/no/such/command"], "cannot run /no/such/command")],
)
def test_a_tied_process_without_a_command_ends_with_an_error(arguments: list[str], words: str) -> None:
    done = subprocess.run([sys.executable, str(TIED), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
