"""What a foreign system's backend says of its nodes: how they end, what they survive, and which bug they have."""

import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.grammar import read
from zab_chaos.faults.scenario import Scenario, load
from zab_chaos.faults.wait_step import STATES
from zab_chaos.harness.backends import fitting
from zab_chaos.harness.backends.attributes import wrong_attributes
from zab_chaos.harness.backends.fitting import mistakes
from zab_chaos.harness.backends.system import Client, Place, SystemBackend
from zab_chaos.harness.backends.system.deployment import SystemCluster
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs import catalogue

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


class Interrupted(Script):
    stop_signal = signal.SIGINT


def stopped(backend: Script, tmp_path: Path, script: str) -> int:
    """Start a node that runs the script and stop it. Return its exit status."""
    place = Place(node=1, listen="", client="", address="", peers={}, data=tmp_path / "data", defect=script)
    folder = RunFolder(tmp_path / f"run of {backend.stop_signal.name}")
    cluster = SystemCluster(backend, {1: place}, folder, None)
    folder.path.mkdir()
    log = folder.file("log")
    life: Any = cluster._start_life(1, 1, None, log)
    cluster._lives[1] = life
    assert wait_until(lambda: bool(log.read_bytes()), 20)  # it has set its handler
    return cluster.stop(1)


@pytest.mark.processes
@pytest.mark.parametrize(("script", "status"), [(ENDS_WITH.format(0), 0), (DIES, 0), (ENDS_WITH.format(3), 3)])
def test_a_node_may_end_by_the_signal_that_asks_it_to(tmp_path: Path, script: str, status: int) -> None:
    assert stopped(Script(), tmp_path, script) == status


CLEAN_AT_SIGINT = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5));"
    "signal.signal(signal.SIGINT, {}); print(flush=True); signal.pause()"
)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("at_sigint", "status"),
    [("lambda *_: sys.exit(0)", 0), ("signal.SIG_DFL", 0), ("lambda *_: sys.exit(3)", 3)],
)
def test_a_node_is_asked_to_end_by_the_signal_of_its_system(tmp_path: Path, at_sigint: str, status: int) -> None:
    assert stopped(Script(), tmp_path, CLEAN_AT_SIGINT.format(at_sigint)) == 5
    assert stopped(Interrupted(), tmp_path, CLEAN_AT_SIGINT.format(at_sigint)) == status


# A process with a session of its own, as a server of PostgreSQL starts them: its parent tells it to end.
PARENT = """
import signal, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"],
    start_new_session=True, stdout=subprocess.PIPE,
)
child.stdout.readline()
def end(*_):
    alive = child.poll() is None
    child.kill()
    sys.exit(0 if alive and child.wait() == -signal.SIGKILL else 7)
signal.signal(signal.SIGINT, end)
print(flush=True)
signal.pause()
"""


@pytest.mark.processes
def test_what_a_node_has_started_is_not_asked_to_end_by_the_harness(tmp_path: Path) -> None:
    assert stopped(Interrupted(), tmp_path, PARENT) == 0


ENDS_AT_ONCE = "import sys; sys.exit({})"
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "status"), [(ENDS_AT_ONCE.format(3), 65), (ENDS_AT_ONCE.format(0), 0), (KILLED, -signal.SIGKILL)]
)
def test_a_node_that_ends_by_itself_after_a_fault_has_damaged_its_files_refuses_them(
    tmp_path: Path, script: str, status: int
) -> None:
    data, nowhere = tmp_path / "run" / "data" / "node-1", "127.0.0.1:1"
    place = Place(node=1, listen=nowhere, client=nowhere, address=nowhere, peers={}, data=data, defect=script)
    folder = RunFolder(tmp_path / "run")
    folder.file("log").mkdir(parents=True)
    cluster = SystemCluster(Script(), {1: place}, folder, None)
    own = status if status <= 0 else 3
    cluster.start(1)
    assert cluster.wait_exit(1, 20) == own
    cluster.note_damage(1)
    assert cluster.wait_exit(1, 20) == own  # this life had whole files
    for _ in range(2):
        cluster.start(1)
        assert cluster.wait_exit(1, 20) == status
    cluster.wipe(1)
    assert [it.code for it in cluster.take_unexpected_ends()] == [own, status, status]
    cluster.start(1)
    assert cluster.wait_exit(1, 20) == own
    cluster.close()


