"""Recorded runs without processes: real replicas, stores, traces and recordings over channels in memory, round by round."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.model import manifest
from zab_chaos.node.boot import BootedNode, boot_event
from zab_chaos.node.components import Components
from zab_chaos.node.config import Limits, NodeConfig
from zab_chaos.node.core.digest import NEWEST, Algorithm
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.settings import CLIENTS_MAX, MS
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.driver import Aborted
from zab_chaos.node.events import ClientRequests, ClientUp, LinkDown, LinkUp, Received
from zab_chaos.node.recording import Recording
from zab_chaos.node.replica import Replica
from zab_chaos.node.store.disk import FaithfulDisk
from zab_chaos.node.store.store import Store
from zab_chaos.node.trace import Trace
from zab_chaos.node.tree.requests import Create, Set

STEP = 10 * MS  # between two rounds of all nodes


@dataclass
class Link:
    """One node's ends of its channels. They keep what arrived until its next round."""

    ensemble: "InMemoryEnsemble"
    node: int
    frames: dict[int, int] = field(default_factory=dict)
    inbox: list[Any] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def send(self, peer: int, messages: list[Any]) -> None:
        """Keep a message to a peer, or an answer to a client."""
        if peer > 100:
            self.answers += messages
        elif (self.node, peer) in self.ensemble.open:
            self.ensemble.links[peer].inbox.append(Received(self.node, list(messages)))

    def reset(self, peer: int, why: str) -> None:
        self.ensemble.close(self.node, peer, why, told=(peer,))

    def drop(self, client: int, why: str) -> None:
        raise AssertionError(f"client {client} is dropped: {why}")


