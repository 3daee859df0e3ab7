"""The deployment of a run of a foreign system: ports, toxiproxy, the nodes' processes, and the clients' history."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from zab_chaos.faults import process_tree
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.faults.network import Pair
from zab_chaos.faults.scenario import LISTS, Scenario
from zab_chaos.faults.two_way_network import Way
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.ensemble_state import listed_nodes
from zab_chaos.harness.backends.processes.deployment import HOST, Link, ProcessDeployment
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.backends.processes.life import KILL_SECONDS, Life, ProcessLife, launch
from zab_chaos.harness.backends.processes.released_cluster import ReleasedCluster
from zab_chaos.harness.backends.run_releases import RunReleases
from zab_chaos.harness.backends.system.clients import Client, SystemClient
from zab_chaos.harness.backends.system.final_checks import KINDS, TIMEOUT_SECONDS, FinalChecks
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.lists import ListKeys
from zab_chaos.harness.backends.system.mistakes import (
    ADVICE,
    CALL_SECONDS,
    BackendMistake,
    ClientAnswers,
    TimedCalls,
    Unreachable,
    called,
    describe,
    shown,
)
from zab_chaos.harness.backends.system.records import NOTHING, Records
from zab_chaos.harness.backends.system.shared_addresses import SharedAddresses
from zab_chaos.harness.backends.system.versions import VersionNumbers
from zab_chaos.harness.backends.system.workload import RAISED_SECONDS, SystemLoad
from zab_chaos.harness.client.transaction import Committed, ListTransaction, Outcome, ReadList, Request
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.machine.connections import (
    Address,
    connection,
    host_and_port,
    open_files,
    open_files_of_children,
)
from zab_chaos.harness.machine.die_with_parent import tied
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.final_state import is_conclusive
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.operations import key_path, load_parameters
from zab_chaos.model.events import FINAL_CLIENTS
from zab_chaos.model.isolation import DEFAULT_LEVEL
from zab_chaos.model.oracle.evidence import show
from zab_chaos.node.store.errors import CORRUPT_EXIT
from zab_chaos.node.tree.requests import Get

if TYPE_CHECKING:
    from zab_chaos.harness.backends.system.backend import PeerPort, Place, SystemBackend

DELIVERED_SECONDS = 3.0  # within which followers deliver what the last reads have added
RUN_VARIABLE = "ZAB_RUN"  # has the run's folder, in the environment of everything that a node starts
READS_SECONDS = 2.0  # within which a node that accepts clients has found out whether its files are damaged


class SystemCluster(ReleasedCluster):
    """The nodes of a foreign system: each is a process that the backend's command starts."""

    exit_meanings = MappingProxyType(
        {
            0: "it did not stay in the foreground until it was asked to end",
            CORRUPT_EXIT: "it does not run with its files, which a fault has damaged; see its log",
        }
    )

    def __init__(
        self,
        backend: "SystemBackend",
        places: Mapping[int, "Place"],
        folder: RunFolder,
        disks: Disks | None,
        reads: Callable[[int], bool] = lambda node: True,
        records: Records | None = None,
        releases: RunReleases | None = None,
    ) -> None:
        """`reads`: whether a read through a node is answered; it may take some seconds. `records`: what the nodes record.
        `releases`: those of the run, if the backend has any."""
        super().__init__(folder, list(places), disks, releases)
        # That of a program that leaves the signal alone, or sends it to itself when it has shut down.
        self.terminated = -backend.stop_signal
        self.start_seconds = backend.start_seconds
        self._reads = reads
        self._records = records
        # The nodes that have answered no read since they lost their disk: whether the latest one was answered, if one was sent.
        self._wiped: dict[int, Future[bool] | None] = {}
        self._asking = Lock()  # held while `_wiped` is used
        self.places = places
        self.disk_files = backend.data_files
        self._damaged: set[int] = set()  # nodes with files that a fault has damaged
        # By (node, life) of those that were started on such files: when they first accepted clients.
        self._on_damaged_files: dict[tuple[int, int], float | None] = {}
        self.silence: dict[int, str] = {}  # the last error of each node that did not answer
        self._backend = backend
        self._calls = TimedCalls()
        self._spawning = Lock()  # held while a node is being started, when its process is not in `_lives` yet

    def opener(self, port: int, other: int) -> int | None:
        """Return the node that has the connection from this local port to the other port, or None if no node has it."""
        with self._spawning:
            pids = {node: self.pid(node) for node in self.nodes}
        up = {node: pid for node, pid in pids.items() if pid is not None}
        found = connection((HOST, port), (HOST, other))
        if found is None:
            return None
        which = (open_files, open_files_of_children)
        return next((node for files in which for node, pid in up.items() if found.file in files(pid)), None)

    def _spawn(self, node: int, crash_at: str | None) -> None:
        with self._spawning:
            super()._spawn(node, crash_at)

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        """Return a status if the node is up and accepts clients, else None. The system's own state is not known."""
        if not self.alive(node) or self.paused(node):
            return None
        place = self.places[node]
        try:
            socket.create_connection(host_and_port(place.client), timeout).close()
            if self._backend.says_ready and not self._calls.call("ready", lambda: self._backend.ready(place)):
                self.silence[node] = "it is not `ready`"
                return None
            frames = self._received(place) if self._backend.counts_received else {}
        except OSError as error:
            self.silence[node] = f"{type(error).__name__}: {error}"
            return None
        life = self._lives[node].life
        if not self._has_read_its_files(node, life):
            return None
        zxid = self._records.delivered(node) if self._records is not None else NOTHING
        amnesiac = self._is_without_its_data(node)
        return Status(node=node, life=life, frames=frames, amnesiac=amnesiac, last_zxid=zxid, delivered=zxid)

    def _is_without_its_data(self, node: int) -> bool:
        """Return whether a node that has lost its disk, and accepts clients, has not answered a read since. Until then it may
        be copying what it had confirmed, and a second lost disk would be too much. Nothing waits for the answer."""
        with self._asking:
            if node not in self._wiped:
                return False
            asked = self._wiped[node]
            if asked is not None and asked.done() and asked.result():
                del self._wiped[node]
                return False
            if asked is None or asked.done():
                self._wiped[node] = asked = Future()
                threading.Thread(target=self._read, args=(node, asked), name="reads", daemon=True).start()
            return True

    def _read(self, node: int, asked: "Future[bool]") -> None:
        answered = False
        with suppress(Exception):  # of the backend's client: the load reports it
            answered = self._reads(node)
        asked.set_result(answered)

    def _has_read_its_files(self, node: int, life: int) -> bool:
        """Return whether a node that accepts clients must have read its files: some programs listen before they do, and end
        if the files are damaged."""
        if (node, life) not in self._on_damaged_files:
            return True
        now, first = time.monotonic(), self._on_damaged_files[node, life]
        if first is None:
            self._on_damaged_files[node, life] = first = now
        return now - first >= READS_SECONDS

    def _received(self, place: "Place") -> dict[int, int]:
        """Return the node's own counts of what it has received from each peer. Raises OSError, ClusterError."""
        counts = self._calls.call("received", lambda: self._backend.received(place))
        if not isinstance(counts, Mapping) or not all(
            peer in place.peers and isinstance(count, int) for peer, count in counts.items()
        ):
            raise ClusterError(f"`received` must return a number for each of node {place.node}'s peers, not {counts!r}")
        return dict.fromkeys(place.peers, 0) | dict(counts)

    def awaited_answer(self, node: int) -> str:
        accepts = f"accept connections at its `client` address {self.places[node].client}"
        return "say that it is `ready`" if self._backend.says_ready else accepts

    def leader(self) -> int | None:
        up = [self.places[node] for node in self.nodes if self.alive(node) and not self.paused(node)]
        try:
            leader = self._calls.call("leader", lambda: self._backend.leader(up))
        except OSError as error:
            words = (
                f"`leader` of the backend has raised {describe(error)}. If no node says who leads, it must return None"
            )
            raise BackendMistake(words) from error
        if leader is not None and (isinstance(leader, bool) or leader not in self.nodes):
            raise ClusterError(f"`leader` must return the number of a node or None, not {shown(leader)}")
        return leader if any(place.node == leader for place in up) else None

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        answer = self._command_disk_only(node, command, arguments)
        if answer is None:
            raise ClusterError(f"node {node} has no control port: {command} cannot be given to it")
        return answer

    def note_damage(self, node: int) -> None:
        self._damaged.add(node)

    def wipe(self, node: int) -> None:
        super().wipe(node)
        if self._records is not None:
            self._records.wipe(node)
        self._damaged.discard(node)
        with self._asking:
            self._wiped[node] = None

    def last_words(self, node: int) -> str:
        words = super().last_words(node)
        if self._lives[node].code == 0:
            words = f"{words}\nexit code 0: the command must stay in the foreground".lstrip()
        return words

    def _exit_status(self, life: Life, code: int) -> int:
        """A node that ends by itself with damaged files refuses its disk: how its program says so is not known."""
        refuses = (life.node, life.life) in self._on_damaged_files and not life.ending
        return CORRUPT_EXIT if refuses and code not in (0, -signal.SIGKILL) else code

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        if crash_at is not None:
            raise ClusterError(f"node {node} has no crash points")
        place = replace(self.places[node], release=self._installed.get(node))
        if self._records is not None:
            place = replace(place, trace=self._records.begin(node, number))
        place.data.mkdir(parents=True, exist_ok=True)
        command = called("command", lambda: self._backend.command(place, place.defect))
        if not isinstance(command, list | tuple):
            raise ClusterError(f"`command` must return a list, such as ['server', '--port', '7000'], not {command!r}")
        if node in self._damaged:
            self._on_damaged_files[node, number] = None
        environment = called("environment", self._backend.environment)
        if not isinstance(environment, Mapping):
            raise ClusterError(f"`environment` must return a dict of texts, not {shown(environment)}")
        for key, value in environment.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise ClusterError(
                    f"`environment` must return a dict of texts, but {key!r} has the value {shown(value)}"
                )
        environment = {**environment, RUN_VARIABLE: str(self._folder.path)}
        process = launch(node, tied(*map(str, command)), log, self._folder.path, environment)
        return ProcessLife(node, number, process, log, stop_signal=self._backend.stop_signal)


