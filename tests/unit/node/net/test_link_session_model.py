"""Randomized, deterministic model test of the session logic: two nodes, an unreliable network, no sockets.

The network loses, duplicates, delays and reorders frames, repeats old ones, breaks connections and lets nodes restart.
After every step the receiver's side is checked against what the sender really sent. In the end the network is good, and
both ends must agree and stay in agreement. The same checks must fail for sessions that do not check.
"""

import random
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.channel.session import ChannelSession, FrameOutcome

Frame = tuple[FrameHeader, str | None]


@dataclass
class Wire:
    """One direction of the network. A session's frames leave only once its connection exists, as with a socket of its own."""

    frames: list[Frame] = field(default_factory=list)
    connected: bool = False


class Node:
    """A session, the connection it sends through, and a server that sends a message as soon as it may."""

    def __init__(self, name: int, session_type: type[ChannelSession], eager: bool) -> None:
        self.name, self.session_type, self.eager = name, session_type, eager
        self.life = 0
        self.out = Wire()
        self.sent: dict[tuple[int, int, int], list[str]] = {}  # (own life, peer's life, session) -> what was sent in it
        self.taken: list[tuple[int, int, int, str]] = []  # of this life: peer's life, session, sequence, text
        self.closings = 0
        self.restart()

    def restart(self) -> None:
        self.life += 1
        self.session = self.session_type(self.life)
        self.taken = []
        self.out.connected = False

    def header(self, kind: FrameKind) -> FrameHeader:
        s = self.session
        return FrameHeader(0, kind, self.name, 3 - self.name, s.own_life, s.peer_life, s.number, s.sent)

    def greet(self) -> None:
        if self.out.connected:
            self.out.frames.append((self.header(self.session.greeting), None))

    def say(self) -> None:
        """Send a message if the session is up; close it if there is no connection, as `Links.send` does."""
        s = self.session
        if not s.up:
            return
        if not self.out.connected:
            self.close()
            return
        text = f"{self.name}/{s.own_life}/{s.number}/{s.sent}"
        self.sent.setdefault((s.own_life, s.peer_life, s.number), []).append(text)
        self.out.frames.append((self.header(FrameKind.MESSAGES), text))
        s.sent += 1

    def close(self) -> None:
        if self.session.up:
            self.session.close()
            self.redial()

    def redial(self) -> None:
        self.closings += 1
        self.out.connected = False

    def receive(self, frame: Frame) -> None:
        header, text = frame
        outcome: FrameOutcome = self.session.receive(header)
        if outcome.closed is not None:
            self.redial()
        if outcome.accepted:
            assert text is not None
            self.taken.append((header.incarnation, header.session, header.sequence, text))
        if outcome.answer:
            self.greet()
        if outcome.opened and self.eager:
            self.say()

    def connect(self) -> None:
        if not self.out.connected:
            self.out.connected = True
            if not self.session.up:
                self.greet()


def check_channel(receiver: Node, sender: Node) -> None:
    """Assert integrity, prefix and single iteration of what `receiver` has accepted in its present life."""
    iterations = [(life, session) for life, session, _, _ in receiver.taken]
    assert iterations == sorted(iterations), "a frame of an older session or life was taken"
    for life, session in dict.fromkeys(iterations):
        run = [(seq, text) for a, b, seq, text in receiver.taken if (a, b) == (life, session)]
        assert [seq for seq, _ in run] == list(range(len(run))), "a hole, a repeat or a change of order"
        sent = sender.sent[(life, receiver.life, session)]
        assert [text for _, text in run] == sent[: len(run)], "not what was sent"


