"""The folder that docker-compose.yml's ensemble starts with."""

import threading
from pathlib import Path

import msgspec

from zab_chaos.harness.compose import NODES, prepare, seal
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model import manifest
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.net import keys


def test_every_node_has_the_three_key_files_and_they_stay_the_same(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    prepare(folder)
    files = keys.files_in(tmp_path / "config")
    made = [keys.load(path) for path in files]
    assert len({pair.public for pair in made}) == 3
    for node in NODES:
        config = msgspec.json.decode((tmp_path / "config" / f"node-{node}.json").read_bytes(), type=NodeConfig)
        assert (config.link_keys, config.control_keys, config.client_keys) == tuple(map(str, files))
    (tmp_path / "run.json").unlink()
    prepare(folder)  # as after a start that was cut short
    assert [keys.load(path) for path in files] == made


def test_the_folder_is_sealed_only_after_the_nodes_have_stopped(tmp_path: Path) -> None:
    folder, over = RunFolder(tmp_path), threading.Event()
    prepare(folder)
    for _ in range(2):  # an ensemble may be brought up again on the same folder
        over.set()
        seal(folder, over)
        assert manifest.check(tmp_path)[1] == []
    over.clear()
    waiting = threading.Thread(target=seal, args=(folder, over))
    waiting.start()
    (tmp_path / "trace" / "node-1-1.jsonl").write_text("{}\n")  # what a node writes before it stops
    over.set()
    waiting.join()
    assert manifest.check(tmp_path)[1] == []
