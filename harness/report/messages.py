"""The messages between the nodes of a recorded run: what each sent to whom, when it left, and when the other end took it.

Every life is re-executed from its recording (`zab_chaos.model.replay`), and what its core sends is held against what the other
end's recording says it took. Sessions are FIFO and numbered, so the k-th message that was taken in a session is the k-th that
was sent in it; what is equal is compared all the same, because a defect may lose or repeat some of them. A message that nobody
took has no time of arrival: its session was over, or its receiver was.

Times are the host's. A recording has the node's own clock, once a round; the trace, which has the host's, tells how that clock
went. A message left after the last line that was traced before it, and was taken before its round's look at the clock.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from zab_chaos.model.events import trace_name
from zab_chaos.model.replay import descriptions
from zab_chaos.model.replay.life import Rerun
from zab_chaos.model.replay.replay import recorded_lives
from zab_chaos.node.core import messages as m
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.recording import Answered, AnyEntry, LinkClosed, LinkOpened, Started, Stepped, Ticked

NOT_RECORDED = "the run was not recorded, or its backend records nothing"


class MessageContent(NamedTuple):
    """What a message says, as far as a picture needs it: zxids are 0 where it names none; `words`: of the rare kinds."""

    kind: str
    epoch: int
    first: int
    last: int
    words: str = ""


class SentMessage(NamedTuple):
    """One message. Times in nanoseconds; `received` None: nobody took it."""

    source: int
    target: int
    content: MessageContent
    sent: int
    received: int | None


@dataclass(slots=True)
class Exchange:
    """All messages, by the time at which they were sent; `gaps` says in words which are missing, and why."""

    messages: list[SentMessage] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def read_messages(folder: Path, core: type[Peer], traced: Iterable[tuple[int, int]], *, own_clocks: bool) -> Exchange:
    """Everything that the recordings in a run's folder tell. Nothing that is damaged there stops it.

    `core`: what the nodes were built with. `traced`: (node, life) of the lives that there were. `own_clocks`: the nodes'
    clocks may differ from the host's.
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
        life = RecordedLife(node)
        why = life.read(folder, number, core)
        lives.append(life)
        if why is not None:
            found.gaps.append(f"node {node}, life {number}: {why}")
    for life in lives:
        life.settle(own_clocks=own_clocks)
    found.messages = sorted(_all(lives), key=lambda one: one.sent)
    return found


# ---- one life ----

Item = tuple[int, MessageContent]  # the index of the moment, what was said
Place = tuple[int, int]  # peer, number of the session


class RecordedLife:
    """What one life sent and took, session by session; told by its re-execution.

    `_moments` are (the node's clock, the time of the line that was traced last); items point into them until `settle`
    makes `times` of them.
    """

    def __init__(self, node: int) -> None:
        self.node = node
        self.rerun: Rerun  # as soon as it is read
        self.gave: dict[Place, list[Item]] = defaultdict(list)
        self.taken: dict[Place, list[Item]] = defaultdict(list)
        self.opened: dict[Place, int] = {}
        self.times: list[int] = []
        self._moments: list[tuple[int, int]] = []
        self._seen: list[tuple[int, int]] = []  # (the node's clock, the host's), as far as both are known
        self._session: dict[int, int] = {}
        self._asked: int | None = None  # before a round's first answer: the time of the line that was traced last

    def read(self, folder: Path, number: int, core: type[Peer]) -> str | None:
        """Re-execute it; why that came to no end, if so."""
        if not (folder / trace_name(self.node, number)).is_file():
            return "it has no trace"
        rerun = Rerun(folder, self.node, number, core)
        self.rerun, self._match, rerun.observer = rerun, rerun.match, self
        try:
            rerun.run()
        except OSError as error:
            return f"{error.filename} can't be read: {error.strerror}"
        if rerun.difference is None:
            return None
        return f"{rerun.difference.what}; its messages after that are missing ({rerun.difference.file})"

    def took(self, entry: AnyEntry) -> None:
        if isinstance(entry, Stepped):
            place = entry.source, self._session.get(entry.source, 0)
            self.taken[place].append((self.moment, content_of(entry.message)))
        elif isinstance(entry, Ticked | Started):
            self._asked = self._last()
            self._moments.append((entry.now, self._asked))
        elif isinstance(entry, Answered):
            if self._asked not in (None, self._last()):
                self._seen.append((self._moments[-1][0], self._last()))
            self._asked = None
        elif isinstance(entry, LinkOpened | LinkClosed):
            self._link(entry.peer, opened=isinstance(entry, LinkOpened))

    def _link(self, peer: int, *, opened: bool) -> None:
        line = self._match.last
        if not opened:
            self._session.pop(peer, None)
        elif line is not None and self._match.untraced is None:
            said = line.fields.get("session")
            number = self._session[peer] = said if isinstance(said, int) else 0
            self.opened[peer, number] = line.t

    def sent(self, messages: list[tuple[int, m.Message]]) -> None:
        now, last = self._moments[-1][0], self._last()
        if self._moments[-1][1] != last:
            self._moments.append((now, last))
        moment = len(self._moments) - 1
        for peer, message in messages:
            self.gave[peer, self._session.get(peer, 0)].append((moment, content_of(message)))

    def _last(self) -> int:
        return self._match.last.t if self._match.last is not None else 0

    def settle(self, *, own_clocks: bool) -> None:
        """All moments in the host's time, ascending."""
        host = _clock(self._seen) if own_clocks else _same
        latest = 0
        for now, traced in self._moments:
            latest = max(latest, traced, host(now))
            self.times.append(latest)

    @property
    def moment(self) -> int:
        """The index of the moment that what is taken now belongs to."""
        return len(self._moments)

    def time(self, moment: int) -> int:
        """What was taken in the last round before a kill has no look at the clock behind it."""
        return self.times[min(moment, len(self.times) - 1)] if self.times else 0