class SystemDeployment(ProcessDeployment):
    """The deployment of a run of a foreign system."""

    cluster: SystemCluster
    _records: Records | None = None
    _connected = False  # a client has connected to a node

    def __init__(
        self, backend: "SystemBackend", scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display
    ) -> None:
        super().__init__(folder, scenario, display)
        self._backend = backend
        self._defect = options.defect_path
        self._releases = backend.run_releases(scenario, options)
        self._versions = VersionNumbers() if backend.opaque_versions else None
        self._lists = ListKeys(scenario.workload.keys)
        self._calls = TimedCalls()
        self._answers = ClientAnswers()
        asked = load_parameters(scenario).kinds
        keys = [] if asked <= {*LISTS} else [key_path(key) for key in range(scenario.workload.keys)]
        if keys:
            asked |= {"set"} & backend.operations
        self._final_checks = FinalChecks(
            self.line,
            lambda: self.cluster.nodes,
            lambda: self._history.written,
            keys,
            [kind for kind in KINDS if kind in asked],
            creates="create" in backend.operations,
            appended=lambda: self._history.appended,
            lists=self._lists,
        )

    def _build(self, stack: ExitStack) -> None:
        from zab_chaos.harness.backends.system.backend import Place

        nodes = range(1, self._scenario.nodes + 1)
        peer_ports = self._peer_ports(nodes, stack)
        isolation = self._backend.judged_isolation(self._scenario) or DEFAULT_LEVEL
        places = {}
        for node in nodes:
            first, *more = (ports[node] for ports in peer_ports)
            others = self._addresses(self._backend.other_ports, stack)
            client = first.listen if self._backend.one_port else self._addresses(1, stack)[0]
            places[node] = Place(
                node=node, listen=first.listen, client=client, address=first.address, peers=first.peers, others=others,
                more_peer_ports=more, defect=self._defect, isolation=isolation, data=self.folder.file("data", f"node-{node}"),
            )  # fmt: skip
        self._history = HistoryFile(self.folder.file("ops.jsonl"), self.outcomes)
        stack.callback(self._history.close)
        self._disks = self._own_disks("journal", stack, with_process=False)
        self._records = Records(self.folder, len(nodes)) if self._backend.traces is not None else None
        self.cluster = SystemCluster(
            self._backend, places, self.folder, self._disks, self._reads, self._records, self._releases
        )
        stack.callback(self._kill_leftovers)

    def _kill_leftovers(self) -> None:
        """Kill what the nodes' commands have left behind, such as a server that they started in the background."""
        left = process_tree.with_variable(RUN_VARIABLE, str(self.folder.path))
        process_tree.send(left, signal.SIGKILL)
        if left:
            wait_until(lambda: not any(map(process_tree.runs, left)), KILL_SECONDS)
            pids = ", ".join(str(one.pid) for one in sorted(left, key=lambda one: one.pid))
            self._display.say(f"killed what the nodes had left behind: {pids}")

    def _peer_ports(self, nodes: Sequence[int], stack: ExitStack) -> "list[dict[int, PeerPort]]":
        """Put proxies between the nodes. Return, for each port at which they listen for each other, that of each node."""
        count = 1 + self._backend.more_peer_ports
        listen = [dict(zip(nodes, self._addresses(len(nodes), stack), strict=True)) for _ in range(count)]
        ways: list[dict[Pair, Way]] = [{pair: self._way(own[pair[1]], stack) for pair in self._pairs} for own in listen]
        numbers: list[Pair] = [(), *((number,) for number in range(1, count))]
        by_name = {(*pair, *number): way for number, of in zip(numbers, ways, strict=True) for pair, way in of.items()}
        self._two_way_proxies(by_name, stack)
        links = [{pair: of[pair].proxy for pair in self._pairs} for of in ways]
        return [self._peer_port(*one, stack) for one in zip(listen, links, strict=True)]

    def _way(self, target: str, stack: ExitStack) -> Way:
        proxy, relay = self._addresses(2, stack)
        return Way(proxy, relay, target)

    def _peer_port(
        self, listen: Mapping[int, str], links: Mapping[Link, str], stack: ExitStack
    ) -> "dict[int, PeerPort]":
        """Return a port of each node. `listen`: where the nodes listen; `links`: the address of each link's proxy."""
        from zab_chaos.harness.backends.system.backend import PeerPort

        shared = listen
        if self._backend.one_address:
            shared = dict(zip(listen, self._addresses(len(listen), stack), strict=True))
            stack.enter_context(SharedAddresses(shared, links, listen, lambda *ports: self.cluster.opener(*ports)))
            links = {pair: shared[pair[1]] for pair in self._pairs}
        return {
            node: PeerPort(
                listen=listen[node], address=shared[node],
                peers={target: address for (source, target), address in links.items() if source == node},
            )
            for node in listen
        }  # fmt: skip

    def _text(self, address: Address) -> str:
        text = super()._text(address)
        return next((f"{text} ({name})" for name, own in self._own_addresses() if own == text), text)

    def _own_addresses(self) -> Iterator[tuple[str, str]]:
        """Yield where the nodes themselves listen, as (what it is called, host:port)."""
        for node, place in self.cluster.places.items():
            more = [port.listen for port in place.more_peer_ports]
            for name, addresses in (
                ("listen", [place.listen, *more]),
                ("client", [place.client]),
                ("others", place.others),
            ):
                yield from ((f"`{name}` of node {node}", address) for address in addresses)

    def on_established(self) -> None:
        """Set up the system, and sync the disks: what the nodes have written is durable, as half a minute later anyway."""
        called("set_up", lambda: self._backend.set_up(list(self.cluster.places.values())))
        if self._disks is not None:
            self._disks.sync()

    def on_healed(self) -> None:
        self._final_checks.begin()
        if "cas" in self._backend.operations and self._answers.unversioned:
            self._display.say(
                "the answers to writes have no version, although `cas` is in `operations`: so the judgement is weaker"
            )

    @property
    def addresses(self) -> dict[int, str]:
        return {node: place.client for node, place in self.cluster.places.items()}

    def line(self, number: int, node: int, timeout: float) -> SocketLine:
        return SocketLine(self._client(number, node, timeout), self._history)

    def _client(self, number: int, node: int, timeout: float) -> SystemClient:
        connect = {each: partial(self._connect, place, timeout) for each, place in self.cluster.places.items()}
        operations, versions = self._backend.operations, self._versions
        return SystemClient(
            connect, number, node, timeout, operations=operations, versions=versions, answers=self._answers
        )

    def _connect(self, place: "Place", timeout: float) -> Client:
        """Return a new client of a node. Many libraries have exceptions of their own for a node that can't be reached: once a
        client has connected, each of them means that."""

        def connect() -> Client:
            try:
                return self._backend.client(place, timeout)
            except Exception as error:
                if self._connected and not isinstance(error, OSError):
                    raise Unreachable(describe(error)) from error
                raise

        client = self._calls.call("client", connect, timeout + CALL_SECONDS, "within its timeout")
        self._connected = True
        return client

    def _reads(self, node: int) -> bool:
        """Return whether a read through this node is answered. It is not recorded: it can't change anything."""
        request: Request
        if "get" in self._backend.operations:
            request = Get(key_path(0))
        elif "list-read" in self._backend.operations:
            request = ListTransaction([ReadList(self._lists.path(0))])
        else:
            return True
        found: list[Outcome] = []
        client = self._client(FINAL_CLIENTS, node, TIMEOUT_SECONDS)
        client.submit(request, lambda _, outcome: found.append(outcome))
        while not found:
            client.poll(TIMEOUT_SECONDS)
        client.close()
        return isinstance(found[0], Committed) or is_conclusive(found[0])

    def workload(self, seed: int) -> SystemLoad:
        nodes, load = self.cluster.nodes, load_parameters(self._scenario)

        def client(number: int) -> SystemClient:
            return self._client(number, nodes[(number - 1) % len(nodes)], load.timeout)

        creates = "create" in self._backend.operations
        bound = self._scenario.expected(exact=False)["progress_within"]  # after which the system would be blamed
        return SystemLoad(
            client,
            load,
            seed,
            self._history,
            creates=creates,
            patience=min(RAISED_SECONDS, bound / 2),
            opaque=self._backend.opaque_versions,
            lists=self._lists,
        )

    def formed(self) -> bool:
        """Return whether more than half of the nodes accept clients and, if the system has leaders, there is one."""
        led = Ability.LEADER not in self._backend.abilities or self.cluster.leader() is not None
        return led and 2 * len(self._silent()) < len(self.cluster.nodes)

    def missing(self) -> str:
        silent = self._silent()
        if 2 * len(silent) < len(self.cluster.nodes):
            return "`leader` named no node"
        errors = (f"node-{node} ({self.cluster.silence[node]})" for node in silent if node in self.cluster.silence)
        return f"most nodes did not accept clients or answer `received`: {', '.join(errors) or listed_nodes(silent)},"

    def _silent(self) -> list[int]:
        return [node for node in self.cluster.nodes if self.cluster.status(node, 0.5) is None]

    def disagreement(self) -> str | None:
        self._answers.begin_look()
        silent = self._silent()
        if silent:
            return f"no answer from {listed_nodes(silent)}"
        why = self._final_checks.disagreement()
        if why is None or self._final_checks.differ:
            self._answers.begin_look()  # no answer that is missing is the reason
        # The last reads may be transactions, too, which followers deliver after the leader has answered.
        if why is None:
            wait_until(lambda: self._undelivered() is None, DELIVERED_SECONDS)
        return why or self._undelivered()

    def on_not_converged(self) -> None:
        """Raise BackendMistake if the last look shows nothing but mistakes of the backend: it would be a violation else."""
        if (mistake := self._answers.mistake) is not None:
            raise BackendMistake(f"it is not known whether the nodes have converged: {mistake}. {ADVICE}")

    def _undelivered(self) -> str | None:
        """Return in words which nodes have recorded different last deliveries; None if they record none, or the same."""
        if self._records is None:
            return None
        last = {node: self._records.delivered(node) for node in self.cluster.nodes}
        if len(set(last.values())) == 1:
            return None
        silent = [node for node, zxid in last.items() if zxid == NOTHING]
        if silent:
            return f"no `deliver` or `restore` was recorded in the last life of {listed_nodes(silent)}"
        upto = ", ".join(f"node-{node} up to {show(zxid)}" for node, zxid in last.items())
        return f"what the nodes have recorded differs at the end: delivered by {upto}"

    def finish(self) -> None:
        if self._records is not None:
            self._records.write_traces()
