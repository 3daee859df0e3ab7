"""The example for PostgreSQL (examples/postgresql): each of its levels of isolation keeps what it promises, and no more."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.test_example_backend import ROOT, installed, judgements, shortened, zab
from tests.mounted import possible

EXAMPLE = ROOT / "examples" / "postgresql"
SERVERS = [*Path("/usr/lib/postgresql").glob("*/bin/postgres"), *filter(None, [shutil.which("postgres")])]


def runs_as_a_user() -> bool:
    """Return whether PostgreSQL, which refuses to run as root, can be made to believe that it does not."""
    if os.geteuid() != 0:
        return True
    command = ["unshare", "--user", "--map-user=postgres", "--map-group=postgres", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.servers,
    pytest.mark.processes,
    pytest.mark.toxiproxy,
    pytest.mark.skipif(not SERVERS, reason="there is no PostgreSQL (apt-get install postgresql)"),
    pytest.mark.skipif(bool(SERVERS) and not runs_as_a_user(), reason="root can have no user namespaces here"),
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path, EXAMPLE, "postgresql = postgresql_chaos:PostgreSQL")


@pytest.mark.parametrize("scenario", ["serializable", "repeatable-read"])
def test_its_levels_keep_what_they_promise_when_the_primary_is_killed(
    environment: dict[str, str], tmp_path: Path, scenario: str
) -> None:
    words = ["run", shortened(EXAMPLE, scenario, tmp_path, faults=1, seconds=4), "--on", "postgresql"]
    code, answer, said = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (0, "PASS"), (answer["reasons"], said)
    found = judgements(answer)
    assert {found[name] for name in ("isolation", "durability", "progress", "fault took effect")} == {"PASS"}


@pytest.mark.parametrize(
    ("scenario", "level", "anomalies"),
    [
        pytest.param("write-skew", "repeatable-read", {"G2 (write skew)"}, marks=pytest.mark.sample),
        (
            "repeatable-read",
            "read-committed",
            {"G-single (read skew)", "G-nonadjacent (long read skew)", "P4 (lost update)"},
        ),
    ],
)
def test_a_weaker_level_than_was_promised_is_found(
    environment: dict[str, str], tmp_path: Path, scenario: str, level: str, anomalies: set[str]
) -> None:
    words = [
        "run",
        shortened(EXAMPLE, scenario, tmp_path, faults=0, seconds=3),
        "--on",
        "postgresql",
        "--defect",
        level,
    ]
    code, answer, said = zab(environment, tmp_path, *words)
    assert (code, judgements(answer)["isolation"]) == (1, "VIOLATION"), (answer["reasons"], said)
    (isolation,) = [item for item in answer["properties"] if item["name"] == "isolation"]
    assert {one["words"].partition(":")[0] for one in isolation["violations"]} <= anomalies
    assert {name for name, verdict in judgements(answer).items() if verdict == "VIOLATION"} == {"isolation"}


@pytest.mark.fuse
@pytest.mark.parametrize(
    ("defect", "verdict", "durability"),
    [
        ([], "PASS", {"PASS"}),
        pytest.param(["--defect", "no-fsync"], "VIOLATION", {"VIOLATION", "UNKNOWN"}, marks=pytest.mark.sample),
    ],
)
def test_it_has_synced_what_it_has_confirmed(
    environment: dict[str, str], tmp_path: Path, defect: list[str], verdict: str, durability: set[str]
) -> None:
    """Without a sync the primary may also be behind its standbys. Then no commit ends any more, and nobody can tell what was
    lost."""
    possible()
    words = ["run", shortened(EXAMPLE, "outage", tmp_path, faults=1, seconds=4), "--on", "postgresql", *defect]
    _, answer, said = zab(environment, tmp_path, *words)
    found = judgements(answer)
    assert answer["verdict"] == verdict, (answer["reasons"], said)
    assert found["durability"] in durability
    assert found["fault took effect"] == "PASS"
