"""What a foreign system's backend says of its nodes: how they end, what they survive, and which bug they have."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.abilities import Ability
from zab_chaos.harness.backends.system import Client, Place, SystemBackend
from zab_chaos.harness.backends.system.deployment import SystemCluster
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder

ENDS_WITH = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit({})); print(flush=True); signal.pause()"
)
DIES = "import signal; print(flush=True); signal.pause()"


class Script(SystemBackend):
    """A system whose defect is the script that its nodes run."""

    name = "script"

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        assert defect == place.defect
        return [sys.executable, "-c", str(defect)]

    def client(self, place: Place, timeout: float) -> Client:
        raise NotImplementedError


class Frail(Script):
    survives_wipe = False


@pytest.mark.processes
@pytest.mark.parametrize(("script", "status"), [(ENDS_WITH.format(0), 0), (DIES, 0), (ENDS_WITH.format(3), 3)])
def test_a_node_may_end_by_the_signal_that_asks_it_to(tmp_path: Path, script: str, status: int) -> None:
    place = Place(node=1, listen="", client="", address="", peers={}, data=tmp_path / "data", defect=script)
    folder = RunFolder(tmp_path / "run")
    cluster = SystemCluster(Script(), {1: place}, folder, None)
    log = tmp_path / "log"
    folder.path.mkdir()
    life: Any = cluster._start_life(1, 1, None, log)
    cluster._lives[1] = life
    assert wait_until(lambda: bool(log.read_bytes()), 20)  # it has set its handler
    assert cluster.stop(1) == status


def test_a_system_that_does_not_survive_a_wipe_can_not_be_wiped() -> None:
    assert Script().abilities - Frail().abilities == {Ability.WIPE}
