"""The messages of a recorded run equal those that the simulated network carried, with the same times."""

import gc
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.columns import Columns
from zab_chaos.harness.report.messages import (
    NOT_RECORDED,
    Exchange,
    LifeMessages,
    MessageContent,
    SentMessage,
    TimedContents,
    _pair_messages,
    content_of,
    read_messages,
)
from zab_chaos.harness.report.recording import core_of
from zab_chaos.model.events import trace_name
from zab_chaos.model.replay.replay import recorded_lives
from zab_chaos.model.world.links import SimLinks
from zab_chaos.model.world.world import World
from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.core import messages as m
from zab_chaos.node.core.messages import NAMES, TxnRun
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.events import Received

Link = tuple[int, int]
Seen = dict[Link, list[tuple[int, MessageContent]]]
pytestmark = pytest.mark.slow

CLOSE = 1000  # nanoseconds; trace lines of the same simulated moment differ by single nanoseconds
DRIFT = 0.0002  # of a node's clock, at most (zab_chaos.model.world.chance)

SCENARIO = """
[scenario]
name = "small"
about = "A crash of the leader, then its links are cut."
nodes = 3
duration = 2
[workload]
clients = 3
rate = 100
[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 0.6
[[fault]]
at = 1.3
do = "partition"
target = "leader"
for = 0.3
"""


class Network:
    """Notes the messages that the simulated links were given, and those that they delivered."""

    def __init__(self) -> None:
        self.sent: Seen = defaultdict(list)
        self.taken: Seen = defaultdict(list)

    def listen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begin, send, receive = SimLinks.__init__, ChannelSet.send, ChannelSet.receive
        worlds: dict[ChannelSet, World] = {}

        def begins(links: SimLinks, server: Any, *rest: Any) -> None:
            begin(links, server, *rest)
            worlds[links.channels] = server.world

        def sends(channels: ChannelSet, peer: int, messages: list[Any]) -> None:
            self._note(self.sent, worlds[channels], (channels._me, peer), messages)
            send(channels, peer, messages)

        def receives(channels: ChannelSet, frames: Any) -> list[Any]:
            events = receive(channels, frames)
            for event in events:
                if isinstance(event, Received):
                    self._note(self.taken, worlds[channels], (event.peer, channels._me), event.messages)
            return events

        monkeypatch.setattr(SimLinks, "__init__", begins)
        monkeypatch.setattr(ChannelSet, "send", sends)
        monkeypatch.setattr(ChannelSet, "receive", receives)

    def _note(self, where: Seen, world: World, link: Link, messages: list[Any]) -> None:
        where[link] += [(world.now, content_of(message)) for message in messages if type(message) in NAMES]


def read(folder: Path) -> Exchange:
    facts = json.loads((folder / "run.json").read_text())
    return read_messages(folder, core_of(facts), recorded_lives(folder), own_clocks=True)


def by_link(messages: Iterable[SentMessage], time: Callable[[SentMessage], int | None]) -> Seen:
    found: Seen = defaultdict(list)
    for one in messages:
        at = time(one)
        if at is not None:
            found[one.source, one.target].append((at, one.content))
    return {link: sorted(items, key=lambda item: item[0]) for link, items in found.items()}


def last_delivery(folder: Path) -> int:
    """Return the time until which all nodes wrote trace lines."""
    last: dict[int, int] = {}
    for path in (folder / "trace").glob("node-*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["event"] == "deliver":
                last[line["node"]] = max(last.get(line["node"], 0), line["t"])
    return min(last.values())


def assert_same(told: Seen, was: Seen, quiet: int) -> None:
    """Assert that both have the same messages at about the same times. `quiet`: the time after which nothing was traced."""
    assert told.keys() == was.keys()
    for link, items in was.items():
        assert [said for _, said in told[link]] == [said for _, said in items], link
        for (one, _), (other, _) in zip(told[link], items, strict=True):
            assert abs(one - other) < CLOSE + DRIFT * max(0, other - quiet), link


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Network]:
    """A simulated run with a crash and a cut link, and its network."""
    place = tmp_path_factory.mktemp("simulated")
    (place / "small.toml").write_text(SCENARIO)
    network = Network()
    with pytest.MonkeyPatch.context() as monkeypatch:
        network.listen(monkeypatch)
        main(["run", str(place / "small.toml"), "--on", "sim", "--results", str(place / "results")])
    return (place / "results" / "latest").resolve(), network


