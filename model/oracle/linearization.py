"""Whether one key's history is linearizable: whether some order of its operations, each at one instant between its call and
its return, explains every answer (Herlihy and Wing, 1990).

Linearizability is local: each key is judged by itself. Where a key is only read and written, each value once, no search is
needed: a value's operations must be together in the order, so when they had to be and when they could be is all that
counts (Gibbons and Korach, 1997). Else there is a search, just in time (Lowe, 2017): an operation is put in its place only
when one must return, so what is kept are the states that may be, each with those of the outstanding operations that have
taken effect in it. An operation whose outcome is unknown stays outstanding for good: it may take effect at any time after
its call, or never.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from zab_chaos.model.events import Complete, Invoke
from zab_chaos.node.tree.refusal import BAD_VERSION, NO_NODE, NODE_EXISTS

MOST = 200_000  # configurations of one key that are looked at, at most
BEFORE, NEVER = -1, 2**63  # times
UNSHOWN = -1  # instead of a value that no read has shown; no CRC-32
TELLING = frozenset({NODE_EXISTS, NO_NODE, BAD_VERSION})  # refusals that say something of the key's state

State = tuple[int | None, int] | None  # the value's CRC-32 and the version; None: there is no such key
Configuration = tuple[State, frozenset[int]]  # and the outstanding operations that have taken effect


class Call(Struct, frozen=True, gc=False):
    """One operation of one key, and what was told of it. `answer` None, or "unknown": nothing."""

    invoke: Invoke
    answer: Complete | None

    @property
    def known(self) -> bool:
        return self.answer is not None and self.answer.outcome != "unknown"


class GaveUp(Exception):
    """There are too many possibilities."""


def unexplained(calls: Sequence[Call]) -> Call | None:
    """The first operation whose answer no order explains; None if the history is linearizable. Raises GaveUp."""
    kept = _worth_trying(calls)
    return by_zones(kept) if _plain(kept) else by_search(kept)


def by_zones(calls: Sequence[Call]) -> Call | None:
    """Likewise, for plain reads and writes of values that are written once."""
    writes = {call.invoke.value: call for call in calls if call.invoke.op == "set"}
    clusters: dict[int | None, list[Call]] = {value: [call] for value, call in writes.items()}
    for call in calls:
        if call.invoke.op == "get" and call.answer is not None:
            value = (
                call.answer.value if call.answer.outcome == "ok" else None
            )  # None: what is there before the first write
            writer = writes.get(value)
            if value is not None and (writer is None or call.answer.t < writer.invoke.t):
                return call
            clusters.setdefault(value, []).append(call)
    zones = [_Zone.of(cluster, first=value is None) for value, cluster in clusters.items()]
    forward = sorted((zone for zone in zones if zone.begin < zone.end), key=lambda zone: zone.begin)
    for one, other in pairwise(forward):
        if other.begin < one.end:
            return one.last  # called when the other was there already
    begins = [zone.begin for zone in forward]
    for zone in zones:
        around = bisect_left(begins, zone.end) - 1  # the last that begins before the other could be
        if zone.begin >= zone.end and around >= 0 and zone.begin < forward[around].end:
            return forward[around].last
    return None


class _Zone(Struct, frozen=True, gc=False):
    """When a value was there for certain, if `begin` is before `end`; else it could be at any instant from `end` to `begin`.

    `begin`: the first return of its operations; `end`: the last call, of `last`.
    """

    begin: int
    end: int
    last: Call

    @classmethod
    def of(cls, cluster: Sequence[Call], *, first: bool) -> "_Zone":
        returns = [call.answer.t for call in cluster if call.known and call.answer is not None]
        last = max(cluster, key=lambda call: call.invoke.t)
        return cls(BEFORE if first else min(returns, default=NEVER), last.invoke.t, last)


def by_search(kept: Sequence[Call]) -> Call | None:
    """Likewise, for all operations."""
    search = _Search.of(kept)
    outstanding: dict[int, Call] = {}
    possible: set[Configuration] = {(None, frozenset())}
    looked = 0
    for number, returns in _in_time(kept):
        if not returns:
            outstanding[number] = kept[number]
            continue
        possible, more = search.returned(number, outstanding, possible)
        looked += more
        if not possible:
            return kept[number]
        if looked > MOST:
            raise GaveUp(f"more than {MOST:,} possibilities")
        del outstanding[number]
    return None


def _worth_trying(calls: Sequence[Call]) -> list[Call]:
    """Without what can't matter: reads and refusals that tell nothing, and unknown writes that nobody can have noticed."""
    told = [call for call in calls if not _tells_nothing(call)]
    seen = {call.answer.value for call in told if call.invoke.op == "get" and call.answer is not None}
    plain = _plain(told)
    return [call for call in told if call.known or not plain or call.invoke.value in seen]


def _plain(calls: Sequence[Call]) -> bool:
    """Whether there are only reads and writes without conditions, of values that are written once."""
    written = [call.invoke.value for call in calls if call.invoke.op == "set"]
    return len(set(written)) == len(written) and all(
        call.invoke.op in ("get", "set") and call.invoke.version is None and _version(call) is None
        and (call.answer is None or not call.known or call.answer.error in (None, NO_NODE))
        and not (call.invoke.op == "set" and call.known and call.answer is not None and call.answer.outcome == "failed")
        for call in calls
    )  # fmt: skip


def _tells_nothing(call: Call) -> bool:
    if not call.known:
        return call.invoke.op in ("get", "exists", "check")
    assert call.answer is not None
    return call.answer.outcome == "failed" and call.answer.error not in TELLING