def test_a_system_that_does_not_survive_a_wipe_can_not_be_wiped() -> None:
    assert Script().abilities - Frail().abilities == {Ability.WIPE}


class Files(Script):
    data_files: ClassVar = {"log": "wal/*.wal"}


class WrongFiles(Script):
    data_files: ClassVar = {"wal": "wal/*.wal", "snapshot": "../*.db"}


class WrongTypes(Script):
    """Mistakes of an author that a type checker would find."""

    operations: ClassVar = ["get", "set"]  # type: ignore[assignment]
    data_files: ClassVar = ["wal/*.wal"]
    other_ports = "1"  # type: ignore[assignment]
    survives_wipe = "no"  # type: ignore[assignment]
    stop_signal = signal.SIGSTOP
    environment: ClassVar = {"HOME": "/"}  # type: ignore[assignment]


def test_all_attributes_of_a_wrong_type_are_named() -> None:
    assert wrong_attributes(Files(), Files.forms) == []
    operations, *others = wrong_attributes(WrongTypes(), WrongTypes.forms)
    assert re.fullmatch(r"`operations` must be a set of names out of .*, not \['get', 'set'\]", operations)
    assert others == [
        "`survives_wipe` must be True or False, not 'no'",
        "`other_ports` must be a whole number from 0 on, not '1'",
        "`data_files` must be a dict of texts, such as {'name': 'text'}, not ['wal/*.wal']",
        "`stop_signal` must be a signal that asks a process to end, such as signal.SIGTERM or signal.SIGINT, not "
        f"{signal.SIGSTOP!r}",
        "`environment` must be a method, not {'HOME': '/'}",
    ]


DAMAGES = """
[scenario]
name = "damages"
about = "no"
[[fault]]
at = 1
do = "corrupt"
target = "node-1"
file = "{}"
"""


def scenario_that_damages(kind: str) -> Scenario:
    return read(DAMAGES.format(kind), "damages.toml", None)


def test_the_files_that_faults_may_damage_are_named_by_the_backend(tmp_path: Path) -> None:
    assert Files().abilities - Script().abilities == {Ability.DISK_FILES}
    assert mistakes(Files(), scenario_that_damages("log")) == []
    assert mistakes(Files(), scenario_that_damages("any")) == []
    assert mistakes(Files(), scenario_that_damages("snapshot")) == [
        "corrupt with file = snapshot can't be done on script, whose `data_files` have no snapshot"
    ]
    (records,) = mistakes(Files(), scenario_that_damages("record-header"))
    assert "script has no log whose records can be told apart" in records
    found = "; ".join(mistakes(WrongFiles(), scenario_that_damages("any")))
    for part in ("has 'wal': 'wal/*.wal'", "has 'snapshot': '../*.db'", "`data_files` of script has no 'log'"):
        assert part in found


class Led(Script):
    def leader(self, places: Sequence[Place]) -> int | None:
        raise NotImplementedError


WAITS = """
[scenario]
name = "waits"
about = "no"
[[fault]]
at = 1
do = "wait"
target = "node-1"
state = "{}"
"""


@pytest.mark.parametrize("state", [*STATES, "down"])
def test_a_wait_for_a_state_that_the_leader_does_not_tell_is_refused(state: str) -> None:
    (step,) = read(WAITS.format(state), "waits.toml", None).faults
    refused = [
        f"wait with state = {state} can't be done on script; it can be done on processes, sim, lockstep, containers, zookeeper "
        "(script has no way to read a running node's own role and log)"
    ]
    assert fitting.step_mistakes(Led(), step) == (refused if state in ("looks", "ahead", "level") else [])


def test_the_scenarios_that_the_page_names_work_on_a_system_with_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "missing_requirement", lambda **_: None)
    page = (Path(__file__).resolve().parents[5] / "docs/backends.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"Those of our scenarios work that need no\s+more, such as (.*?)\.", page, re.DOTALL)
    named = re.findall(r"`([\w-]+)`", sentence)
    assert named
    shipped = catalogue.shipped()
    assert [wrong for name in named for wrong in mistakes(Led(), load(shipped[name]))] == []
