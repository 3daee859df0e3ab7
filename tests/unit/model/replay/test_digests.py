"""Digests by either algorithm. Runs of nodes that knew only BLAKE2b (tests/testdata/blake2b) still replay and start."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from tests.unit.model.replay.conftest import InMemoryEnsemble, eventful
from tests.unit.model.replay.test_replay import blocks, recording, write
from zab_chaos.model.replay.replay import recorded_lives, replay
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.core.digest import HASHES, Algorithm
from zab_chaos.node.exit_codes import exit_code, reason
from zab_chaos.node.recording import Booted, Submitted
from zab_chaos.node.store.errors import DigestMismatch
from zab_chaos.node.store.snapshot import MAGIC

BEFORE = Path(__file__).parents[3] / "testdata" / "blake2b" / "run.zip"
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
OTHER: dict[Algorithm, Algorithm] = {"blake2b": "xxh3", "xxh3": "blake2b"}


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """An old run of 3 nodes with its disks: node 1 was killed once, and each node has taken snapshots."""
    shutil.unpack_archive(BEFORE, tmp_path)
    return tmp_path / "run"


def events(run: Path, name: str) -> list[dict[str, Any]]:
    lines = (line for path in sorted((run / "trace").iterdir()) for line in path.read_text().splitlines())
    return [line for line in map(json.loads, lines) if line["event"] == name]


def versions(run: Path) -> set[int]:
    """Return the format versions of all snapshot files."""
    paths = list((run / "data").glob("node-*/snapshot-*"))
    assert paths
    return {int.from_bytes(path.read_bytes()[len(MAGIC) :][:4], "little") for path in paths}


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted((run / "data").rglob("*")) if path.is_file()}


# ---- runs of older nodes ----


def test_an_old_recording_replays(before: Path) -> None:
    lives = list(replay(before))
    assert [(one.node, one.life) for one in lives] == [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert [one.difference for one in lives] == [None] * 4
    assert events(before, "snapshot")  # their running digests and trees were compared
    assert sum(one.events for one in lives) > 100


def test_nodes_start_on_old_disks(before: Path) -> None:
    assert versions(before) == {1}
    ensemble = InMemoryEnsemble(before, 3, digest="blake2b")
    ensemble.lives = {1: 2, 2: 1, 3: 1}
    ensemble.start(1, 2, 3)
    ensemble.rounds(3, writes=90, at=ensemble.until_led())
    ensemble.rounds(5)
    machines = [replica.machine for replica in ensemble.replicas.values()]
    assert len({machine.delivered for machine in machines}) == len({machine.digest for machine in machines}) == 1
    assert len({replica.application.tree.digest for replica in ensemble.replicas.values()}) == 1
    ensemble.stop()
    lives = list(replay(before))
    assert [(one.node, one.life) for one in lives] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert [one.difference for one in lives] == [None] * 7
    assert versions(before) == {1}


# ---- both algorithms ----


@pytest.mark.parametrize("digest", ALGORITHMS)
def test_all_nodes_have_the_digests_of_their_algorithm(digest: Algorithm, tmp_path: Path) -> None:
    run = tmp_path / "run"
    eventful(run, digest=digest)
    assert all(one.difference is None for one in replay(run))
    entries = [it for life in recorded_lives(run) for block in blocks(recording(run, *life)) for it in block]
    assert {it.settings.digest for it in entries if isinstance(it, Booted)} == {digest}
    submitted = {f"{HASHES[digest](txn):016x}" for it in entries if isinstance(it, Submitted) for txn in it.txns}
    for name in ("broadcast", "accept", "deliver"):
        told = {
            line["digests"][at : at + 16] for line in events(run, name) for at in range(0, len(line["digests"]), 16)
        }
        assert told == submitted
    states: dict[tuple[int, int], set[tuple[str, str]]] = {}
    for line in events(run, "deliver"):
        last = line["epoch"], line["first"] + len(line["digests"]) // 16 - 1
        states.setdefault(last, set()).add((line["digest"], line["tree"]))
    assert all(len(digests) == 1 for digests in states.values())


def test_a_life_that_is_replayed_with_another_algorithm_differs(tmp_path: Path) -> None:
    """Otherwise the replays above would show nothing."""
    run = tmp_path / "run"
    eventful(run)
    for node, life in recorded_lives(run):
        content = blocks(recording(run, node, life))
        boot = content[0][0]
        assert isinstance(boot, Booted)
        content[0][0] = structs.replace(boot, settings=replace(boot.settings, digest="blake2b"))
        write(recording(run, node, life), content)
    assert all(one.difference is not None for one in replay(run))


def test_a_replay_remembers_as_many_clients_as_the_nodes_did(tmp_path: Path) -> None:
    """Which clients a tree remembers is part of its digest."""
    run = tmp_path / "run"
    eventful(run, clients_max=1)
    assert all(one.difference is None for one in replay(run))
    node, life = recorded_lives(run)[-1]
    content = blocks(recording(run, node, life))
    boot = content[0][0]
    assert isinstance(boot, Booted)
    content[0][0] = structs.replace(boot, settings=replace(boot.settings, clients_max=2))
    write(recording(run, node, life), content)
    assert [(one.node, one.life) for one in replay(run) if one.difference is not None] == [(node, life)]


# ---- one algorithm for all ----


@pytest.mark.parametrize("digest", ALGORITHMS)
def test_a_node_does_not_start_on_a_disk_with_another_digest(digest: Algorithm, tmp_path: Path) -> None:
    run = tmp_path / "run"
    eventful(run, digest=digest)
    assert versions(run) == {1 + ALGORITHMS.index(digest)}
    held, ensemble = files(run), InMemoryEnsemble(run, 3, digest=OTHER[digest])
    ensemble.lives[1] = 9
    with pytest.raises(DigestMismatch, match=f"by {digest}, and the node is configured for {OTHER[digest]}") as caught:
        ensemble.start(1)
    assert files(run) == held
    assert exit_code(caught.value) == 78
    assert reason(caught.value).endswith("or wipe its disk.")


def config(**setting: Any) -> NodeConfig:
    return NodeConfig(
        id=1, cluster="ours", listen="", client="", control="", data="", trace="", link_keys="", control_keys="",
        client_keys="", peers={}, **setting,
    )  # fmt: skip


def test_a_configuration_without_a_digest_means_blake2b() -> None:
    written = msgspec.json.decode(msgspec.json.encode(config()))
    del written["digest"]
    assert msgspec.convert(written, NodeConfig).digest == "blake2b"
    with pytest.raises(msgspec.ValidationError, match="md5"):
        msgspec.convert({**written, "digest": "md5"}, NodeConfig)


def test_nodes_with_different_digests_refuse_each_others_frames() -> None:
    """So does a node that knows only BLAKE2b, whose frames name only its cluster."""
    names = {digest: config(digest=digest).ensemble for digest in ALGORITHMS}
    assert names["blake2b"] == "ours"
    for digest, name in names.items():
        data = frame.pack(FrameHeader(frame.cluster_hash(name), FrameKind.HELLO, 2, 1, 1, 0, 1, 0), [])
        assert frame.parse(data, frame.cluster_hash(name), 1, 1000).sender == 2
        with pytest.raises(frame.BadFrame, match="with another digest"):
            frame.parse(data, frame.cluster_hash(names[OTHER[digest]]), 1, 1000)