def _in_time(calls: Sequence[Call]) -> Iterator[tuple[int, bool]]:
    """(number, whether it returns), in time; of what is at one instant, calls come before returns: they overlap."""
    moments = [(call.invoke.t, False, number) for number, call in enumerate(calls)]
    moments += [(call.answer.t, True, number) for number, call in enumerate(calls) if call.known and call.answer]
    for _, returns, number in sorted(moments):
        yield number, returns


class _Search(Struct, frozen=True, gc=False):
    """One key's search, and what spares it possibilities that make no difference.

    `shown`: the values that a read has shown; all others are one. `unknown`: the writes of unknown outcome. `alike`: of those
    whose value nobody was shown, what they would do; one that was called earlier does as well as a later one. `removed`:
    whether the key may have been deleted; else its version never falls.
    """

    versions: bool
    removed: bool
    shown: frozenset[int | None]
    unknown: frozenset[int]
    alike: dict[int, tuple[str, int | None]]

    @classmethod
    def of(cls, kept: Sequence[Call]) -> "_Search":
        shown = frozenset(call.answer.value for call in kept if call.invoke.op == "get" and call.answer is not None)
        unknown = frozenset(number for number, call in enumerate(kept) if not call.known)
        return cls(
            any(call.invoke.version is not None or _version(call) is not None for call in kept),
            any(call.invoke.op == "delete" for call in kept),
            shown,
            unknown,
            {
                number: (kept[number].invoke.op, kept[number].invoke.version)
                for number in unknown
                if kept[number].invoke.op == "delete" or kept[number].invoke.value not in shown
            },
        )

    def returned(
        self, number: int, outstanding: dict[int, Call], possible: set[Configuration]
    ) -> tuple[set[Configuration], int]:
        """The configurations that may be after this operation has returned, and how many were looked at."""
        found: set[Configuration] = {(state, done - {number}) for state, done in possible if number in done}
        open_ones = [one for one in possible if number not in one[1]]
        seen = set(open_ones)
        told = _version(outstanding[number])
        while open_ones:
            state, done = open_ones.pop()
            tried = set()
            for other, call in outstanding.items():
                if other in done or (kind := self.alike.get(other)) in tried:
                    continue
                if kind is not None:
                    tried.add(kind)
                legal, after = self._effect(call, state)
                if not legal or (other in self.unknown and after == state):
                    continue
                if other == number:
                    found.add((after, done))
                elif (
                    not self._passed(after, told)
                    and (reached := (after, self._used(after, done | {other}, outstanding))) not in seen
                ):
                    seen.add(reached)
                    open_ones.append(reached)
            if len(seen) > MOST:
                raise GaveUp(f"more than {MOST:,} possibilities")
        return self._least(found), len(seen)

    def _effect(self, call: Call, state: State) -> tuple[bool, State]:
        legal, after = _effect(call, state, self.versions)
        return legal, after if after is None or after[0] in self.shown else (UNSHOWN, after[1])

    def _passed(self, state: State, told: int | None) -> bool:
        """Whether the version that was told can't come any more."""
        return told is not None and state is not None and state[1] > told and not self.removed

    def _used(self, state: State, done: frozenset[int], outstanding: dict[int, Call]) -> frozenset[int]:
        """Without those of unknown outcome that could not take effect any more in any case: their version is over."""
        if self.removed or state is None:
            return done
        over = {
            number
            for number in done & self.unknown
            if (wanted := outstanding[number].invoke.version) is not None and wanted < state[1]
        }
        return done - over

    def _least(self, found: set[Configuration]) -> set[Configuration]:
        """Without those that differ from another one only in that more of unknown outcome has taken effect."""
        if len(found) < 2:
            return found
        kept: dict[Configuration, list[frozenset[int]]] = {}
        for state, done in sorted(found, key=lambda one: len(one[1])):
            others = kept.setdefault((state, done - self.unknown), [])
            used = done & self.unknown
            if not any(other <= used for other in others):
                others.append(used)
        return {(state, certain | used) for (state, certain), others in kept.items() for used in others}


def _effect(call: Call, state: State, versions: bool) -> tuple[bool, State]:
    """Whether the operation may take effect in this state, with the answer that it got, and the state afterwards. A `set` of
    a missing key makes it."""
    answer = call.answer if call.known else None
    if answer is not None and answer.outcome == "failed":
        return _refused(call, state, answer.error), state
    wanted = call.invoke.version
    if wanted is not None and (state is None or state[1] != wanted):
        return False, state
    match call.invoke.op:
        case "get":
            told = answer is not None and state is not None and state[0] == answer.value
            return told and _fits(answer, state), state
        case "exists":  # that it is there is said by its version
            return _version(call) == (state[1] if state is not None else None), state
        case "check":
            return state is not None and _fits(answer, state), state
        case "delete":
            return state is not None, None
        case "create" if state is not None:
            return False, state
    after = (call.invoke.value, state[1] + 1 if state is not None and versions else 0)
    return _fits(answer, after), after


def _refused(call: Call, state: State, error: str | None) -> bool:
    """Whether it is true of this state, and a reason not to do what was asked for."""
    wanted = call.invoke.version
    if error == NODE_EXISTS:
        return call.invoke.op == "create" and state is not None
    if error == NO_NODE:
        return state is None
    return wanted is not None and state is not None and state[1] != wanted


def _fits(answer: Complete | None, state: State) -> bool:
    """Whether the version that was told is the key's."""
    return answer is None or answer.version is None or (state is not None and state[1] == answer.version)


def _version(call: Call) -> int | None:
    return call.answer.version if call.answer is not None else None
