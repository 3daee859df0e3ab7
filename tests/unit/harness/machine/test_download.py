"""A download has the expected checksum, or is removed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.file_server import serving
from zab_chaos.harness.machine.download import ChecksumMismatch, download


@pytest.fixture
def there(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address and the folder of an HTTP server."""
    folder = tmp_path / "there"
    with serving(folder) as address:
        yield address, folder


def test_an_existing_file_is_replaced(there: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = there
    for content in (b"one", b"two"):
        (folder / "it").write_bytes(content)
        download(f"{address}/it", tmp_path / "here", "sha256", hashlib.sha256(content).hexdigest())
        assert (tmp_path / "here").read_bytes() == content


@pytest.mark.parametrize("algorithm", ["sha1", "sha512"])
def test_a_file_with_another_checksum_is_removed(there: tuple[str, Path], tmp_path: Path, algorithm: str) -> None:
    address, folder = there
    (folder / "it").write_bytes(b"changed")
    with pytest.raises(
        ChecksumMismatch, match=f"{algorithm} {hashlib.new(algorithm, b'changed').hexdigest()}, but ab was expected"
    ):
        download(f"{address}/it", tmp_path / "here", algorithm, "ab")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
