"""The example for NATS JetStream (examples/nats): what it loses in a power cut, and which refusals it should not give."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.test_example_backend import ROOT, installed, judgements, zab
from tests.mounted import possible

EXAMPLE = ROOT / "examples" / "nats"
LAZY_SYNC = ["--defect", "lazy-sync"]  # what NATS does by default

pytestmark = [
    pytest.mark.servers,
    pytest.mark.processes,
    pytest.mark.toxiproxy,
    pytest.mark.skipif(
        shutil.which("nats-server") is None, reason="there is no nats-server on the PATH (apt-get install nats-server)"
    ),
]


def syncs_always() -> bool:
    """Return whether the release can be told to sync its files before it answers."""
    told = subprocess.run(["nats-server", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    assert found is not None
    return (int(found[1]), int(found[2])) >= (2, 10)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path, EXAMPLE, "nats = nats_chaos:Nats")


@pytest.mark.fuse
@pytest.mark.parametrize(
    ("bug", "verdict", "durability"),
    [
        ([], "PASS", {"PASS"}),
        pytest.param(LAZY_SYNC, "VIOLATION", {"VIOLATION", "UNKNOWN"}, marks=pytest.mark.sample),
    ],
)
def test_without_syncs_a_power_cut_of_all_nodes_loses_confirmed_writes(
    environment: dict[str, str], tmp_path: Path, bug: list[str], verdict: str, durability: set[str]
) -> None:
    """Now and then no server serves the bucket any more after it: `recovery` fails, and no key can be read."""
    possible()
    if not bug and not syncs_always():
        pytest.skip("this nats-server can't sync its files before it answers (2.10 can)")
    words = ["run", str(EXAMPLE / "scenarios" / "outage.toml"), "--on", "nats", *bug]
    _, answer, said = zab(environment, tmp_path, *words)
    found = judgements(answer)
    assert answer["verdict"] == verdict, (answer["reasons"], said)
    assert found["durability"] in durability, answer["reasons"]
    assert found["fault took effect"] == "PASS"


@pytest.mark.sample
def test_a_conditional_write_is_refused_because_of_one_that_is_not_committed(
    environment: dict[str, str], tmp_path: Path
) -> None:
    words = [
        "run",
        str(EXAMPLE / "scenarios" / "refusals.toml"),
        "--on",
        "nats",
        *([] if syncs_always() else LAZY_SYNC),
    ]
    _, answer, said = zab(environment, tmp_path, *words)
    found = judgements(answer)
    assert (answer["verdict"], found["linearizable keys"]) == ("VIOLATION", "VIOLATION"), (answer["reasons"], said)
    assert found["durability"] == "PASS"
