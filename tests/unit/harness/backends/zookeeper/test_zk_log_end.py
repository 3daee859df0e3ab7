"""The last zxid of a log that grows, is truncated, and goes on in other files."""

from pathlib import Path
from random import Random

import pytest

from tests.unit.harness.backends.zookeeper.test_zk_txnlog import HEAD, ZEROS, body, record
from zab_chaos.harness.backends.zookeeper.txnlog import LogEnd, read


@pytest.mark.parametrize("seed", range(20))
def test_it_is_always_that_of_the_newest_file(seed: int, tmp_path: Path) -> None:
    """The numbers in the names are hexadecimal, and have no leading zeros. After a truncation another epoch follows."""
    random = Random(seed)
    folder = tmp_path / "version-2"
    folder.mkdir()
    end, zxid, logged = LogEnd(tmp_path), 6, list[int]()
    assert end.zxid() == 0
    file = folder / "log.6"
    for _ in range(30):
        if logged and random.random() < 0.2:
            del logged[random.randrange(len(logged)) :]
            zxid = (zxid >> 32) + 1 << 32
        elif logged and random.random() < 0.2:
            file, logged = folder / f"log.{zxid:x}", []
        for _ in range(random.randrange(3) if logged else 1):
            logged.append(zxid)
            zxid += 1
        file.write_bytes(HEAD + b"".join(record(body(one)) for one in logged) + ZEROS)
        assert end.zxid() == read(file.read_bytes()).transactions[-1].zxid == logged[-1]
