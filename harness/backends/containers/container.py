"""One life of one node in a container of its own."""

import threading
from pathlib import Path
from signal import SIGCONT, SIGKILL, Signals
from typing import Any

import docker.errors

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.containers.engine import translated
from zab_chaos.harness.backends.processes.life import KILL_SECONDS, Life
from zab_chaos.harness.machine.waiting import wait_until

SIGNALLED = 128  # an init's exit status is this plus the signal of which its child died
CGROUPS = Path("/sys/fs/cgroup")


class ContainerLife(Life):
    """`container` runs. A thread waits for its end, so that asking whether it lives costs nothing."""

    def __init__(self, node: int, life: int, log: Path, crash_at: str | None, container: Any) -> None:
        super().__init__(node, life, log, crash_at)
        self.container = container
        self._pid = int(container.attrs["State"]["Pid"])
        self._code: int | None = None
        self._over = threading.Event()
        self._frozen = False
        threading.Thread(target=self._await_end, name=f"node-{node}-{life}", daemon=True).start()

    def _await_end(self) -> None:
        try:
            status = int(self.container.wait(timeout=None)["StatusCode"])
        except (docker.errors.DockerException, OSError):  # it was removed, or the engine ended: then it is gone too
            status = SIGNALLED + SIGKILL
        self._code = SIGNALLED - status if status > SIGNALLED else status
        self._over.set()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def code(self) -> int | None:
        return self._code

    @property
    def stopped(self) -> bool:
        """Frozen by us, or stopped by itself at a point that was armed: only then is the engine asked."""
        return self._frozen or (self.crash_at is not None and self.alive and self._stopped_itself())

    def stands_still(self) -> bool:
        """Whether its processes stand still, as the kernel says; where its word can't be read, as the engine does."""
        frozen = frozen_cgroup(self._pid)
        if frozen is None:
            with translated(f"looking at node {self.node}"):
                self.container.reload()
            frozen = self.container.status == "paused"
        return frozen or self._stopped_itself()

    def _stopped_itself(self) -> bool:
        try:
            told = self.container.top(ps_args="-eo pid,stat,comm")
        except (docker.errors.DockerException, OSError):
            return False  # it has just ended
        state = told["Titles"].index("STAT")
        return any(row[state].startswith("T") for row in told["Processes"])

    def signal(self, number: Signals) -> None:
        if number == SIGKILL and self.alive:
            self.ending = True
        if self.alive:
            with translated(f"sending {number.name} to node {self.node}"):
                try:
                    self.container.kill(signal=number.name)
                except (docker.errors.NotFound, docker.errors.APIError) as error:
                    if error.status_code not in (404, 409):  # gone, or not running
                        raise

    def wait(self, seconds: float) -> int | None:
        self._over.wait(seconds)
        return self._code

    def pause(self) -> None:
        """Freeze its cgroup: every process of the container stops where it is, and no signal wakes it."""
        with translated(f"freezing node {self.node}"):
            self.container.pause()
        self._frozen = True
        if not wait_until(lambda: self.stands_still() or not self.alive, KILL_SECONDS) or not self.alive:
            raise ClusterError(f"node {self.node} (pid {self.pid}) did not freeze")

    def resume(self) -> None:
        if not self._frozen:
            self.signal(SIGCONT)
            return
        with translated(f"waking node {self.node}"):
            self.container.unpause()
        self._frozen = False

    def release(self) -> None:
        """The container stays until the next life or the run's end: through it one reaches its disk."""


def frozen_cgroup(pid: int) -> bool | None:
    """Whether the kernel has frozen this process's cgroup; None if it is not to be seen from here."""
    try:
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                return (CGROUPS / "freezer" / path.lstrip("/") / "freezer.state").read_text().strip() == "FROZEN"
            if not controllers and (events := CGROUPS / path.lstrip("/") / "cgroup.events").is_file():
                return "frozen 1" in events.read_text().splitlines()
    except OSError:
        return None
    return None