def _same(now: int) -> int:
    return now


def _clock(seen: list[tuple[int, int]]) -> Callable[[int], int]:
    """From a node's clock to the host's, by straight lines between the points at which both are known."""
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


# ---- both ends ----


def _all(lives: list[RecordedLife]) -> Iterator[SentMessage]:
    senders: dict[tuple[int, int, int], list[RecordedLife]] = defaultdict(list)  # by node, peer, session
    for life in lives:
        for (peer, session), _ in life.gave.items():
            senders[life.node, peer, session].append(life)
    ends: dict[tuple[int, Place], list[tuple[RecordedLife, list[Item]]]] = defaultdict(list)
    for life in lives:
        for (peer, session), items in life.taken.items():
            sender = _sender(senders[peer, life.node, session], life.opened.get((peer, session), 0), life, session)
            if sender is not None:
                ends[id(sender), (life.node, session)].append((life, items))
    for life in lives:
        for place, items in life.gave.items():
            yield from _session(life, place, items, ends.get((id(life), place), []))


def _sender(candidates: list[RecordedLife], opened: int, receiver: RecordedLife, session: int) -> RecordedLife | None:
    """Of the lives that had a session with this number, the one that opened it when the receiver did."""
    place = receiver.node, session
    return min(candidates, key=lambda one: abs(one.opened.get(place, 0) - opened), default=None)


def _session(
    life: RecordedLife, place: Place, items: list[Item], ends: list[tuple[RecordedLife, list[Item]]]
) -> Iterator[SentMessage]:
    """Each message of one session, with its arrival if it has one; a repeated one once more."""
    arrivals: dict[int, list[int]] = defaultdict(list)
    for receiver, taken in ends:
        for index, moment in _pairs(items, taken):
            arrivals[index].append(receiver.time(moment))
    for index, (moment, said) in enumerate(items):
        sent = life.time(moment)
        for received in arrivals.get(index, [None]):
            yield SentMessage(life.node, place[0], said, sent, None if received is None else max(received, sent))


def _pairs(sent: list[Item], taken: list[Item]) -> Iterator[tuple[int, int]]:
    """(index in `sent`, moment of arrival): the next equal one; if there is none, an earlier one came again."""
    following = 0
    for moment, said in taken:
        ahead = next((index for index in range(following, len(sent)) if sent[index][1] == said), None)
        if ahead is not None:
            following = ahead + 1
        else:
            ahead = next((index for index in reversed(range(following)) if sent[index][1] == said), None)
        if ahead is not None:
            yield ahead, moment


# ---- what a message says ----

_CONTENTS: dict[type, Callable[[Any], MessageContent]] = {
    m.Propose: lambda it: MessageContent("PROPOSE", it.epoch, it.run.first, it.run.first + len(it.run.txns) - 1),
    m.Ack: lambda it: MessageContent("ACK", it.epoch, it.zxid, it.zxid),
    m.Commit: lambda it: MessageContent("COMMIT", it.epoch, it.zxid, it.zxid),
    m.Ping: lambda it: MessageContent("PING", it.epoch, it.delivered, it.delivered),
    m.NewLeader: lambda it: _of_sync(it, "NEWLEADER"),
    m.History: lambda it: _of_sync(it, "HISTORY"),
    m.AckLeader: lambda it: MessageContent("ACK-LD", it.epoch, it.last_zxid, it.last_zxid, descriptions.message(it)),
    m.CommitLeader: lambda it: MessageContent(
        "COMMIT-LD", it.epoch, it.committed, it.committed, descriptions.message(it)
    ),
    m.Vote: lambda it: MessageContent("VOTE", it.epoch, 0, 0, descriptions.message(it)),
    m.Cepoch: lambda it: MessageContent("CEPOCH", it.accepted_epoch, 0, 0, descriptions.message(it)),
}


def content_of(message: m.Message) -> MessageContent:
    """What this message says."""
    of = _CONTENTS.get(type(message))
    if of is not None:
        return of(message)
    return MessageContent(m.NAMES[type(message)], message.epoch, 0, 0, descriptions.message(message))  # type: ignore[union-attr]


def _of_sync(message: m.NewLeader | m.History, kind: str) -> MessageContent:
    """The transactions that it carries; all up to a snapshot's zxid, if it has one."""
    sync, said = message.sync, descriptions.message(message)
    runs = [run for run in sync.runs if run.txns]
    first = 1 if sync.snapshot else runs[0].first if runs else 0
    last = runs[-1].first + len(runs[-1].txns) - 1 if runs else sync.keep if sync.snapshot else 0
    return MessageContent(kind, message.epoch, first, last, said)
