"""The `channel` trace event records what was handed out, so it reveals a link that does not check."""

from typing import Any

from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.channel.runs import ChannelRun, FrameRuns
from zab_chaos.node.channel.session import ChannelSession, FrameOutcome
from zab_chaos.node.events import LinkDown


class RawSession(ChannelSession):
    """Accepts every frame of messages, as a ZeroMQ socket does."""

    def receive(self, header: FrameHeader) -> FrameOutcome:
        if header.kind != FrameKind.MESSAGES:
            return super().receive(header)
        opened, self.up = not self.up, True
        self.expected = header.sequence + 1
        return FrameOutcome(opened=opened, accepted=True)


class RawChannels(ChannelSet):
    """Plain ZeroMQ: reconnects by itself, keeps what is queued, and reports nothing."""

    session_type = RawSession
    immediate = False

    def redial(self, peer: int) -> None:
        """Keep the socket beyond the session."""

    def disconnected(self, peer: int, host_ns: int) -> None:
        """Report nothing."""


def test_an_unbroken_run_is_one_run() -> None:
    runs = FrameRuns()
    for sequence in range(5):
        runs.add(2, 1, 7, sequence)
    assert runs.fetch() == []
    runs.end(2, "closed")
    runs.end(2, "closed")
    assert runs.fetch() == [ChannelRun(2, 1, 7, 0, 4, "closed")]
    assert runs.fetch() == []


def test_gaps_repeats_and_other_sessions_end_a_run() -> None:
    runs = FrameRuns()
    for incarnation, session, sequence in ((1, 7, 0), (1, 7, 2), (1, 7, 2), (1, 8, 3), (2, 8, 4), (1, 7, 3)):
        runs.add(2, incarnation, session, sequence)
    runs.add(3, 1, 1, 0)
    runs.end_all()
    assert runs.fetch() == [
        ChannelRun(2, 1, 7, 0, 0, "gap"),
        ChannelRun(2, 1, 7, 2, 2, "gap"),
        ChannelRun(2, 1, 7, 2, 2, "session"),
        ChannelRun(2, 1, 8, 3, 3, "session"),
        ChannelRun(2, 2, 8, 4, 4, "session"),
        ChannelRun(2, 1, 7, 3, 3, "exit"),
        ChannelRun(3, 1, 1, 0, 0, "exit"),
    ]


def test_a_links_runs_begin_at_zero_and_end_with_the_session_or_the_process(net: Any) -> None:
    one, two = net.pair()
    for i in range(5):
        two.send(1, [i])
    net.until(lambda: len(net.messages(1, 2)) == 5)
    assert one.runs.fetch() == []
    one.reset(2, "a new iteration")
    net.until(lambda: bool(net.of(1, LinkDown)) and net.up(1, 2) and net.up(2, 1))
    assert one.runs.fetch() == [ChannelRun(2, 1, 1, 0, 4, "closed")]
    two.send(1, ["a", "b"])
    net.until(lambda: len(net.messages(1, 2)) == 7)
    net.stop(1)
    assert one.runs.fetch() == [ChannelRun(2, 1, 2, 0, 0, "exit")]


def test_accepted_frames_that_were_not_handed_out_are_in_no_run(net: Any) -> None:
    fake = net.fake()
    one = net.start(1, {2: net.ports[2]})
    fake.welcome()
    net.until(lambda: net.up(1, 2))
    fake.session = 2
    fake.say(0, "waits behind the LinkDown")
    net.until(lambda: bool(net.of(1, LinkDown)))
    assert one.pending
    one.reset(2, "a new iteration")
    net.until(lambda: len(net.of(1, LinkDown)) == 2)
    net.stop(1)
    assert net.messages(1, 2) == []
    assert one.runs.fetch() == []


def test_the_runs_of_a_link_without_checks_show_gaps_and_old_sessions(net: Any) -> None:
    fake = net.fake()
    one = net.start(1, {2: net.ports[2]}, kind=RawChannels)
    fake.welcome()
    net.until(lambda: net.up(1, 2))
    fake.say(0, "first")
    fake.say(4, "after a gap")
    fake.session = 0
    fake.say(9, "of an older session")
    net.until(lambda: len(net.messages(1, 2)) == 3)
    assert not net.of(1, LinkDown)
    net.stop(1)
    assert one.runs.fetch() == [
        ChannelRun(2, 1, 1, 0, 0, "gap"),
        ChannelRun(2, 1, 1, 4, 4, "session"),
        ChannelRun(2, 1, 0, 9, 9, "exit"),
    ]


def test_a_link_without_checks_delivers_frames_queued_for_a_former_life(net: Any) -> None:
    one = net.start(1, {2: net.ports[2]}, kind=RawChannels)
    net.start(2, {1: net.ports[1]}, kind=RawChannels)
    net.until(lambda: net.up(1, 2) and net.up(2, 1))
    net.stop(2)
    for i in range(50):
        net.round()
        one.send(2, [i])
    net.start(2, {1: net.ports[1]}, kind=RawChannels, life=2)
    net.until(lambda: 49 in net.messages(2, 1))
    net.stop(2)
