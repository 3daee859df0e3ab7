"""Whether one key's history is linearizable: whether some order of its operations, each at one instant between its call and
its return, explains every answer (Herlihy and Wing, 1990).

Linearizability is local: each key is judged by itself. Where a key is only read and written, each value once, no search is
needed: a value's operations must be together in the order, so when they had to be and when they could be is all that
counts (Gibbons and Korach, 1997). Else there is a search, just in time (Lowe, 2017): an operation is put in its place only
when one must return, so what is kept are the states that may be, each with those of the outstanding operations that have
taken effect in it. An operation whose outcome is unknown stays outstanding for good: it may take effect at any time after
its call, or never. What makes no difference to any answer is left out, so that few of them are carried from one return to
the next, however long the history is.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count, pairwise

from msgspec import Struct

from zab_chaos.model.events import Complete, Invoke
from zab_chaos.node.tree.refusal import BAD_VERSION, NO_NODE, NODE_EXISTS

MOST = 200_000  # configurations that are looked at for each thousand operations of a key, at most
BEFORE, NEVER = -1, 2**63  # times
NOTHING: frozenset[int] = frozenset()
UNSHOWN = -1  # instead of a value that no read has shown; no CRC-32
TELLING = frozenset({NODE_EXISTS, NO_NODE, BAD_VERSION})  # refusals that say something of the key's state

State = tuple[int | None, int] | None  # the value's CRC-32 and the version; None: there is no such key
Numbers = frozenset[int]  # of calls, by their place
Configuration = tuple[State, Numbers, Numbers]  # and the outstanding calls that have taken effect: answered, unknown


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
    stuck = _stuck(kept)
    if stuck is None:
        return None
    returns = [number for number, returns in _in_time(kept) if returns]

    def wrong(place: int) -> bool:
        """Whether no order explains what was known after so many more returns."""
        known = set(returns[: place + 1])
        return _stuck([call if n in known else Call(call.invoke, None) for n, call in enumerate(kept)]) is not None

    first = returns.index(stuck)  # the answers after it counted, too: one of them may be what is wrong
    with suppress(GaveUp):
        first = bisect_left(range(len(returns) - 1), True, first, key=wrong)
    return kept[returns[first]]


def _stuck(kept: Sequence[Call]) -> int | None:
    """The return at which no configuration is left, by its call's number."""
    search = _Search.of(kept)
    for number, returns in _in_time(kept):
        if not returns:
            search.outstanding[number] = kept[number]
        elif not search.returned(number):
            return number
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


class _Search(Struct, gc=False):
    """One key's search: the operations that are outstanding, and the configurations that may be.

    Four rules leave out what makes no difference:

    - A value counts only as long as some read that shows it has not taken effect; all others are one.
    - A value that is written once can't be replaced as long as that is so: it would never come back.
    - What changes nothing takes effect as soon as its answer is true: nothing is lost by that.
    - Of unknown operations as few as possible have taken effect. Of two that would do the same now, the one that can do less
      later goes first: it needs a version, or that there is no such key.

    `reads`: by value, those that show it and have not returned. `once`: the values that are written once. `alike`: what an
    unknown operation does: whether it deletes, and the value that it writes, if some read shows that.
    """

    versions: bool
    reads: dict[int | None, set[int]]
    once: frozenset[int | None]
    alike: dict[int, tuple[bool, int | None]]
    most: int
    looked: int
    outstanding: dict[int, Call]
    possible: list[Configuration]

    @classmethod
    def of(cls, kept: Sequence[Call]) -> "_Search":
        reads: dict[int | None, set[int]] = {}
        for number, call in enumerate(kept):
            if call.invoke.op == "get" and call.answer is not None and call.answer.outcome == "ok":
                reads.setdefault(call.answer.value, set()).add(number)
        written = Counter(call.invoke.value for call in kept if call.invoke.op in ("set", "create"))
        return cls(
            versions=any(call.invoke.version is not None or _version(call) is not None for call in kept),
            reads=reads,
            once=frozenset(value for value, times in written.items() if times == 1),
            alike={
                number: (call.invoke.op == "delete", call.invoke.value if call.invoke.value in reads else UNSHOWN)
                for number, call in enumerate(kept)
                if not call.known
            },
            most=MOST * (1 + len(kept) // 1000),
            looked=0,
            outstanding={},
            possible=[(None, NOTHING, NOTHING)],
        )

    def returned(self, number: int) -> bool:
        """Whether any configuration is left when this operation has returned. Raises GaveUp."""
        asking = [other for other, call in self.outstanding.items() if _only_asks(call)]
        writing = sorted(self.outstanding.keys() - asking, key=self._ability)
        left: list[Configuration] = []
        fewest: dict[tuple[State, Numbers], list[Numbers]] = {}
        order = count()
        ahead = [(len(one[2]), next(order), one) for one in self.possible]
        heapify(ahead)
        while ahead:  # those first of which few unknown operations have taken effect
            state, done, used = self._settled(heappop(ahead)[2], asking)
            self.looked += 1
            if self.looked > self.most:
                raise GaveUp(f"more than {MOST:,} possibilities for each thousand operations")
            others = fewest.setdefault((state, done), [])
            if any(other <= used for other in others):
                continue
            others.append(used)
            if number in done:
                left.append((state, done - {number}, used))
                continue
            for one in self._steps((state, done, used), writing):
                heappush(ahead, (len(one[2]), next(order), one))
        self.possible = left
        answer = self.outstanding.pop(number).answer
        if answer is not None and answer.value in self.reads:
            self.reads[answer.value].discard(number)
        return bool(left)

    def _ability(self, number: int) -> tuple[bool, int]:
        """Orders operations: those first that can do less."""
        invoke = self.outstanding[number].invoke
        return invoke.version is None and invoke.op != "create", number

    def _settled(self, one: Configuration, asking: Sequence[int]) -> Configuration:
        """With all that can be answered now."""
        state, done, used = one
        done = done.union([number for number in asking if _effect(self.outstanding[number], state, self.versions)[0]])
        return self._plain(state, done), done, used

    def _plain(self, state: State, done: Numbers) -> State:
        """Without a value that no read is to show any more."""
        return state if state is None or self._awaited(state[0], done) else (UNSHOWN, state[1])

    def _awaited(self, value: int | None, done: Numbers) -> bool:
        return not self.reads.get(value, NOTHING) <= done

    def _steps(self, one: Configuration, writing: Sequence[int]) -> Iterator[Configuration]:
        """What may be when one more write has taken effect."""
        state, done, used = one
        if state is not None and state[0] in self.once and self._awaited(state[0], done):
            return
        tried = set()
        for number in writing:
            call = self.outstanding[number]
            legal, after = _effect(call, state, self.versions)
            if not legal or number in done or number in used:
                continue
            if call.known:
                yield after, done | {number}, used
            elif self.alike[number] not in tried and self._plain(after, done) != state:
                tried.add(self.alike[number])
                yield after, done, used | {number}


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


def _only_asks(call: Call) -> bool:
    """Whether it leaves the key as it is, whatever that is."""
    refused = call.answer is not None and call.answer.outcome == "failed"
    return call.known and (refused or call.invoke.op in ("get", "exists", "check"))


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
