"""A node in docker-compose.yml finds the number of its next life by itself."""

from pathlib import Path

import msgspec
import pytest

from zab_chaos.node.__main__ import next_life
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.trace import Trace


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return NodeConfig(
        id=1,
        cluster="c",
        listen="",
        peers={},
        client="",
        control="",
        link_keys="",
        control_keys="",
        client_keys="",
        data="",
        trace=str(tmp_path),
    )


def test_the_next_life_follows_the_latest_one_with_a_trace(config: NodeConfig, tmp_path: Path) -> None:
    assert next_life(config) == (1, True)
    for name in ("node-1-1.jsonl", "node-1-10.jsonl", "node-1-9.jsonl", "node-11-40.jsonl", "node-2-30.jsonl"):
        (tmp_path / name).touch()
    assert next_life(config)[0] == 11
    assert next_life(msgspec.structs.replace(config, id=2))[0] == 31


def test_a_node_that_has_opened_its_disk_in_no_life_has_lost_none(config: NodeConfig, tmp_path: Path) -> None:
    first = Trace(str(tmp_path), 1, 1)
    first.add("exit", {"code": 74, "why": "opening the folder /data: Permission denied"})
    first.close()
    assert next_life(config) == (2, True)
    second = Trace(str(tmp_path), 1, 2)
    second.add("fault", {"do": "crash-at", "state": "fired", "detail": "before-sync:ANY"})
    second.add("boot", {"disk": "fresh"})
    second.close()
    Trace(str(tmp_path), 1, 3).close()
    assert next_life(config) == (4, False)