class World:
    def __init__(self, seed: int, session_type: type[ChannelSession] = ChannelSession, eager: bool = False) -> None:
        self.rng = random.Random(seed)
        self.nodes = [Node(1, session_type, eager), Node(2, session_type, eager)]
        self.old: list[tuple[int, Frame]] = []  # old frames that the network may repeat, with their target

    def deliver(self, source: int, position: int = 0, keep: bool = False) -> None:
        frames = self.nodes[source].out.frames
        if frames:
            frame = frames[position] if keep else frames.pop(position)
            self.old.append((1 - source, frame))
            self.nodes[1 - source].receive(frame)
            self.check()

    def check(self) -> None:
        check_channel(self.nodes[0], self.nodes[1])
        check_channel(self.nodes[1], self.nodes[0])

    def disturb(self) -> None:
        """One random step of a bad world."""
        rng, i = self.rng, self.rng.randrange(2)
        node, wire = self.nodes[i], self.nodes[i].out
        step = rng.choices(
            ("deliver", "say", "tick", "connect", "reorder", "lose", "double", "replay", "cut", "reset", "restart"),
            (40, 25, 15, 12, 4, 4, 3, 3, 3, 2, 1),
        )[0]
        if step == "deliver":
            self.deliver(i)
        elif step == "say":
            node.say()
        elif step == "tick" and not node.session.up:
            node.greet()
        elif step == "connect":
            node.connect()
        elif step in ("reorder", "double") and wire.frames:
            self.deliver(i, rng.randrange(len(wire.frames)), keep=step == "double")
        elif step == "lose" and wire.frames:
            del wire.frames[rng.randrange(len(wire.frames)) :]
        elif step == "replay" and self.old:
            target, frame = rng.choice(self.old)
            self.nodes[target].receive(frame)
            self.check()
        elif step == "cut":
            wire.connected = False
            if rng.random() < 0.5:
                node.close()
        elif step == "reset":
            node.close()
        elif step == "restart":
            node.restart()

    def settle(self, rounds: int = 30) -> int:
        """A good network: connections come, frames flow in order. Rounds of heartbeats until both ends agree."""
        for done in range(rounds):
            for i, node in enumerate(self.nodes):
                node.connect()
                if not node.session.up:
                    node.greet()
                for _ in range(len(node.out.frames)):
                    self.deliver(i)
            if self.agreed():
                return done + 1
        raise AssertionError(f"no agreement after {rounds} heartbeats: a livelock")

    def agreed(self) -> bool:
        a, b = (node.session for node in self.nodes)
        return a.up and b.up and a.number == b.number and not any(node.out.frames for node in self.nodes)


@pytest.mark.slow
@pytest.mark.parametrize("eager", [False, True], ids=["patient", "eager"])
@pytest.mark.parametrize("batch", range(8))
def test_no_seed_breaks_a_channel_and_every_seed_converges(batch: int, eager: bool) -> None:
    taken = 0
    for seed in range(batch * 40, batch * 40 + 40):
        world = World(seed, eager=eager)
        for _ in range(300):
            world.disturb()
        world.settle()
        for node in world.nodes:
            node.say()  # only now a loss at the end of the bad network is noticed
        world.settle()
        closings = [node.closings for node in world.nodes]
        for _ in range(5):
            for node in world.nodes:
                node.say()
            world.settle()
        assert [node.closings for node in world.nodes] == closings, f"seed {seed}: it closed again in a good world"
        for node, other in (world.nodes, reversed(world.nodes)):
            s = node.session
            assert len(other.sent[(other.life, node.life, s.number)]) == s.expected, f"seed {seed}: frames are missing"
        taken += sum(len(node.taken) for node in world.nodes)
    assert taken > 40 * 10, "hardly anything was received: the test does not test"


class TakesGaps(ChannelSession):
    def receive(self, header: FrameHeader) -> FrameOutcome:
        if header.kind == FrameKind.MESSAGES and header.session == self.number and header.sequence > self.expected:
            self.expected = header.sequence
        return super().receive(header)


class TakesRepeats(ChannelSession):
    def receive(self, header: FrameHeader) -> FrameOutcome:
        if header.kind == FrameKind.MESSAGES and header.session == self.number and header.sequence < self.expected:
            return FrameOutcome(accepted=True)
        return super().receive(header)


class TakesOldSessions(ChannelSession):
    def receive(self, header: FrameHeader) -> FrameOutcome:
        if header.kind == FrameKind.MESSAGES and header.to == self.own_life and header.session < self.number:
            return FrameOutcome(accepted=True)
        return super().receive(header)


class TakesOldLives(ChannelSession):
    def receive(self, header: FrameHeader) -> FrameOutcome:
        if header.kind == FrameKind.MESSAGES and 0 < header.to < self.own_life:
            return FrameOutcome(accepted=True)
        return super().receive(header)


@pytest.mark.parametrize("broken", [TakesGaps, TakesRepeats, TakesOldSessions, TakesOldLives])
def test_the_model_catches_a_session_that_does_not_check(broken: type[ChannelSession]) -> None:
    caught = 0
    for seed in range(30):
        world = World(seed, broken)
        try:
            for _ in range(300):
                world.disturb()
        except (AssertionError, KeyError):
            caught += 1
    assert caught > 0


class UpWhenAddressed(ChannelSession):
    """Up as soon as a frame has this node's life: before its own connection is known to exist."""

    def receive(self, header: FrameHeader) -> FrameOutcome:
        outcome = super().receive(header)
        if not self.up and header.to == self.own_life and header.session == self.number:
            self.up = True
            return FrameOutcome(outcome.closed, opened=True, accepted=outcome.accepted, answer=outcome.answer)
        return outcome


