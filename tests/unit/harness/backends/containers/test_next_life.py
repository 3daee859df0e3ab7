"""A node in docker-compose.yml finds the number of its next life by itself."""

from pathlib import Path

import msgspec

from zab_chaos.node.__main__ import next_life
from zab_chaos.node.config import NodeConfig


def test_the_next_life_follows_the_latest_one_with_a_trace(tmp_path: Path) -> None:
    config = NodeConfig(
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
    assert next_life(config) == 1
    for name in ("node-1-1.jsonl", "node-1-10.jsonl", "node-1-9.jsonl", "node-11-40.jsonl", "node-2-30.jsonl"):
        (tmp_path / name).touch()
    assert next_life(config) == 11
    assert next_life(msgspec.structs.replace(config, id=2)) == 31
