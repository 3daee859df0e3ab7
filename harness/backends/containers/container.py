"""A container that ends, and one life of a node in a container of its own."""

import threading
from pathlib import Path
from signal import SIGCONT, SIGKILL, Signals
from typing import Any

import docker.errors

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.containers.engine import translate_errors
from zab_chaos.harness.backends.processes.life import KILL_SECONDS, Life, is_process_stopped
from zab_chaos.harness.machine.waiting import wait_until

SIGNALLED = 128  # the exit status of a container's init is this plus the signal that killed its child
CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")


class ContainerEnd:
    """The end of a running container. A thread waits for it, so that a look at `code` needs no request to the engine."""

    def __init__(self, container: Any, name: str) -> None:
        """`name`: of the thread."""
        self._container = container
        self._ended = threading.Event()
        self.code: int | None = None  # None: it runs; negative: the signal that ended it
        threading.Thread(target=self._await, name=name, daemon=True).start()

    def _await(self) -> None:
        try:
            status = int(self._container.wait(timeout=None)["StatusCode"])
        except (docker.errors.DockerException, OSError):
            # The container was removed, or the engine ended and the container with it.
            status = SIGNALLED + SIGKILL
        self.code = SIGNALLED - status if status > SIGNALLED else status
        self._ended.set()

    def gone(self) -> bool:
        """Return whether the container has ended."""
        return self.code is not None

    def wait(self, seconds: float) -> int | None:
        """Wait for the end, and return its code; None if the container still runs after so many seconds."""
        self._ended.wait(seconds)
        return self.code


class ContainerLife(Life):
    """One life of a node in a running container."""

    def __init__(self, node: int, life: int, log: Path, crash_at: str | None, container: Any) -> None:
        super().__init__(node, life, log, crash_at)
        self.container = container
        self._pid = int(container.attrs["State"]["Pid"])
        self._end = ContainerEnd(container, f"node-{node}-{life}")
        self._frozen = False

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def code(self) -> int | None:
        return self._end.code

    @property
    def stopped(self) -> bool:
        """Whether the node is frozen, by the kernel, or has stopped itself at an armed crash point."""
        return self._is_frozen() or (self.crash_at is not None and self.alive and self._has_stopped_itself())

    def _is_frozen(self) -> bool:
        """Return whether the harness has frozen the node and, if the kernel can be asked, nobody has woken it since."""
        return self._frozen and is_cgroup_frozen(self._pid) is not False

    def is_halted(self) -> bool:
        """Return whether the container's processes are frozen or stopped. If the kernel can't be asked, the engine is."""
        frozen = is_cgroup_frozen(self._pid)
        if frozen is None:
            with translate_errors(f"looking at node {self.node}"):
                self.container.reload()
            frozen = self.container.status == "paused"
        return frozen or self._has_stopped_itself()

    def _has_stopped_itself(self) -> bool:
        """Return whether one of the container's processes is stopped. The engine, which is slow, is asked only if the kernel
        can't be."""
        stopped = is_stopped_in_cgroup(self._pid)
        if stopped is not None:
            return stopped
        try:
            table = self.container.top(ps_args="-eo pid,stat,comm")
        except (docker.errors.DockerException, OSError):
            return False  # it has just ended
        state = table["Titles"].index("STAT")
        return any(row[state].startswith("T") for row in table["Processes"] or ())  # None: while it ends

    def signal(self, number: Signals) -> None:
        if number == SIGKILL and self.alive:
            self.ending = True
        if self.alive:
            with translate_errors(f"sending {number.name} to node {self.node}"):
                try:
                    self.container.kill(signal=number.name)
                except (docker.errors.NotFound, docker.errors.APIError) as error:
                    if error.status_code not in (404, 409):  # gone, or not running
                        raise

    def wait(self, seconds: float) -> int | None:
        return self._end.wait(seconds)

    def pause(self) -> None:
        """Freeze the container's cgroup: each of its processes stops at once, and no signal wakes it."""
        with translate_errors(f"freezing node {self.node}"):
            self.container.pause()
        self._frozen = True
        if not wait_until(lambda: self.is_halted() or not self.alive, KILL_SECONDS) or not self.alive:
            raise ClusterError(f"node {self.node} (pid {self.pid}) did not freeze")

    def resume(self) -> None:
        if not self._is_frozen():
            self.signal(SIGCONT)
        else:
            with translate_errors(f"waking node {self.node}"):
                self.container.unpause()
        self._frozen = False

    def release(self) -> None:
        """Do nothing: the disk is accessed through the container, so that stays until the next life or the end of the run."""


def is_cgroup_frozen(pid: int) -> bool | None:
    """Return whether the kernel has frozen the cgroup of a process; None if that can't be read here."""
    text = _read_cgroup(pid, "freezer", "freezer.state", "cgroup.events")
    return text if text is None else text.strip() == "FROZEN" or "frozen 1" in text.splitlines()


def is_stopped_in_cgroup(pid: int) -> bool | None:
    """Return whether any process of the cgroup of a process is stopped; None if that can't be read here."""
    text = _read_cgroup(pid, "freezer", "cgroup.procs", "cgroup.procs")
    return text if text is None else any(is_process_stopped(int(number)) for number in text.split())


def cgroup_cpu_quota(pid: int) -> int | None:
    """Return the microseconds of CPU time that the kernel lets a process's cgroup have in each period, -1 if it is not limited;
    None if that can't be read here."""
    text = _read_cgroup(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    return text if text is None else int(text.split()[0].replace("max", "-1"))


def _read_cgroup(pid: int, controller: str, name: str, unified_name: str) -> str | None:
    """Return the content of a file of a process's cgroup: `name` in the controller's own hierarchy, or else `unified_name`."""
    try:
        for line in (PROC / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return (CGROUPS / controllers / path.lstrip("/") / name).read_text()
            if not controllers and (file := CGROUPS / path.lstrip("/") / unified_name).is_file():
                return file.read_text()
    except OSError:
        return None
    return None
