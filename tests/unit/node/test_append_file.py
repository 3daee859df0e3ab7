"""Appending whole buffers."""

import errno
import os
from pathlib import Path

import pytest

from zab_chaos.node.append_file import AppendFile, NodeFile
from zab_chaos.node.store.errors import DiskFailed


def test_what_write_2_leaves_is_written_by_further_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    for _ in range(2):
        file = AppendFile(tmp_path / "file")
        file.write(b"12345678\n")
        file.close()
    assert (tmp_path / "file").read_bytes() == b"12345678\n" * 2


def test_only_its_user_reads_a_file_unless_a_node_writes_it(tmp_path: Path) -> None:
    """A program with a client of its own has another umask than the harness."""
    before = os.umask(0o022)
    try:
        for kind in (AppendFile, NodeFile):
            kind(tmp_path / kind.__name__).close()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"AppendFile": 0o600, "NodeFile": 0o644}


@pytest.mark.parametrize(("kind", "error"), [(AppendFile, OSError), (NodeFile, DiskFailed)])
def test_a_node_ends_when_its_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[AppendFile], error: type[Exception]
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(error, match="No such file or directory"):
        kind(tmp_path / "missing" / "file")
    file = kind(tmp_path / "file")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(error, match="No space left on device"):
        file.write(b"1")
    file.close()