@pytest.fixture
def run(spied: tuple[Path, Network], tmp_path: Path) -> Path:
    """A copy of the same run, which a test may damage."""
    return Path(shutil.copytree(spied[0], tmp_path / "run"))


def test_every_message_and_its_times_equal_what_the_network_carried(spied: tuple[Path, Network]) -> None:
    folder, network = spied
    found = read(folder)
    assert found.gaps == []
    assert {"VOTE", "CEPOCH", "NEWEPOCH", "ACK-E", "NEWLEADER", "ACK-LD", "COMMIT-LD", "PROPOSE", "ACK", "COMMIT"} <= {
        one.content.kind for one in found.messages
    }
    quiet = last_delivery(folder)
    assert_same(by_link(found.messages, lambda one: one.sent), network.sent, quiet)
    assert_same(by_link(found.messages, lambda one: one.received), network.taken, quiet)
    assert any(one.received is None for one in found.messages)  # the crash and the cut took some


def test_no_message_arrives_before_it_was_sent_and_they_are_in_order(spied: tuple[Path, Network]) -> None:
    messages = read(spied[0]).messages
    assert all(one.received is None or one.received >= one.sent for one in messages)
    assert [one.sent for one in messages] == sorted(one.sent for one in messages)


def test_a_message_is_no_object_and_no_core_is_kept_beside_the_next_one(run: Path) -> None:
    """A run of an hour has millions of messages, and a core its node's whole history."""
    cores: WeakSet[Peer] = WeakSet()
    together: list[int] = []

    class Counted(Peer):
        def start(self, now: int) -> None:
            cores.add(self)
            together.append(len(cores))
            super().start(now)

    gc.collect()
    before = len(gc.get_objects())
    found = read_messages(run, Counted, recorded_lives(run), own_clocks=True)
    gc.collect()
    assert len(gc.get_objects()) - before < len(found.messages) / 10
    assert together == [1] * len(recorded_lives(run))


def test_a_run_that_was_not_recorded_says_so(run: Path) -> None:
    shutil.rmtree(run / "record")
    assert read(run).gaps == [NOT_RECORDED]


def test_a_missing_and_a_damaged_recording_leave_the_others(run: Path) -> None:
    whole = read(run)
    lives = recorded_lives(run)
    (run / "record" / "node-1-1.bin").unlink()
    path = run / "record" / "node-2-1.bin"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = read_messages(run, Peer, lives, own_clocks=True)
    missing, damaged = found.gaps
    assert missing == "node 1, life 1: it has no recording"
    assert damaged.startswith("node 2, life 1: the checksum")
    assert "record/node-2-1.bin" in damaged
    kept = [one for one in found.messages if one.source == 3]
    assert [(one.sent, one.content) for one in kept] == [
        (one.sent, one.content) for one in whole.messages if one.source == 3
    ]
    assert not any(one.source == 1 and one.sent < min(it.sent for it in kept) for one in found.messages)
    assert (
        0
        < len([one for one in found.messages if one.source == 2])
        < len([one for one in whole.messages if one.source == 2])
    )


def test_a_recording_of_another_core_is_read_until_it_differs(run: Path) -> None:
    class Silent(Peer):
        def tick(self, now: int) -> None:
            """Do nothing, unlike the recorded peer."""

    found = read_messages(run, Silent, recorded_lives(run), own_clocks=True)
    assert found.gaps
    assert all("its messages after that are missing" in gap for gap in found.gaps)


def test_a_life_without_a_trace_is_a_gap(run: Path) -> None:
    (run / trace_name(3, 1)).unlink()
    assert read(run).gaps == ["node 3, life 1: it has no trace"]


def life(node: int, peer: int, opened: int, at: int, content: MessageContent | None, *, sends: bool) -> LifeMessages:
    """Return a life of `node` that opened session 5 to `peer`, and sent or received a message in it."""
    found = LifeMessages(node)
    found.times, found.opened_at = [at], {(peer, 5): opened}
    if content is not None:
        (found.outgoing if sends else found.incoming)[peer, 5] = TimedContents([(0, content)])
    return found