class InMemoryEnsemble:
    """n replicas in one folder, which looks like that of a run. A killed replica just has no further rounds."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        peer_type: type[Peer] = Peer,
        digest: Algorithm = NEWEST,
        clients_max: int = CLIENTS_MAX,
    ) -> None:
        self.folder = folder
        self.digest = digest
        self.limits = Limits(snapshot_bytes=3000, segment_bytes=2**16, clients_max=clients_max)
        self.peer_type = peer_type
        self.members = range(1, nodes + 1)
        self.now = 1_000 * MS
        self.open: set[tuple[int, int]] = set()
        self.session = 0
        self.seq = 0
        self.clients: set[int] = set()
        self.asked: dict[int, list[Any]] = {}  # the events of clients for each node's next round
        self.lives = dict.fromkeys(self.members, 0)
        self.replicas: dict[int, Replica] = {}
        self.links: dict[int, Link] = {}
        for part in ("trace", "record", "data"):
            (folder / part).mkdir(parents=True, exist_ok=True)

    def start(self, *nodes: int) -> None:
        for node in nodes:
            self.lives[node] += 1
            config = NodeConfig(
                id=node, cluster="c", listen="", client="", control="", data="", trace="",
                link_keys="", control_keys="", client_keys="",
                peers={peer: "" for peer in self.members if peer != node},
                limits=self.limits, digest=self.digest,
            )  # fmt: skip
            place = self.folder / "data" / f"node-{node}"
            place.mkdir(exist_ok=True)
            first = self.lives[node] == 1
            store, recovered, report = Store.open(
                FaithfulDisk(place), bootstrap=first, segment_bytes=2**16, digest=self.digest
            )
            trace = Trace(str(self.folder / "trace"), node, self.lives[node])
            trace.add("boot", boot_event(config, recovered, report, None, 1))
            recording = Recording(str(self.folder / "record"), node, self.lives[node])
            booted = BootedNode(store, recovered, CrashPoints(lambda *_: None))
            self.links[node] = link = Link(self, node)
            self.replicas[node] = Replica(
                config, self.lives[node], Components(peer=self.peer_type), booted, trace, recording, link, link
            )
            for _ in self.replicas[node].start(self.now):
                pass
        for a in nodes:
            for b in self.replicas:
                if a != b and (a, b) not in self.open:
                    self.connect(a, b)

    def connect(self, a: int, b: int) -> None:
        self.session += 1
        self.open |= {(a, b), (b, a)}
        self.links[a].inbox.append(LinkUp(b, self.session))
        self.links[b].inbox.append(LinkUp(a, self.session))

    def close(self, a: int, b: int, why: str, told: tuple[int, ...]) -> None:
        """End the session, and lose what is on its way. A new one opens at once if both nodes are up."""
        if (a, b) not in self.open:
            return
        self.open -= {(a, b), (b, a)}
        for end, other in ((a, b), (b, a)):
            link = self.links[end]
            link.inbox = [it for it in link.inbox if not (type(it) is Received and it.peer == other)]
            if end in told:
                link.inbox.append(LinkDown(other, self.session, why))
        if a in self.replicas and b in self.replicas:
            self.connect(a, b)

    def kill(self, *nodes: int) -> None:
        """Kill nodes, as SIGKILL does: what is not in a file is lost."""
        for node in nodes:
            replica = self.replicas.pop(node)
            replica.recording = None
            for peer in self.members:
                self.close(node, peer, "closed", told=(peer,))

    def stop(self) -> None:
        """End all nodes, as a node ends that is asked to."""
        for replica in self.replicas.values():
            assert replica.recording is not None
            replica.recording.close()
            replica.trace.add("exit", {"code": 0, "why": "SIGTERM"})
            replica.trace.flush()
            replica.store.close()

    def rounds(self, count: int, writes: int = 0, at: int | None = None) -> None:
        for _ in range(count):
            self.now += STEP
            for node in list(self.replicas):
                self.round(node, writes if node == at else 0)

    def round(self, node: int, writes: int) -> None:
        link = self.links[node]
        events, link.inbox = link.inbox, []
        for _ in self.replicas[node].round(self.now, events, self.requests(node, writes)):
            pass

    def ask(self, node: int, *events: Any) -> None:
        """Give a node events of its clients for its next round. Numbers above 100 are those of clients, others of nodes."""
        self.asked.setdefault(node, []).extend(events)

    def requests(self, node: int, count: int) -> Iterator[Any]:
        yield from self.asked.pop(node, ())
        client = 100 * node + self.lives[node]
        if client not in self.clients and count:
            self.clients.add(client)
            yield ClientUp(client, 0)
        for _ in range(count):
            self.seq += 1
            asked = Create("/a") if self.seq == 1 else Set("/a", b"%d" % self.seq * 20)
            yield ClientRequests(client, [(self.seq, asked)])

    def until_led(self) -> int:
        for _ in range(1000):
            self.rounds(1)
            led = [node for node, replica in self.replicas.items() if replica.machine.primary]
            if led and all(replica.machine.in_broadcast for replica in self.replicas.values()):
                return led[0]
        raise AssertionError("no leader within ten seconds")


def eventful(
    folder: Path, peer_type: type[Peer] = Peer, digest: Algorithm = NEWEST, clients_max: int = CLIENTS_MAX
) -> None:
    """Record a run: writes at the leader and a follower; a follower is killed and gets a snapshot, and a leader is killed."""
    ensemble = InMemoryEnsemble(folder, 3, peer_type, digest, clients_max)
    ensemble.start(1, 2, 3)
    leader = ensemble.until_led()
    ensemble.rounds(5, writes=2, at=leader)
    follower = min(set(ensemble.members) - {leader})
    ensemble.kill(follower)
    for _ in range(30):
        ensemble.rounds(2, writes=4, at=leader)
    ensemble.start(follower)
    ensemble.until_led()
    ensemble.rounds(5, writes=3, at=follower)
    ensemble.kill(leader)
    ensemble.until_led()
    ensemble.start(leader)
    ensemble.until_led()
    ensemble.rounds(10, writes=1, at=leader)
    ensemble.rounds(20)
    ensemble.stop()
    facts = {"nodes": 3, "record": True, "defect": None, "outcome": "finished", "commit": None}
    (folder / "run.json").write_text(json.dumps(facts))


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    eventful(folder)
    manifest.seal(folder)
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """A copy of a recorded run that a test may damage. It has no manifest, so nothing shows the damage as a later change."""
    return Path(shutil.copytree(original, tmp_path / "run", ignore=shutil.ignore_patterns("data", manifest.NAME)))


@pytest.fixture
def record(tmp_path: Path) -> Callable[[type[Peer]], Path]:
    """Record a run of nodes with this core."""

    def make(peer_type: type[Peer]) -> Path:
        folder = tmp_path / "made"
        with suppress(Aborted):
            eventful(folder, peer_type)
        return folder

    return make
