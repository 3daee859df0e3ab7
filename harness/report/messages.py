"""Finds the messages between the nodes of a recorded run: sender, receiver, content, and the times of sending and receipt.

Every life is re-executed from its recording (`zab_chaos.model.replay`). The messages that its core sends are matched with the
messages that the receiver's recording has as inputs. Sessions are FIFO and numbered, so the k-th message received in a session
should be the k-th one sent in it; contents are compared all the same, because a defect may lose or repeat messages. A message
that was never received has no time of receipt: its session had ended, or its receiver's process had.

Times are the host's. A recording has the node's own clock, once in each round of the event loop. The trace has the host's
clock, and so shows how the node's clock ran. A message was sent after the last trace line before it, and was received before
the clock reading of its round.
"""

import gc
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from zab_chaos.harness.report.columns import Columns, Words
from zab_chaos.model.events import trace_name
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.replay import descriptions
from zab_chaos.model.replay.life import Rerun
from zab_chaos.model.replay.replay import recorded_lives
from zab_chaos.model.runfiles import OnRead, unheard
from zab_chaos.node.core import messages as m
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.recording import AnyEntry, LinkClosed, LinkOpened, ReadyTaken, Started, Stepped, Ticked

NEVER = -1  # the time of receipt, in columns, of a message that was not received
NOT_RECORDED = "the run was not recorded, or its backend can't see them; the arrows are requests of clients"


class MessageContent(NamedTuple):
    """The content of a message, as far as the diagram shows it.

    `first` and `last` are the zxids that it names, 0 if it names none. `words` describes messages of the rare kinds.
    """

    kind: str
    epoch: int
    first: int
    last: int
    words: str = ""


class SentMessage(NamedTuple):
    """One message. Times are in nanoseconds. `received` is None if the message was never received."""

    source: int
    target: int
    content: MessageContent
    sent: int
    received: int | None


class Messages(Columns[SentMessage]):
    """Messages as columns: source, target, kind, epoch, first, last, words, sent, received (or NEVER).

    Kinds and words are numbers of `words`.
    """

    def __init__(self, records: Iterable[SentMessage] = ()) -> None:
        self.words = Words()
        super().__init__(9, records)

    def _numbers(self, record: SentMessage) -> tuple[int, ...]:
        source, target, (kind, epoch, first, last, words), sent, received = record
        number = self.words.number
        return (
            source, target, number(kind), epoch, first, last, number(words), sent,
            NEVER if received is None else received,
        )  # fmt: skip

    def _record(self, *numbers: int) -> SentMessage:
        source, target, kind, epoch, first, last, words, sent, received = numbers
        said = self.words.all
        content = MessageContent(said[kind], epoch, first, last, said[words])
        return SentMessage(source, target, content, sent, None if received == NEVER else received)


class Drop(NamedTuple):
    """A message that its receiver's core dropped, at the time `t`, and why."""

    source: int
    target: int
    content: MessageContent
    t: int
    why: str


@dataclass(slots=True)
class Exchange:
    """All messages of a run, in the order of sending. `gaps` says in words which messages are missing, and why."""

    messages: Messages = field(default_factory=Messages)
    drops: list[Drop] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def read_messages(
    folder: Path, core: type[Peer], traced: Iterable[tuple[int, int]], *, own_clocks: bool, on_read: OnRead = unheard
) -> Exchange:
    """Read all messages from the recordings in a run's folder. Damaged recordings are listed in `gaps`; they raise nothing.

    `core`: the class that the nodes ran. `traced`: (node, life) of every life with a trace. `own_clocks`: whether the nodes'
    clocks may differ from the host's. `on_read` hears of the bytes of the recordings.
    """
    found = Exchange()
    lives = []
    recorded = recorded_lives(folder)
    if not recorded:
        found.gaps.append(NOT_RECORDED)
    else:
        found.gaps += [
            f"node {node}, life {number}: it has no recording" for node, number in sorted({*traced} - {*recorded})
        ]
    for node, number in recorded:
        life = LifeMessages(node)
        why = life.re_execute(folder, number, core, on_read)
        life.convert_times(own_clocks=own_clocks)
        found.drops += life.drops()
        life.release()
        lives.append(life)
        if why is not None:
            found.gaps.append(f"node {node}, life {number}: {why}")
    found.messages = Messages(_pair_messages(lives))
    return found