def test_the_model_catches_a_livelock_of_eager_ends() -> None:
    stuck = 0
    for seed in range(30):
        world = World(seed, UpWhenAddressed, eager=True)
        for _ in range(100):
            world.disturb()
        try:
            world.settle()
        except AssertionError:
            stuck += 1
    assert stuck > 0


def fresh_pair() -> World:
    world = World(0)
    world.settle()
    return world


def test_two_fresh_ends_agree_on_session_one_within_two_heartbeats() -> None:
    world = World(0)
    assert world.settle() <= 2
    assert [node.session.number for node in world.nodes] == [1, 1]


@pytest.mark.parametrize("who", [(0,), (1,), (0, 1)])
def test_restarts_and_resets_agree_again_on_a_larger_number(who: tuple[int, ...]) -> None:
    for act in (Node.restart, Node.close):
        world = fresh_pair()
        for i in who:
            act(world.nodes[i])
        assert world.settle() <= 4
        numbers = {node.session.number for node in world.nodes}
        assert numbers == ({1} if act is Node.restart and len(who) == 2 else {2})


def test_an_end_is_not_up_before_the_peer_has_answered() -> None:
    session = ChannelSession(5)
    hello = FrameHeader(0, FrameKind.HELLO, 2, 1, 9, 0, 1, 0)
    assert session.receive(hello) == FrameOutcome(answer=True)
    assert session.greeting == FrameKind.WELCOME
    assert not session.up
    assert session.receive(replace(hello, to=5)) == FrameOutcome(answer=True)
    assert not session.up
    assert session.receive(replace(hello, to=5, kind=FrameKind.WELCOME)) == FrameOutcome(opened=True, answer=True)
    assert session.greeting == FrameKind.THANKS
    assert session.receive(replace(hello, to=5, kind=FrameKind.THANKS)) == FrameOutcome()


def up_session() -> tuple[ChannelSession, FrameHeader]:
    session = ChannelSession(5)
    welcome = FrameHeader(0, FrameKind.WELCOME, 2, 1, 9, 5, 1, 0)
    assert session.receive(welcome).opened
    return session, replace(welcome, kind=FrameKind.MESSAGES)


def test_a_gap_and_a_repeat_close_the_session_with_a_reason() -> None:
    session, first = up_session()
    assert session.receive(first).accepted
    assert session.receive(first).closed == "frame 0 came where 1 was due"
    assert (session.number, session.up, session.expected) == (2, False, 0)
    session, first = up_session()
    assert session.receive(replace(first, sequence=3)).closed == "frame 3 came where 0 was due"


def test_a_greeting_reveals_a_gap_at_the_end() -> None:
    session, first = up_session()
    session.receive(first)
    assert session.receive(replace(first, kind=FrameKind.THANKS, sequence=1)) == FrameOutcome()
    assert session.receive(replace(first, kind=FrameKind.THANKS, sequence=3)).closed == "frames 1 to 2 are missing"


@pytest.mark.parametrize("change", [{"to": 4}, {"to": 6}, {"incarnation": 8}, {"session": 0}])
def test_frames_of_other_lives_and_older_sessions_change_nothing(change: dict[str, int]) -> None:
    session, first = up_session()
    assert session.receive(replace(first, **change)) == FrameOutcome()
    assert (session.number, session.up, session.expected) == (1, True, 0)


def test_a_newer_life_closes_the_session_and_a_larger_number_is_adopted() -> None:
    session, first = up_session()
    restarted = replace(first, kind=FrameKind.HELLO, incarnation=10, to=0, session=1)
    assert session.receive(restarted).closed == "the peer has started again"
    assert (session.number, session.peer_life, session.up) == (2, 10, False)
    assert session.receive(replace(restarted, session=7)) == FrameOutcome("the peer opened a new session", answer=True)
    assert session.number == 7


def test_two_ends_that_know_only_former_lives_agree() -> None:
    one, two = ChannelSession(3), ChannelSession(4)
    one.peer_life, two.peer_life = 3, 1  # by old frames of node 2's life 3 and node 1's life 1
    from_one = FrameHeader(0, FrameKind.HELLO, 1, 2, 3, 3, 1, 0)
    two.receive(from_one)
    assert two.peer_life == 3
    one.receive(FrameHeader(0, two.greeting, 2, 1, 4, two.peer_life, two.number, 0))
    assert one.peer_life == 4


def test_messages_from_a_peer_that_does_not_know_this_node_are_not_accepted() -> None:
    session, first = up_session()
    outcome = session.receive(replace(first, to=0))
    assert not outcome.accepted
    assert outcome.closed is not None
