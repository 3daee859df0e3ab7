"""A node whose disk accepts no writes at its start ends with code 74 and one line that says why."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from zab_chaos.node.config import NodeConfig


def start(folder: Path, data: Path, limit: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    config = NodeConfig(
        id=1,
        cluster="c",
        listen="127.0.0.1:0",
        peers={},
        client="127.0.0.1:0",
        control="127.0.0.1:0",
        link_keys=str(folder / "none"),
        control_keys=str(folder / "none"),
        client_keys=str(folder / "none"),
        data=str(data),
        trace=str(folder),
    )
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    command = [
        sys.executable,
        "-B",  # the limit would also truncate Python's cached files, which other processes use
        "-m",
        "zab_chaos.node",
        "--config",
        str(folder / "config.json"),
        "--life",
        "1",
        "--bootstrap",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)


def no_room() -> None:
    """Limit the size of files: like a quota or a full disk, but with another errno."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def check(ended: subprocess.CompletedProcess[str], *words: str) -> None:
    assert ended.returncode == 74, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("node: the disk failed while ")
    assert ended.stderr.count("\n") == 1
    for word in words:
        assert word in ended.stderr


def test_a_disk_too_full_for_the_first_segment(tmp_path: Path) -> None:
    check(start(tmp_path, tmp_path / "data", no_room), "beginning log-00000001")
    assert '"code":74' in (tmp_path / "node-1-1.jsonl").read_text()


def test_a_disk_too_full_for_the_trace(tmp_path: Path) -> None:
    (tmp_path / "node-1-1.jsonl").symlink_to("/dev/full")
    check(start(tmp_path, tmp_path / "data"), "writing", "node-1-1.jsonl", "No space left on device")


@pytest.mark.parametrize("below", ["file", "file/data"])
def test_a_folder_that_can_not_be_created(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check(start(tmp_path, tmp_path / below), "opening the folder", str(tmp_path / below))
