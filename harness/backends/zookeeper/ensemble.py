"""An ensemble of real ZooKeeper servers, each a process of this machine."""

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.process import CORRUPT_EXIT
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.backends.processes.life import Life
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.backends.zookeeper import four_letter_words, points, server_log
from zab_chaos.harness.backends.zookeeper.links import Meter
from zab_chaos.harness.backends.zookeeper.records import Life as PastLife
from zab_chaos.harness.backends.zookeeper.server import CRASHED, HOST, Plan, Server
from zab_chaos.harness.backends.zookeeper.server_log import Differs, Led
from zab_chaos.harness.backends.zookeeper.txnlog import LogEnd, read_disk
from zab_chaos.harness.results.run_folder import RunFolder

REFUSED = "Unable to load database on disk"  # what a server says that does not go on with what it finds
LOG_LINES = 200
ASKED = 128 + signal.SIGTERM  # the exit status of a JVM that ends because of SIGTERM


class Servers(ProcessCluster):
    """Each server is a process, and its disk a folder of the run.

    `meter`: how many bytes have come through to a server from each other one, for `Status.frames`. A server says little of
    itself, so a status says little: see `status`.
    """

    start_seconds = 60.0  # a JVM on a busy machine takes its time
    crashed = CRASHED

    def __init__(self, folder: RunFolder, plan: Plan, meter: Meter, disks: Disks | None = None) -> None:
        super().__init__(folder, plan.nodes, faithful=False, disks=disks)
        self._plan = plan
        self._meter = meter
        self._servers = {node: Server(folder, plan, node) for node in self.nodes}
        self._past = _Past(self)
        self._ends = {node: LogEnd(self.data(node)) for node in self.nodes}
        self._armed: dict[tuple[int, int], dict[str, str]] = {}  # by (node, life): the action at each armed point

    # What is

    def life(self, node: int) -> int:
        """The number of its latest life; 0 before the first."""
        return self._lives[node].life if node in self._lives else 0

    def client_address(self, node: int) -> str:
        """Where clients connect: directly, so that a fault of the links is never one of the clients."""
        return self._servers[node].client_address

    def disk_folder(self, node: int) -> str:
        self._past.settle(node)
        return super().disk_folder(node)

    def past(self, trees: Mapping[int, str]) -> list[PastLife]:
        """All lives so far, with what the disks held; of servers that are up, as it is now. `trees`: the digests of what they
        have shown."""
        for node in self.nodes:
            self._past.settle(node)
        return self._past.all(trees)

    def led(self, life: PastLife) -> list[Led]:
        """The epochs for which a life was established as the leader, by its log."""
        return list(server_log.led(self.log(life.node, life.life), life.node, life.life))

    def differs(self, life: PastLife) -> list[Differs]:
        """What a life has found to be different in its tree from its leader's, by its log."""
        return list(server_log.differs(self.log(life.node, life.life), life.node, life.life))

    def data(self, node: int) -> Path:
        """Where its disk is."""
        return self._servers[node].data

    def epochs(self, node: int) -> tuple[int, int]:
        """(acceptedEpoch, currentEpoch) on its disk."""
        return self._servers[node].epochs()

    def srvr(self, node: int, timeout: float = 2.0) -> four_letter_words.ServerState | None:
        """What it answers to `srvr`; None if it is not up or does not answer in time."""
        return four_letter_words.srvr(self.client_address(node), timeout) if self.alive(node) else None

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        """None if it is not up or does not answer in time, or it can't be told what has come through to it. A server that
        does not serve is LOOKING, whatever it does: it does not say. Digests are not known."""
        status = self.role(node, timeout)
        if status is None:
            return None
        logged = max(status.delivered, divmod(self._ends[node].zxid(), 1 << 32))
        try:
            return replace(status, last_zxid=logged, frames=self._meter.passed(node))
        except NetworkError:
            return None

    def role(self, node: int, timeout: float = 2.0) -> Status | None:
        """Its status, without what has come through to it."""
        life = self._lives.get(node)
        told = self.srvr(node, timeout)
        if life is None or told is None:
            return None
        accepted, current = self.epochs(node)
        zxid = divmod(told.zxid or 0, 1 << 32)
        role = {"leader": "LEADING", "standalone": "LEADING", "follower": "FOLLOWING"}.get(told.mode or "", "LOOKING")
        return Status(
            node=node,
            life=life.life,
            role=role,
            phase="BROADCAST" if told.serving else "ELECTION",
            leader=node if role == "LEADING" else self._followed(life) if role == "FOLLOWING" else None,
            epoch=current,
            accepted_epoch=accepted,
            last_zxid=zxid,
            delivered=zxid,
            digest="",
            tree="",
            established=told.serving,
            amnesiac=False,
            frames={},
            armed=list(self._armed.get((node, life.life), [])),
            unsynced_bytes=0,
        )

    def ended_by_itself(self, node: int) -> int | None:
        """The exit status of its latest life, if nobody has told it to end."""
        life = self._lives.get(node)
        return life.code if life is not None and not life.ending else None

    def _followed(self, life: Life) -> int | None:
        """Whom it is connected to on a quorum port; a server does not say it in words."""
        leaders = {port.quorum: node for node, port in self._plan.ports.items() if node != life.node}
        try:
            found = psutil.Process(life.pid).net_connections("tcp4")
        except psutil.Error:
            return None
        meant = [leaders[one.raddr.port] for one in found if one.raddr and one.raddr.port in leaders]
        return meant[0] if meant else None

    # What is done to it

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        self._past.settle(node)
        try:
            self._meter.begin(node)
        except NetworkError as error:
            raise ClusterError(str(error)) from error
        began, disk = time.monotonic_ns(), read_disk(self.data(node))
        self._armed[node, number] = {crash_at: "crash"} if crash_at is not None else {}
        life = self._servers[node].spawn(number, crash_at, log)
        self._past.begin(PastLife(node=node, life=number, began=began, ended=began, before=disk, after=disk))
        return life

    def _await_answers(self, nodes: Sequence[int]) -> None:
        super()._await_answers(nodes)
        for node in nodes:
            self._keep_private(node)

    def _keep_private(self, node: int) -> None:
        """No server is left that others than this machine can reach: then the rule did not work that keeps it from that."""
        life = self._lives[node]
        try:
            found = psutil.Process(life.pid).net_connections("inet")
        except psutil.Error:
            return  # it has ended meanwhile
        beyond = [one.laddr for one in found if one.status == psutil.CONN_LISTEN and one.laddr.ip != HOST]
        if beyond:
            life.kill()
            raise ClusterError(
                f"server {node} listens at {beyond[0].ip}:{beyond[0].port}, beyond this machine; it was ended"
            )

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        """Commands of the disk; and `arm` and `disarm` a point."""
        answer = self._command_disk_only(node, command, arguments)
        if answer is not None:
            return answer
        if command not in ("arm", "disarm"):
            raise ClusterError(f"a ZooKeeper server has no control port: {command} cannot be given to server {node}")
        point, armed = arguments["point"], self._armed[node, self._running_life(node).life]
        port = self._plan.ports[node].agent
        if command == "arm":
            action = arguments["action"]
            rule = points.rule(point, action, self._plan.release.numbers)
            points.submit(port, "LOAD", rule, lambda: not self.alive(node) or self.paused(node))
            armed[point] = action
        elif point in armed:
            points.submit(port, "DELETE", points.rule(point, armed.pop(point), self._plan.release.numbers))
        return {}

    def stop(self, node: int) -> int:
        """0 if it ended as it was asked to, of which a JVM says 143."""
        status = super().stop(node)
        return 0 if status == ASKED else status

    def wait_exit(self, node: int, timeout: float) -> int | None:
        """As our own nodes say it: a server that has refused its disk ended with `CORRUPT_EXIT`."""
        code = super().wait_exit(node, timeout)
        refused = code not in (None, CRASHED) and code >= 0 and REFUSED in self.words_of(node)
        return CORRUPT_EXIT if refused else code

    def words_of(self, node: int) -> str:
        """The log of its latest life."""
        return self._lives[node].last_words(LOG_LINES)

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        statuses = super().kill_all(nodes)
        for node in nodes:
            self._past.settle(node)
        return statuses


class _Past:
    """What is known of each life. A disk is read before a life begins, and before anything is done to it after its end."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._lives: dict[tuple[int, int], PastLife] = {}
        self._open: set[tuple[int, int]] = set()

    def begin(self, life: PastLife) -> None:
        self._lives[life.node, life.life] = life
        self._open.add((life.node, life.life))

    def settle(self, node: int) -> None:
        """The disk as it is, when it can't change any more by its server's doing."""
        key = node, self._servers.life(node)
        if key in self._open and not self._servers.alive(node):
            self._open.remove(key)
            code = self._servers.ended_by_itself(node)
            why = server_log.reason(self._servers.log(*key)) if code is not None else None
            disk = read_disk(self._servers.data(node))
            self._lives[key] = replace(self._lives[key], ended=time.monotonic_ns(), after=disk, code=code, why=why)

    def all(self, trees: Mapping[int, str]) -> list[PastLife]:
        now = time.monotonic_ns()
        for node, life in self._open:
            seen = replace(self._lives[node, life], ended=now, after=read_disk(self._servers.data(node)))
            self._lives[node, life] = replace(seen, tree=trees.get(node))
        return [life for _, life in sorted(self._lives.items())]