# ---- one life ----

TimedContent = tuple[int, MessageContent]  # index of the moment at which the message was sent or received, its content
SessionKey = tuple[int, int]  # peer, session number


class TimedContents(Columns[TimedContent]):
    """The messages that were sent, or received, in one session."""

    def __init__(self, records: Iterable[TimedContent] = ()) -> None:
        self._words = Words()
        super().__init__(6, records)

    def _numbers(self, record: TimedContent) -> tuple[int, ...]:
        moment, (kind, epoch, first, last, words) = record
        return moment, self._words.number(kind), epoch, first, last, self._words.number(words)

    def _record(self, *numbers: int) -> TimedContent:
        moment, kind, epoch, first, last, words = numbers
        return moment, MessageContent(self._words.all[kind], epoch, first, last, self._words.all[words])


class LifeMessages:
    """The messages that one life sent and received, by session. It observes the life's re-execution.

    `_moments` are pairs: the node's clock, and the time of the last trace line before it. Messages refer to them by index;
    `convert_times` converts them to `times` of the host's clock.
    """

    def __init__(self, node: int) -> None:
        self.node = node
        self.rerun: Rerun  # set by `re_execute`
        self.outgoing: dict[SessionKey, TimedContents] = defaultdict(TimedContents)
        self.incoming: dict[SessionKey, TimedContents] = defaultdict(TimedContents)
        self.opened_at: dict[SessionKey, int] = {}
        self.times: Sequence[int] = ()
        self._moments: Columns[tuple[int, int]] = Columns(2)
        self._clock_points: Columns[tuple[int, int]] = Columns(2)  # (node's clock, host's clock) where both are known
        self._sessions: dict[int, int] = {}
        self._drops: list[tuple[int, int, MessageContent, str]] = []  # moment, sender, content, why
        self._line_before_round: int | None = None  # until the round's answer: time of the last trace line

    @seldom_collected()
    def re_execute(self, folder: Path, number: int, core: type[Peer], on_read: OnRead = unheard) -> str | None:
        """Re-execute life `number` from its recording. Return why that failed, or None."""
        if not (folder / trace_name(self.node, number)).is_file():
            return "it has no trace"
        rerun = Rerun(folder, self.node, number, core, on_read)
        self.rerun, self._matcher, rerun.observer = rerun, rerun.matcher, self
        try:
            rerun.run()
        except OSError as error:
            return f"{error.filename} can't be read: {error.strerror}"
        if rerun.difference is None:
            return None
        return f"{rerun.difference.what}; its messages after that are missing ({rerun.difference.file})"

    def on_entry(self, entry: AnyEntry) -> None:
        """Note an input of the core."""
        if isinstance(entry, Stepped):
            key = entry.source, self._sessions.get(entry.source, 0)
            content = content_of(entry.message)
            self.incoming[key].append((self.moment, content))
            if (why := self.rerun.drops.get(self.rerun.inputs)) is not None:
                self._drops.append((self.moment, entry.source, content, why))
        elif isinstance(entry, Ticked | Started):
            self._line_before_round = self._last()
            self._moments.append((entry.now, self._line_before_round))
        elif isinstance(entry, ReadyTaken):
            if self._line_before_round not in (None, self._last()):
                self._clock_points.append((self._moments[-1][0], self._last()))
            self._line_before_round = None
        elif isinstance(entry, LinkOpened | LinkClosed):
            self._link(entry.peer, opened=isinstance(entry, LinkOpened))

    def _link(self, peer: int, *, opened: bool) -> None:
        line = self._matcher.last
        if not opened:
            self._sessions.pop(peer, None)
        elif line is not None and self._matcher.untraced is None:
            said = line.fields.get("session")
            number = self._sessions[peer] = said if isinstance(said, int) else 0
            self.opened_at[peer, number] = line.t

    def on_sent(self, messages: list[tuple[int, m.Message]]) -> None:
        """Note the messages, with their receivers, that the core sent in answer to an input."""
        now, last = self._moments[-1][0], self._last()
        if self._moments[-1][1] != last:
            self._moments.append((now, last))
        moment = len(self._moments) - 1
        for peer, message in messages:
            self.outgoing[peer, self._sessions.get(peer, 0)].append((moment, content_of(message)))

    def _last(self) -> int:
        return self._matcher.last.t if self._matcher.last is not None else 0

    def convert_times(self, *, own_clocks: bool) -> None:
        """Convert all moments to ascending times of the host's clock."""
        host = _host_clock(self._clock_points) if own_clocks else _unchanged
        self.times = array("q", accumulate((max(traced, host(now)) for now, traced in self._moments), max))

    def drops(self) -> Iterator[Drop]:
        """Yield the messages that the core dropped. `times` must be converted."""
        for moment, source, content, why in self._drops:
            yield Drop(source, self.node, content, self.time(moment), why)

    def release(self) -> None:
        """Let go of what only the re-execution needs: the core has the node's whole history. `times` must be converted."""
        self._moments, self._clock_points = Columns(2), Columns(2)
        if hasattr(self, "rerun"):
            del self.rerun, self._matcher
            gc.collect()  # a core and its parts refer to each other

    @property
    def moment(self) -> int:
        """The index of the moment at which the current input is received: the next clock reading."""
        return len(self._moments)

    def time(self, moment: int) -> int:
        """Return the time of a moment. Inputs of the last round before a kill have no clock reading after them."""
        return self.times[min(moment, len(self.times) - 1)] if self.times else 0


