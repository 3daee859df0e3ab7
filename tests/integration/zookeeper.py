"""Ensembles of real ZooKeeper servers for the tests, which are skipped where none can be had."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.backends.zookeeper.stage import Stage
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results import run_folder

PATIENCE = 60.0  # for what must come about; a black-holed connection alone takes several seconds


def release(version: str) -> releases.Release:
    """The release, fetched if need be; without Java, or out of a registry's reach, the test is skipped."""
    try:
        releases.find_java()
        return releases.locate(version)
    except HarnessError as error:
        pytest.skip(str(error))


@contextmanager
def stage(results: Path, version: str = "3.9.4", nodes: int = 3, **settings: str) -> Iterator[Stage]:
    """No server is started yet; in the end none is left, whatever has happened."""
    with Stage(run_folder.create(results, "zookeeper", 1), release(version), nodes, settings) as standing:
        yield standing


def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    assert wait_until(lambda: bool(condition()), seconds, 0.05), "it did not come about in time"


def formed(standing: Stage) -> int:
    """Start all servers; the leader, when all serve."""
    standing.servers.start_all(standing.servers.nodes)
    return led(standing)


def led(standing: Stage) -> int:
    """The leader, when all servers serve under one."""
    servers = standing.servers

    def all_serve() -> bool:
        answers = [servers.status(node) for node in servers.nodes]
        return len({answer.leader if answer is not None else None for answer in answers} - {None}) == 1 and all(
            answer is not None and answer.established for answer in answers
        )

    eventually(all_serve)
    leader = servers.leader()
    assert leader is not None
    return leader