def test_a_session_number_that_two_lives_of_the_sender_have_means_the_one_opened_at_that_time() -> None:
    ping = MessageContent("PING", 1, 0, 0)
    early, late = (life(1, 2, opened, opened + 10, ping, sends=True) for opened in (100, 900))
    receiver = life(2, 1, 890, 950, ping, sends=False)
    found = sorted(_pair_messages([early, late, receiver]), key=lambda one: one.sent)
    assert [(one.sent, one.received) for one in found] == [(110, None), (910, 950)]


def test_lost_and_repeated_messages_are_matched_by_their_content() -> None:
    """The second was lost, and the third was received twice, as defects can do."""
    contents = [MessageContent("ACK", 1, zxid, zxid) for zxid in (7, 8, 9, 7)]
    sender, receiver = LifeMessages(1), LifeMessages(2)
    sender.times, sender.outgoing[2, 5] = [10, 20, 30, 40], TimedContents(enumerate(contents))
    receiver.times = [15, 35, 36, 45, 46]
    received = [(moment, contents[index]) for moment, index in enumerate((0, 2, 2, 3, 3))]
    receiver.incoming[1, 5] = TimedContents(received)
    found = sorted((one.sent, one.received) for one in _pair_messages([sender, receiver]) if one.received)
    assert found == [(10, 15), (30, 35), (30, 36), (40, 45), (40, 46)]


def sync(*runs: TxnRun, keep: int = 0, snapshot: int = 0) -> m.Sync:
    held = (Zxid(snapshot), 0, b"") if snapshot else None
    return m.Sync(keep=Zxid(keep), snapshot=held, runs=list(runs))


RUN = TxnRun(zxid(2, 3), [b"a", b"b", b"c"])


@pytest.mark.parametrize(
    ("message", "kind", "epoch", "first", "last"),
    [
        (m.Propose(epoch=2, run=RUN, committed=ZERO, digest=0), "PROPOSE", 2, zxid(2, 3), zxid(2, 5)),
        (m.Ack(epoch=2, zxid=zxid(2, 5)), "ACK", 2, zxid(2, 5), zxid(2, 5)),
        (m.Commit(epoch=2, zxid=zxid(2, 4), digest=0), "COMMIT", 2, zxid(2, 4), zxid(2, 4)),
        (m.CommitLeader(epoch=2, committed=zxid(1, 4), digest=0), "COMMIT-LD", 2, zxid(1, 4), zxid(1, 4)),
        (m.AckLeader(epoch=2, last_zxid=zxid(1, 4), amnesiac=False), "ACK-LD", 2, zxid(1, 4), zxid(1, 4)),
        (m.Ping(role=m.Role.LEADING, epoch=2, delivered=zxid(2, 1), digest=0), "PING", 2, zxid(2, 1), zxid(2, 1)),
        (m.Cepoch(accepted_epoch=4, amnesiac=False), "CEPOCH", 4, 0, 0),
        (m.NewEpoch(epoch=5), "NEWEPOCH", 5, 0, 0),
        (m.NewLeader(epoch=2, sync=sync()), "NEWLEADER", 2, 0, 0),
        (m.NewLeader(epoch=2, sync=sync(TxnRun(zxid(1, 9), [b"z"]), RUN)), "NEWLEADER", 2, zxid(1, 9), zxid(2, 5)),
        (m.NewLeader(epoch=2, sync=sync(keep=zxid(1, 8), snapshot=zxid(1, 8))), "NEWLEADER", 2, 1, zxid(1, 8)),
        (m.History(epoch=2, current_epoch=1, sync=sync(RUN, snapshot=zxid(1, 8))), "HISTORY", 2, 1, zxid(2, 5)),
    ],
)
def test_the_content_of_a_message(message: m.Message, kind: str, epoch: int, first: int, last: int) -> None:
    assert content_of(message)[:4] == (kind, epoch, first, last)


def test_the_times_of_a_life_do_not_go_back() -> None:
    """The node's clock is set back between two rounds."""
    found = LifeMessages(1)
    found._moments = Columns(2, [(100, 90), (80, 95), (120, 130)])
    found.convert_times(own_clocks=False)
    assert list(found.times) == [100, 100, 130]
