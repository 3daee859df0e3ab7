"""What a client sees (LADIS 2008, section 1: requests of a client in FIFO order)."""

from dataclasses import dataclass

from model.events import Complete, Invoke, packed
from model.evidence import show
from model.facts import Facts
from model.properties.checker import Checker

READS = frozenset({"get", "exists", "children"})
OWN_TRANSACTION = frozenset({"create", "set", "delete"})  # a multi may be made of checks only, and change nothing


@dataclass(slots=True)
class _Session:
    answered: Complete | None = None  # the answer with the highest seq
    seen: int = 0  # the highest zxid in any answer
    seen_in: Complete | None = None
    written: int = 0  # the zxid of the last write
    written_in: Complete | None = None


class ClientOrder(Checker):
    """LADIS 2008: a client's requests are processed and answered in the order in which it sent them.

    Verifies, for each session: answers (ok or failed) come in the order of `seq`; the transactions of its successful
    writes ascend in that order; no read shows an older state than an earlier answer did, whichever node gave it; and
    that no transaction answers two writes. Does not verify when an "unknown" operation took effect, nor the values
    that were read, nor that a read does not see a write that was sent right after it.
    """

    name = "client order"
    source = "LADIS 2008"
    statement = "A client's answers and effects come in its order, and the reads of a session never go back."
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._sessions: dict[int, _Session] = {}
        self._owners: dict[int, Complete] = {}  # by zxid

    def on_complete(self, event: Complete, question: Invoke) -> None:
        if event.outcome == "unknown":
            return  # the client gave up; nobody answered
        self.checked += 1
        session = self._sessions.setdefault(event.client, _Session())
        if session.answered is not None and event.seq < session.answered.seq:
            self.found.add(
                f"client {event.client} got the answer to seq {event.seq} after the one to seq {session.answered.seq}",
                [session.answered, event],
            )
        else:
            session.answered = event
        if event.outcome == "ok" and event.zxid is not None:
            self._effect(session, event, question.op, packed(event.zxid))

    def _effect(self, session: _Session, event: Complete, op: str, zxid: int) -> None:
        if op in READS and zxid < session.seen:
            self.found.add(
                f"client {event.client} saw {show(zxid)} with seq {event.seq} ({op}), after it had seen "
                f"{show(session.seen)}",
                [session.seen_in, event],
            )
        if op in OWN_TRANSACTION:
            self._own(event, zxid)
            if zxid <= session.written:
                self.found.add(
                    f"client {event.client} wrote {show(zxid)} with seq {event.seq} ({op}), after it had written "
                    f"{show(session.written)}",
                    [session.written_in, event],
                )
            session.written, session.written_in = zxid, event
        if zxid >= session.seen:
            session.seen, session.seen_in = zxid, event

    def _own(self, event: Complete, zxid: int) -> None:
        owner = self._owners.setdefault(zxid, event)
        if owner is not event and owner.client != event.client:
            self.found.add(
                f"{show(zxid)} answers both the write of client {owner.client}, seq {owner.seq}, and that of client "
                f"{event.client}, seq {event.seq}",
                [owner, event],
            )
