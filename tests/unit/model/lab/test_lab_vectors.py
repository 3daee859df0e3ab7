"""The dump is byte-exact: it has db-19's published hashes and layout, and does not depend on the interpreter."""

import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from zab_chaos.model.lab import LabArguments, LabSimulator
from zab_chaos.model.lab.splitmix import splitmix64

ROOT = Path(__file__).resolve().parents[4]

# db-19, docs/observation ("Expected sha256s"): seed, nodes, rounds, proposals, partition, sha256.
PUBLISHED = {
    "A": (42, 3, 1000, 5, [], "16af5aa6dbd5ce09b259755f3339d6cf23966ce115b0e30d9c2990487783047d"),
    "B": (7, 5, 2000, 20, [], "b60388e978a9b98792edb00c8d33217da8bff9945a89d2c0c18b5f69520b91cf"),
    "C": (99, 3, 500, 0, [], "8aef7604639fe0f2b349b38d74e10b6da8ac252b626976563bba69c722426296"),
    "D": (1, 1, 200, 5, [], "d4dbb92f91f9a0adf0c4c0b91fa46b2a5145907450897cd6473a02a6279604fd"),
    "E": (
        42, 3, 1000, 3, [(0, 1), (0, 2), (1, 0), (2, 0)],
        "5e4dbddb605e469c99fb682c00256445dcb2ed07e984f673d4296ef19719979a",
    ),
    "F": (3, 5, 1500, 10, [(0, 1)], "c9df583bd714534c488aac710e6cc6e57e4b21d2fe96ec17068bd1c7525bc1b3"),
}  # fmt: skip


@pytest.mark.parametrize("label", PUBLISHED)
def test_published_hash(label: str) -> None:
    seed, nodes, rounds, proposals, partition, expected = PUBLISHED[label]
    arguments = LabArguments(seed=seed, nodes=nodes, rounds=rounds, proposals=proposals, partition=frozenset(partition))
    assert hashlib.sha256(LabSimulator(arguments).run()).hexdigest() == expected


def test_the_generator_has_the_labs_own_multiplier() -> None:
    """Worked out by hand from the three lines of the seed; the usual splitmix64 gives 0xE220A8397B1DCDAF for 0."""
    gamma, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E7B5, 0x94D049BB133111EB
    z = (gamma ^ gamma >> 30) * first % 2**64
    z = (z ^ z >> 27) * second % 2**64
    assert splitmix64(0) == z ^ z >> 31
    assert splitmix64(0) != 0xE220A8397B1DCDAF


def test_layout_of_a_single_nodes_dump() -> None:
    """Scenario D, field by field: all five proposals are committed, as node 0 is its own quorum."""
    content = LabSimulator(LabArguments(seed=1, nodes=1, rounds=200, proposals=5)).run()
    head = b"DSEZAB01" + struct.pack("<IIBIIIIIII", 1, 0, 2, 1, 1, 1, 5, 1, 5, 5)
    txns = [struct.pack("<III", 1, i + 1, 5) + b"zab-%d" % i for i in range(5)]
    assert content == head + b"".join(txns)


@pytest.mark.parametrize("nodes", range(1, 8))
@pytest.mark.parametrize("seed", [0, 17, 2**64 - 1])
def test_without_cuts_everything_is_committed_on_all_nodes(nodes: int, seed: int) -> None:
    simulator = LabSimulator(LabArguments(seed=seed, nodes=nodes, rounds=1500, proposals=11))
    simulator.run()
    expected = [b"zab-%d" % i for i in range(11)]
    assert [[txn.payload for txn in node.committed()] for node in simulator.nodes] == [expected] * nodes
    assert sorted(node.role for node in simulator.nodes) == [1] * (nodes - 1) + [2]


PROGRAM = """
import hashlib, sys
from zab_chaos.model.lab import LabSimulator, lab_flapping
print(hashlib.sha256(b"".join(LabSimulator(lab_flapping(seed)).run() for seed in range(4))).hexdigest())
print(sorted(name for name in sys.modules if name.split(".")[0] == "zmq" or name.startswith("zab_chaos.node.net")))
"""


def test_the_dump_depends_on_neither_hash_seed_nor_process_and_no_network_code_is_imported() -> None:
    answers = set()
    for hash_seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.add(done.stdout)
    assert len(answers) == 1
    assert answers.pop().splitlines()[1] == "[]"