def _unchanged(now: int) -> int:
    return now


def _host_clock(seen: Iterable[tuple[int, int]]) -> Callable[[int], int]:
    """Return a function from a node's clock to the host's, interpolated linearly between the points where both are known."""
    points = sorted(dict(seen).items())
    shown, real = [one for one, _ in points], [other for _, other in points]

    def host(now: int) -> int:
        after = bisect_right(shown, now)
        if not points:
            return now
        if after in (0, len(points)):
            nearest = min(after, len(points) - 1)
            return now + real[nearest] - shown[nearest]
        before, span = after - 1, shown[after] - shown[after - 1]
        return real[before] + (now - shown[before]) * (real[after] - real[before]) // span

    return host


# ---- matching sent with received messages ----


def _pair_messages(lives: list[LifeMessages]) -> Iterator[SentMessage]:
    """Return the messages of all sessions in the order of sending, in which those of each session are already."""
    senders: dict[tuple[int, int, int], list[LifeMessages]] = defaultdict(list)  # by node, peer, session
    for life in lives:
        for peer, session in life.outgoing:
            senders[life.node, peer, session].append(life)
    receivers: dict[tuple[int, SessionKey], list[tuple[LifeMessages, TimedContents]]] = defaultdict(list)
    for life in lives:
        for (peer, session), items in life.incoming.items():
            sender = _sender(senders[peer, life.node, session], life.opened_at.get((peer, session), 0), life, session)
            if sender is not None:
                receivers[id(sender), (life.node, session)].append((life, items))
    sessions = (
        _session_messages(life, key, items, receivers.get((id(life), key), []))
        for life in lives
        for key, items in life.outgoing.items()
    )
    return merge(*sessions, key=lambda one: one.sent)


