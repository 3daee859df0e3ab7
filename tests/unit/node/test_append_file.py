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
