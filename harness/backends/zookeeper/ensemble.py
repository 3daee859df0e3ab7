"""An ensemble of real ZooKeeper servers, each a process of this machine."""

import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.faults.network import NetworkError
from zab_chaos.harness.backends.ensemble_state import names
from zab_chaos.harness.backends.processes.life import Life
from zab_chaos.harness.backends.processes.lives import Ended
from zab_chaos.harness.backends.zookeeper import words
from zab_chaos.harness.backends.zookeeper.records import Life as PastLife
from zab_chaos.harness.backends.zookeeper.server import CRASHED, HOST, Plan, Server, way
from zab_chaos.harness.backends.zookeeper.txnlog import read_disk
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder

START_SECONDS = 60.0  # from the spawn to the first answer; a JVM on a busy machine takes its time
ANSWER_SECONDS = 0.5  # for one attempt to reach a server that is starting
STOP_SECONDS = 10.0  # what a server gets to end by itself

Passed = Callable[[int], Mapping[int, int]]  # what has come through to a server, by sender


def _nothing(_node: int) -> Mapping[int, int]:
    return {}


class Servers:
    """Implements `zab_chaos.faults.cluster.Cluster`.

    The main thread drives it; any thread may ask how it is. `passed`: how many bytes have come through to a server from each
    other one, for `Status.frames`. A server says little of itself, so a status says little: see `status`.
    """

    faithful = False

    def __init__(self, folder: RunFolder, plan: Plan, passed: Passed = _nothing) -> None:
        self.nodes: Sequence[int] = plan.nodes
        self._plan = plan
        self._passed = passed
        self._servers = {node: Server(folder, plan, node) for node in self.nodes}
        self._lives: dict[int, Life] = {}
        self._reported: set[tuple[int, int]] = set()
        self._past = _Past(self)

    # What is

    def alive(self, node: int) -> bool:
        life = self._lives.get(node)
        return life is not None and life.alive

    def pid(self, node: int) -> int | None:
        life = self._lives.get(node)
        return life.pid if life is not None and life.alive else None

    def paused(self, node: int) -> bool:
        life = self._lives.get(node)
        return life is not None and life.alive and life.stopped

    def life(self, node: int) -> int:
        """The number of its latest life; 0 before the first."""
        return self._lives[node].life if node in self._lives else 0

    def client_address(self, node: int) -> str:
        """Where clients connect: directly, so that a fault of the links is never one of the clients."""
        return self._servers[node].client_address

    def link_address(self, source: int, target: int) -> tuple[str, str]:
        """Of the quorum port; the election port has a proxy of its own."""
        port = self._plan.ports[target].quorum
        return f"{way(source, target) if self._plan.proxied else HOST}:{port}", f"{HOST}:{port}"

    def disk_folder(self, node: int) -> str:
        self._past.settle(node)
        return str(self._servers[node].data)

    def past(self, trees: Mapping[int, str]) -> list[PastLife]:
        """All lives so far, with what the disks held; of servers that are up, as it is now. `trees`: the digests of what they
        have shown."""
        for node in self.nodes:
            self._past.settle(node)
        return self._past.all(trees)

    def data(self, node: int) -> Path:
        """Where its disk is."""
        return self._servers[node].data

    def epochs(self, node: int) -> tuple[int, int]:
        """(acceptedEpoch, currentEpoch) on its disk."""
        return self._servers[node].epochs()

    def words(self, node: int, timeout: float = 2.0) -> words.Words | None:
        """What it says of itself; None if it is not up or does not answer in time."""
        return words.state(self.client_address(node), timeout) if self.alive(node) else None

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        """None if it is not up or does not answer in time, or it can't be told what has come through to it. A server that
        does not serve is LOOKING, whatever it does: it does not say. Digests are not known."""
        status = self._status(node, timeout)
        try:
            return status and replace(status, frames=dict(self._passed(node)))
        except NetworkError:
            return None

    def _status(self, node: int, timeout: float) -> Status | None:
        life = self._lives.get(node)
        told = self.words(node, timeout)
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
            armed=[life.crash_at] if life.crash_at is not None else [],
            unsynced_bytes=0,
        )

    def leader(self) -> int | None:
        """The serving leader of the highest epoch, if a quorum serves under it."""
        answers = [
            status for node in self.nodes if not self.paused(node) and (status := self._status(node, 2.0)) is not None
        ]
        leading = [status for status in answers if status.role == "LEADING"]
        if not leading:
            return None
        newest = max(leading, key=lambda status: status.epoch)
        with_it = [status for status in answers if status.leader == newest.node]
        return newest.node if len(with_it) > len(self.nodes) // 2 else None

    def ended(self) -> list[Ended]:
        """Servers that ended without being told to, since this was last asked."""
        found = []
        for node, life in self._lives.items():
            code = life.code
            if code is None or life.ending or (node, life.life) in self._reported:
                continue
            self._reported.add((node, life.life))
            found.append(Ended(node, life.life, code, life.crash_at is not None and code == CRASHED))
        return found

    def last_words(self, node: int) -> str:
        """The end of the log of the server's latest life."""
        return self._lives[node].last_words()

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

    def start(self, node: int, crash_at: str | None = None) -> None:
        """Start the server's next life and wait until it answers, or has ended by itself (which `ended` then reports)."""
        self._spawn(node, crash_at)
        self._await([node])

    def start_all(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._spawn(node, None)
        self._await(nodes)

    def _spawn(self, node: int, crash_at: str | None) -> None:
        last = self._lives.get(node)
        if last is not None and last.alive:
            raise ClusterError(f"server {node} is to be started but is up (pid {last.pid})")
        self._past.settle(node)
        number = 1 if last is None else last.life + 1
        began, disk = time.monotonic_ns(), read_disk(self.data(node))
        self._lives[node] = self._servers[node].spawn(number, crash_at)
        self._past.begin(PastLife(node=node, life=number, began=began, ended=began, before=disk, after=disk))

    def _await(self, nodes: Sequence[int]) -> None:
        def settled(node: int) -> bool:
            return not self.alive(node) or self.words(node, ANSWER_SECONDS) is not None

        deadline = time.monotonic() + START_SECONDS
        for node in nodes:
            if not wait_until(partial(settled, node), deadline - time.monotonic()):
                raise ClusterError(
                    f"server {node} does not answer {START_SECONDS:.0f} s after its start. The end of its log:\n"
                    + self.last_words(node)
                )
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
        raise ClusterError(f"a ZooKeeper server has no control port: {command} cannot be given to server {node}")

    def kill(self, node: int) -> int:
        return self.kill_all([node])[node]

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        """The signals first, then the waiting: for the servers it is one instant. One that is gone keeps its status."""
        missing = [node for node in nodes if node not in self._lives]
        if missing:
            raise ClusterError(f"{names(missing)} cannot be killed: never started")
        lives = [self._lives[node] for node in nodes]
        for life in lives:
            life.signal(signal.SIGKILL)
        statuses = {life.node: life.kill() for life in lives}
        for node in nodes:
            self._past.settle(node)
        return statuses

    def pause(self, node: int) -> None:
        self._up(node).pause()

    def resume(self, node: int) -> None:
        self._up(node).resume()

    def stop(self, node: int) -> int:
        return self._up(node).end(STOP_SECONDS)

    def wait_exit(self, node: int, timeout: float) -> int | None:
        life = self._lives.get(node)
        if life is None or not wait_until(lambda: not life.alive, timeout):
            return None
        return life.code

    def wipe(self, node: int) -> None:
        if self.alive(node):
            raise ClusterError(f"server {node} is up; its disk can be wiped when it is down")
        try:
            shutil.rmtree(self.disk_folder(node))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ClusterError(f"the disk of server {node} cannot be wiped: {error}") from error

    def close(self, ask: bool = True) -> list[int]:
        """End all servers: all are asked at once, or killed at once. Returns those that were asked and killed."""
        up = [life for life in self._lives.values() if life.alive]
        for life in up:
            if ask:
                life.ask()
            else:
                life.signal(signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        exits = {life.node: life.end(max(0.0, deadline - time.monotonic())) for life in up}
        return [node for node, status in exits.items() if status == -signal.SIGKILL and ask]

    def ended_by_itself(self, node: int) -> int | None:
        """The exit status of its latest life, if nobody has told it to end."""
        life = self._lives.get(node)
        return life.code if life is not None and not life.ending else None

    def _up(self, node: int) -> Life:
        life = self._lives.get(node)
        if life is None or not life.alive:
            raise ClusterError(f"server {node} is not up")
        return life


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
            self._lives[key] = replace(
                self._lives[key], ended=time.monotonic_ns(), after=read_disk(self._servers.data(node)), code=code
            )

    def all(self, trees: Mapping[int, str]) -> list[PastLife]:
        now = time.monotonic_ns()
        for node, life in self._open:
            seen = replace(self._lives[node, life], ended=now, after=read_disk(self._servers.data(node)))
            self._lives[node, life] = replace(seen, tree=trees.get(node))
        return [life for _, life in sorted(self._lives.items())]