def _sender(candidates: list[LifeMessages], opened: int, receiver: LifeMessages, session: int) -> LifeMessages | None:
    """Return the life that opened the session when the receiver did: a session number can occur in several lives."""
    key = receiver.node, session
    return min(candidates, key=lambda one: abs(one.opened_at.get(key, 0) - opened), default=None)


def _session_messages(
    life: LifeMessages,
    key: SessionKey,
    items: TimedContents,
    receivers: list[tuple[LifeMessages, TimedContents]],
) -> Iterator[SentMessage]:
    """Yield each message of one session, with its receipt if there was one; once for each time that it was received."""
    arrivals = array("q", [NEVER]) * len(items)
    again: dict[int, list[int]] = defaultdict(list)
    for receiver, received_items in receivers:
        for index, moment in _arrivals(items, received_items):
            if arrivals[index] == NEVER:
                arrivals[index] = receiver.time(moment)
            else:
                again[index].append(receiver.time(moment))
    for index, (moment, content) in enumerate(items):
        sent = life.time(moment)
        for received in (arrivals[index], *again.get(index, ())):
            there = None if received == NEVER else max(received, sent)
            yield SentMessage(life.node, key[0], content, sent, there)


def _arrivals(sent: TimedContents, received_items: TimedContents) -> Iterator[tuple[int, int]]:
    """Match received messages with sent ones: yield (index in `sent`, moment of receipt).

    A received message is the next equal one that was sent. If there is none, an earlier one was received again.
    """
    following = 0
    for moment, content in received_items:
        ahead = next((index for index in range(following, len(sent)) if sent[index][1] == content), None)
        if ahead is not None:
            following = ahead + 1
        else:
            ahead = next((index for index in reversed(range(following)) if sent[index][1] == content), None)
        if ahead is not None:
            yield ahead, moment


# ---- the content of a message ----

_CONTENTS: dict[type, Callable[[Any], MessageContent]] = {
    m.Propose: lambda it: MessageContent("PROPOSE", it.epoch, it.run.first, it.run.first + len(it.run.txns) - 1),
    m.Ack: lambda it: MessageContent("ACK", it.epoch, it.zxid, it.zxid),
    m.Commit: lambda it: MessageContent("COMMIT", it.epoch, it.zxid, it.zxid),
    m.Ping: lambda it: MessageContent("PING", it.epoch, it.delivered, it.delivered),
    m.NewLeader: lambda it: _sync_content(it, "NEWLEADER"),
    m.History: lambda it: _sync_content(it, "HISTORY"),
    m.AckLeader: lambda it: MessageContent("ACK-LD", it.epoch, it.last_zxid, it.last_zxid, descriptions.message(it)),
    m.CommitLeader: lambda it: MessageContent(
        "COMMIT-LD", it.epoch, it.committed, it.committed, descriptions.message(it)
    ),
    m.Vote: lambda it: MessageContent("VOTE", it.epoch, 0, 0, descriptions.message(it)),
    m.Cepoch: lambda it: MessageContent("CEPOCH", it.accepted_epoch, 0, 0, descriptions.message(it)),
}


def content_of(message: m.Message) -> MessageContent:
    """Return the content of a message."""
    of = _CONTENTS.get(type(message))
    if of is not None:
        return of(message)
    return MessageContent(m.NAMES[type(message)], message.epoch, 0, 0, descriptions.message(message))  # type: ignore[union-attr]


def _sync_content(message: m.NewLeader | m.History, kind: str) -> MessageContent:
    """Return the content of a message that carries a history: its transactions, or all up to the zxid of its snapshot."""
    sync, words = message.sync, descriptions.message(message)
    runs = [run for run in sync.runs if run.txns]
    first = 1 if sync.snapshot else runs[0].first if runs else 0
    last = runs[-1].first + len(runs[-1].txns) - 1 if runs else sync.keep if sync.snapshot else 0
    return MessageContent(kind, message.epoch, first, last, words)
