"""An ensemble of Apache ZooKeeper servers, each a process on this machine."""

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from zab_chaos.faults.at_rest import ZOOKEEPER_FILES
from zab_chaos.faults.cluster import FOLLOWS, ClusterError, Status
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.backends.processes.life import Life
from zab_chaos.harness.backends.processes.released_cluster import ReleasedCluster
from zab_chaos.harness.backends.run_releases import RunReleases
from zab_chaos.harness.backends.zookeeper import four_letter_words, membership, points, server_log
from zab_chaos.harness.backends.zookeeper.evidence import ServerLife
from zab_chaos.harness.backends.zookeeper.releases import locate
from zab_chaos.harness.backends.zookeeper.server import CRASHED, HEAP, HOST, Plan, ZooKeeperServer
from zab_chaos.harness.backends.zookeeper.txnlog import LogEnd, read_disk, read_epochs
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.machine.connections import sockets
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.store.errors import CORRUPT_EXIT

DISK_REFUSED = "Unable to load database on disk"  # log line of a server that refuses to start with its disk
LOG_LINES = 200


class ZooKeeperCluster(ReleasedCluster):
    """The servers of a run: each is a process, and its disk a folder of the run.

    ZooKeeper reports little about itself, so a status has little, too: see `status`. What servers receive from each other is
    counted by the proxies between them.
    """

    start_seconds = 60.0  # a JVM starts slowly on a busy machine
    crashed = CRASHED
    terminated = 128 + signal.SIGTERM  # that of a JVM
    disk_files = ZOOKEEPER_FILES

    def __init__(
        self, folder: RunFolder, plan: Plan, disks: Disks | None = None, releases: RunReleases | None = None
    ) -> None:
        """`releases`: those of the run; None: that of the plan only."""
        only = RunReleases(plan.release.version, plan.release.version)
        super().__init__(folder, plan.nodes, disks, releases or only)
        self.voters = plan.voters
        self._plan = plan
        self._programs = dict.fromkeys(self.nodes, plan.release)  # what each server is of, from its next start on
        self._servers = {node: ZooKeeperServer(folder, plan, node) for node in self.nodes}
        self._records: dict[tuple[int, int], ServerLife] = {}  # by (node, life)
        self._running: set[tuple[int, int]] = set()  # those of `_records` whose end is not recorded yet
        self._memory_checked: set[tuple[int, int]] = set()  # those in whose logs `check_memory` has found nothing
        self._seen_ended: dict[tuple[int, int], int] = {}  # by (node, life): when it was first seen to have ended
        self._log_ends = {node: LogEnd(self._data(node)) for node in self.nodes}
        self._armed: dict[tuple[int, int], set[tuple[str, str]]] = {}  # by (node, life): crash points and their actions

    # Queries

    def client_address(self, node: int) -> str:
        """Return the address for clients. It is the server's own, not a proxy's, so that link faults never affect clients."""
        return self._servers[node].client_address

    def disk_folder(self, node: int) -> str:
        self._record_end(node)
        return super().disk_folder(node)

    def recorded_lives(self, trees: Mapping[int, str]) -> list[ServerLife]:
        """Return all lives so far, with what their disks held; servers that are up are recorded as they are now.

        `trees` has the digests of the trees that servers have shown.
        """
        for node in self.nodes:
            self._record_end(node)
        now = time.monotonic_ns()
        for node, life in self._running:
            disk = read_disk(self._data(node))
            self._records[node, life] = replace(
                self._records[node, life], ended=now, disk_after=disk, tree=trees.get(node)
            )
        return [life for _, life in sorted(self._records.items())]

    def _record_end(self, node: int) -> None:
        """Read the disk once the server's process is gone, before anything else is done to it; do nothing if it is up or its
        end is recorded already."""
        life = self._lives.get(node)
        if life is None or life.alive or (node, life.life) not in self._running:
            return
        key = node, life.life
        self._running.remove(key)
        code = None if life.ending else life.code  # None: the harness has ended it
        why = server_log.exit_reason(self.log(*key)) if code is not None else None
        disk = read_disk(self._data(node))
        self._records[key] = replace(
            self._records[key], ended=self._seen_ended.get(key, time.monotonic_ns()), disk_after=disk, code=code, why=why,
            tree=None,  # one that it has shown before was another state, and what was logged since may not be committed
        )  # fmt: skip

    def _note_end(self, life: Life) -> None:
        """Note also the time; the disk is read later, by the main thread."""
        if not life.alive:
            self._seen_ended.setdefault((life.node, life.life), time.monotonic_ns())
        super()._note_end(life)

    def check_memory(self) -> None:
        """Raise HarnessError if a server that has ended had run out of memory: its heap is ours, and too small for the load."""
        lives = self._lives.copy()
        for node, life in self._records.keys() - self._memory_checked:
            if node not in lives or life > lives[node].life or (life == lives[node].life and lives[node].alive):
                continue
            log = self.log(node, life)
            said = server_log.out_of_memory(log)
            if said is not None:
                raise HarnessError(
                    f"node-{node} ran out of memory: {said} (log/{log.name}). This says nothing about ZooKeeper. The heap is "
                    f'{self._plan.heap}: give the servers more with java = {{ {HEAP} = "1g" }} in [zookeeper], or less to do '
                    "with rate, payload_bytes and max_outstanding in [workload]"
                )
            self._memory_checked.add((node, life))

    def epochs(self, node: int) -> tuple[int, int]:
        """Return (acceptedEpoch, currentEpoch) on the server's disk; 0 if the file is missing."""
        accepted, current = read_epochs(self._data(node))
        return accepted or 0, current or 0

    def srvr(self, node: int, timeout: float = 2.0) -> four_letter_words.ServerState | None:
        """Return the server's answer to `srvr`; None if it is not up or does not answer in time."""
        return four_letter_words.srvr(self.client_address(node), timeout) if self.alive(node) else None

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        """Return the server's status; None if it is down or does not answer in time.

        A server that does not serve is shown as LOOKING: ZooKeeper does not tell more. Digests are not known.
        """
        status = self.role_status(node, timeout)
        if status is None:
            return None
        logged = max(status.delivered, divmod(self._log_ends[node].zxid(), 1 << 32))
        return replace(status, last_zxid=logged)

    def role_status(self, node: int, timeout: float = 2.0) -> Status | None:
        """Return the server's status without the end of its log; None as for `status`."""
        life = self._lives.get(node)
        state = self.srvr(node, timeout)
        if life is None or state is None:
            return None
        accepted, current = self.epochs(node)
        zxid = divmod(state.zxid or 0, 1 << 32)
        return Status(
            node=node,
            life=life.life,
            role=state.role,
            phase="BROADCAST" if state.serving else "ELECTION",
            leader=node if state.role == "LEADING" else self._find_leader(life) if state.role in FOLLOWS else None,
            epoch=current,
            accepted_epoch=accepted,
            last_zxid=zxid,
            delivered=zxid,
            established=state.serving,
            armed=sorted(point for point, _ in self._armed.get((node, life.life), ())),
        )

    def _find_leader(self, life: Life) -> int | None:
        """Return the server to whose quorum port a follower is connected: no release reports its leader."""
        leaders = {port.quorum: node for node, port in self._plan.ports.items() if node != life.node}
        connected = [leaders[it.raddr.port] for it in sockets(life.pid) if it.raddr and it.raddr.port in leaders]
        return connected[0] if connected else None

    # Commands

    def install(self, node: int, release: str) -> str:
        try:
            program = locate(self._releases.named(release) if self._releases is not None else release)
        except (BadInput, HarnessError) as error:
            raise ClusterError(f"server {node} can't be of release {release}: {error}") from error
        name = super().install(node, release)
        self._programs[node] = program
        return name

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        self._record_end(node)
        began, disk = time.monotonic_ns(), read_disk(self._data(node))
        self._armed[node, number] = {(crash_at, "crash")} if crash_at is not None else set()
        life = self._servers[node].spawn(self._programs[node], number, crash_at, log)
        self._records[node, number] = ServerLife(
            node=node, life=number, began=began, ended=began, disk_before=disk, disk_after=disk
        )
        self._running.add((node, number))
        return life

    def _await_answers(self, nodes: Sequence[int]) -> None:
        super()._await_answers(nodes)
        for node in nodes:
            self._require_loopback(node)

    def _require_loopback(self, node: int) -> None:
        """Kill a server that other machines can reach, and raise ClusterError: the Byteman rule in `links.btm` did not work."""
        life = self._lives[node]
        listening = [it.laddr for it in sockets(life.pid, "inet") if it.status == psutil.CONN_LISTEN]
        beyond = [address for address in listening if address.ip != HOST]
        if beyond:
            life.kill()
            raise ClusterError(
                f"server {node} listened at {beyond[0].ip}:{beyond[0].port}, where other machines can reach it; it was killed"
            )

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        """Carry out a command of the disk, or arm or disarm a crash point with `arm` or `disarm`."""
        answer = self._command_disk_only(node, command, arguments)
        if answer is not None:
            return answer
        if command not in ("arm", "disarm"):
            raise ClusterError(f"a ZooKeeper server has no control port: {command} cannot be given to server {node}")
        point, action = arguments["point"], arguments["action"]
        armed = self._armed[node, self._running_life(node).life]
        port, rule = self._plan.ports[node].agent, points.rule(point, action, self._programs[node].numbers)
        if command == "arm":
            points.submit(port, "LOAD", rule, lambda: not self.alive(node) or self.paused(node))
            armed.add((point, action))
        elif (point, action) in armed:
            armed.remove((point, action))
            points.submit(port, "DELETE", rule)
        return {}

    def remove_members(self, nodes: Sequence[int], seconds: float) -> list[int]:
        leaving = ",".join(map(str, nodes))
        return membership.change(self._awake, lambda members: not {*nodes} & {*members}, seconds, leaving=leaving)

    def add_members(self, nodes: Sequence[int], seconds: float) -> list[int]:
        joining = ",".join(f"server.{node}={self._plan.member(node)}" for node in nodes)
        return membership.change(self._awake, lambda members: {*nodes} <= {*members}, seconds, joining=joining)

    def _awake(self) -> list[str]:
        """Return the addresses of the servers that serve."""
        states = ((node, self.srvr(node)) for node in self.nodes if not self.paused(node))
        return [self.client_address(node) for node, state in states if state is not None and state.serving]

    def last_words(self, node: int) -> str:
        """Return why the server ended by itself, in its own words; else the last lines of its log, or an earlier one that tells
        of an error if these do not."""
        words, log = super().last_words(node), self._lives[node].log
        error = server_log.last_error(log)
        return server_log.exit_reason(log) or (words if error is None or error in words else error)

    def _exit_status(self, life: Life, code: int) -> int:
        exited = code >= 0 and code != CRASHED
        return CORRUPT_EXIT if exited and DISK_REFUSED in life.last_words(LOG_LINES) else code

    def stop(self, node: int) -> int:
        status = super().stop(node)
        self._record_end(node)
        return status

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        statuses = super().kill_all(nodes)
        for node in nodes:
            self._record_end(node)
        return statuses
