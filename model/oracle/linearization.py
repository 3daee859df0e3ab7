"""Linearizability of one key: does some order of its operations, each at one instant between its call and its return,
explain every answer (Herlihy and Wing, 1990)?

Linearizability is local, so each key is judged by itself. If a key is only read and written, and each value is written
once, no search is needed: the operations of a value must be adjacent in the order, so it is enough to compare the times at
which each value must have been, or could have been, the current one (Gibbons and Korach, 1997).

Otherwise there is a just-in-time search (Lowe, 2017): operations are ordered only when one of them must return. The search
keeps the possible states, each with the outstanding operations that have taken effect in it. An operation with an unknown
outcome stays outstanding for ever: it may take effect at any time after its call, or never. Whatever makes no difference to
any answer is left out, so that few configurations are carried from one return to the next, however long the history is.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count, pairwise

from msgspec import Struct
from msgspec.structs import replace

from zab_chaos.model.events import Complete, Invoke
from zab_chaos.node.tree.refusal import BAD_VERSION, NO_NODE, NODE_EXISTS

MAX_CONFIGURATIONS = 200_000  # examined for each thousand operations of a key, at most
BEFORE, NEVER = -1, 2**63  # times
NOTHING: frozenset[int] = frozenset()
UNSEEN = -1  # replaces a value or a version that no further answer shows; not a CRC-32
UNNAMED = -2  # any version of which it is not known which write it names
INFORMATIVE = frozenset({NODE_EXISTS, NO_NODE, BAD_VERSION})  # refusals that depend on the state of the key
NEEDING = frozenset({"get", "check", "delete"})  # operations whose key must exist; so must that of a `set` on condition

State = tuple[int | None, int] | None  # the CRC-32 of the value and the version; None: the key does not exist
Numbers = frozenset[int]  # calls, by their index
Configuration = tuple[State, Numbers, Numbers]  # with the outstanding calls that took effect: known, unknown


class Call(Struct, frozen=True, gc=False):
    """One operation of one key and its answer. An `answer` of None or with the outcome "unknown" says nothing.

    `makes`: the version that the write makes, if versions name writes (`zab_chaos.model.oracle.version_names`); None if they
    count.
    """

    invoke: Invoke
    answer: Complete | None
    makes: int | None = None

    @property
    def known(self) -> bool:
        return self.answer is not None and self.answer.outcome != "unknown"


class GaveUp(Exception):
    """There are too many possibilities to search."""


def first_unexplained(calls: Sequence[Call]) -> Call | None:
    """Return the first operation whose answer no order explains, None if the history is linearizable. Raises GaveUp.

    If versions name writes, `zab_chaos.model.oracle.version_names.resolved` must have prepared the calls.
    """
    relevant = _relevant(calls)
    return by_zones(relevant) if _is_plain(relevant) else by_search(relevant)


def by_zones(calls: Sequence[Call]) -> Call | None:
    """Do the same without a search, for plain reads and writes of values that are written once."""
    writes = {call.invoke.value: call for call in calls if call.invoke.op == "set"}
    clusters: dict[int | None, list[Call]] = {value: [call] for value, call in writes.items()}
    for call in calls:
        if call.invoke.op == "get" and call.answer is not None:
            value = call.answer.value if call.answer.outcome == "ok" else None  # None: the state before the first write
            writer = writes.get(value)
            if value is not None and (writer is None or call.answer.t < writer.invoke.t):
                return call
            clusters.setdefault(value, []).append(call)
    zones = [_Zone.of(cluster, first=value is None) for value, cluster in clusters.items()]
    forward = sorted((zone for zone in zones if zone.begin < zone.end), key=lambda zone: zone.begin)
    for one, other in pairwise(forward):
        if other.begin < one.end:
            return one.last  # it was called when the other value was current already
    begins = [zone.begin for zone in forward]
    for zone in zones:
        around = bisect_left(begins, zone.end) - 1  # the last one that begins before this value could be current
        if zone.begin >= zone.end and around >= 0 and zone.begin < forward[around].end:
            return forward[around].last
    return None


class _Zone(Struct, frozen=True, gc=False):
    """The time of a value: `begin` is the first return of its operations, `end` the last call, that of `last`.

    If `begin` is before `end`, the value was certainly current in between. Otherwise it was current at some instant from
    `end` to `begin`.
    """

    begin: int
    end: int
    last: Call

    @classmethod
    def of(cls, cluster: Sequence[Call], *, first: bool) -> "_Zone":
        returns = [call.answer.t for call in cluster if call.known and call.answer is not None]
        last = max(cluster, key=lambda call: call.invoke.t)
        return cls(BEFORE if first else min(returns, default=NEVER), last.invoke.t, last)


def by_search(calls: Sequence[Call]) -> Call | None:
    """Do the same with a search, for all operations."""
    stuck = _stuck(calls)
    if stuck is None:
        return None
    returns = [number for number, returns in _in_time(calls) if returns]

    def wrong(place: int) -> bool:
        """Return whether no order explains the answers of the returns up to this index."""
        known = set(returns[: place + 1])
        told = [call if n in known else replace(call, answer=None) for n, call in enumerate(calls)]
        return _stuck(told) is not None

    first = returns.index(stuck)  # later answers were used as well: one of them may be the wrong one
    with suppress(GaveUp):
        first = bisect_left(range(len(returns) - 1), True, first, key=wrong)
    return calls[returns[first]]


def _stuck(calls: Sequence[Call]) -> int | None:
    """Return the index of the call at whose return no configuration is left, None if there is none."""
    search = _Search.of(calls)
    for number, returns in _in_time(calls):
        if not returns:
            search.outstanding[number] = calls[number]
        elif not search.returned(number):
            return number
    return None


def _relevant(calls: Sequence[Call]) -> list[Call]:
    """Leave out reads and refusals that say nothing of the state, and unknown writes that no read can show."""
    informative = [call for call in calls if not _says_nothing(call)]
    seen = {call.answer.value for call in informative if call.invoke.op == "get" and call.answer is not None}
    plain = _is_plain(informative)
    return [call for call in informative if call.known or not plain or call.invoke.value in seen]


def _is_plain(calls: Sequence[Call]) -> bool:
    """Return whether there are only reads and writes without conditions, of values that are written once."""
    written = [call.invoke.value for call in calls if call.invoke.op == "set"]
    return len(set(written)) == len(written) and all(
        call.invoke.op in ("get", "set") and call.invoke.version is None and _version(call) is None
        and (call.answer is None or not call.known or call.answer.error in (None, NO_NODE))
        and not (call.invoke.op == "set" and call.known and call.answer is not None and call.answer.outcome == "failed")
        for call in calls
    )  # fmt: skip


def _says_nothing(call: Call) -> bool:
    if not call.known:
        return call.invoke.op in ("get", "exists", "check")
    assert call.answer is not None
    return call.answer.outcome == "failed" and call.answer.error not in INFORMATIVE


def _in_time(calls: Sequence[Call]) -> Iterator[tuple[int, bool]]:
    """Yield (index, whether it is a return) in order of time. At equal times calls come before returns: the operations
    overlap."""
    moments = [(call.invoke.t, False, number) for number, call in enumerate(calls)]
    moments += [(call.answer.t, True, number) for number, call in enumerate(calls) if call.known and call.answer]
    for _, returns, number in sorted(moments):
        yield number, returns


class _Search(Struct, gc=False):
    """The search for one key: the outstanding operations and the possible configurations.

    Four rules leave out what makes no difference:

    - Values are distinguished only as long as some read that shows them has not taken effect. All other values are
      equal. If versions name writes, the same holds for versions and the operations that name them.
    - A value that is written once can't be replaced as long as such a read is left: it would never come back.
    - An operation that changes nothing takes effect as soon as its answer is true. Nothing is lost by that.
    - As few unknown operations as possible have taken effect. Of two that would do the same now, the one that can do
      less later goes first: it needs a version, or a missing key.

    `reads` has, by value, the reads that show it and have not returned. `naming` has, by version, the operations that name
    it in a condition or show it, and have not returned; None if versions count. `once` are the values that are written once.
    `alike` describes what an unknown operation does: whether it deletes, the value that it writes, if some read shows that
    value, and the version that it makes.
    """

    versions: bool
    reads: dict[int | None, set[int]]
    naming: dict[int, set[int]] | None
    once: frozenset[int | None]
    alike: dict[int, tuple[bool, int | None, int | None]]
    limit: int
    examined: int
    outstanding: dict[int, Call]
    possible: list[Configuration]

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "_Search":
        reads: dict[int | None, set[int]] = {}
        for number, call in enumerate(calls):
            if call.invoke.op == "get" and call.answer is not None and call.answer.outcome == "ok":
                reads.setdefault(call.answer.value, set()).add(number)
        written = Counter(call.invoke.value for call in calls if call.invoke.op in ("set", "create"))
        return cls(
            versions=any(call.invoke.version is not None or _version(call) is not None for call in calls),
            reads=reads,
            naming=_naming(calls) if any(call.makes is not None for call in calls) else None,
            once=frozenset(value for value, times in written.items() if times == 1),
            alike={
                number: (
                    call.invoke.op == "delete",
                    call.invoke.value if call.invoke.value in reads else UNSEEN,
                    call.makes,
                )
                for number, call in enumerate(calls)
                if not call.known
            },
            limit=MAX_CONFIGURATIONS * (1 + len(calls) // 1000),
            examined=0,
            outstanding={},
            possible=[(None, NOTHING, NOTHING)],
        )

    def returned(self, number: int) -> bool:
        """Let an operation return. Return whether any configuration is left. Raises GaveUp."""
        asking = [other for other, call in self.outstanding.items() if _only_asks(call)]
        writing = sorted(self.outstanding.keys() - asking, key=self._ability)
        left: list[Configuration] = []
        fewest: dict[tuple[State, Numbers], list[Numbers]] = {}
        order = count()
        ahead = [(len(one[2]), next(order), one) for one in self.possible]
        heapify(ahead)
        while ahead:  # configurations with fewer unknown operations come first
            state, done, used = self._settled(heappop(ahead)[2], asking)
            self.examined += 1
            if self.examined > self.limit:
                raise GaveUp(f"more than {MAX_CONFIGURATIONS:,} possibilities for each thousand operations")
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
        call = self.outstanding.pop(number)
        if call.answer is not None and call.answer.value in self.reads:
            self.reads[call.answer.value].discard(number)
        if self.naming is not None:
            for version in _named(call):
                self.naming[version].discard(number)
        return bool(left)

    def _ability(self, number: int) -> tuple[bool, int]:
        """Return the key by which operations are sorted: those first that can do less."""
        invoke = self.outstanding[number].invoke
        return invoke.version is None and invoke.op != "create", number

    def _settled(self, one: Configuration, asking: Sequence[int]) -> Configuration:
        """Return the configuration after all operations that can be answered now and change nothing."""
        state, done, used = one
        done = done.union([number for number in asking if _effect(self.outstanding[number], state, self.versions)[0]])
        return self._without_unseen(state, done), done, used

    def _without_unseen(self, state: State, done: Numbers) -> State:
        """Replace a value that no further read shows, and a version that no further operation names."""
        if state is None:
            return None
        value, version = state
        named = self.naming is None or not self.naming.get(version, NOTHING) <= done
        return value if self._awaited(value, done) else UNSEEN, version if named else UNSEEN

    def _awaited(self, value: int | None, done: Numbers) -> bool:
        return not self.reads.get(value, NOTHING) <= done

    def _steps(self, one: Configuration, writing: Sequence[int]) -> Iterator[Configuration]:
        """Yield the configurations in which one more write has taken effect."""
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
            elif self.alike[number] not in tried and self._without_unseen(after, done) != state:
                tried.add(self.alike[number])
                yield after, done, used | {number}


def _effect(call: Call, state: State, versions: bool) -> tuple[bool, State]:
    """Return whether the operation may take effect in this state with its answer, and the state afterwards. A `set` of a
    missing key creates it."""
    answer = call.answer if call.known else None
    if answer is not None and answer.outcome == "failed":
        return _is_refusal_true(call, state, answer.error), state
    expected = call.invoke.version
    if expected is not None and (state is None or state[1] != expected):
        return False, state
    match call.invoke.op:
        case "get":
            shown = answer is not None and state is not None and state[0] == answer.value
            return shown and _version_fits(answer, state), state
        case "exists":  # the answer has a version if the key exists
            return _version(call) == (state[1] if state is not None else None), state
        case "check":
            return state is not None and _version_fits(answer, state), state
        case "delete":
            return state is not None, None
        case "create" if state is not None:
            return False, state
    counted = state[1] + 1 if state is not None and versions else 0
    after = (call.invoke.value, counted if call.makes is None else call.makes)
    return _version_fits(answer, after), after


def _only_asks(call: Call) -> bool:
    """Return whether the operation leaves the key unchanged in every state."""
    refused = call.answer is not None and call.answer.outcome == "failed"
    return call.known and (refused or call.invoke.op in ("get", "exists", "check"))


def _is_refusal_true(call: Call, state: State, error: str | None) -> bool:
    """Return whether the error is true in this state and a reason to refuse the operation."""
    expected = call.invoke.version
    if error == NODE_EXISTS:
        return call.invoke.op == "create" and state is not None
    if error == NO_NODE:
        return state is None and (expected is not None or call.invoke.op in NEEDING)
    return expected is not None and state is not None and (state[1] != expected or expected == UNNAMED)


def _naming(calls: Sequence[Call]) -> dict[int, set[int]]:
    """Return, by version, the operations that name it."""
    found: dict[int, set[int]] = {}
    for number, call in enumerate(calls):
        for version in _named(call):
            found.setdefault(version, set()).add(number)
    return found


def _named(call: Call) -> list[int]:
    """Return the versions that an operation names in its condition, or shows without having made them."""
    shown = _version(call) if call.makes is None else None
    return [version for version in (call.invoke.version, shown) if version is not None]


def _version_fits(answer: Complete | None, state: State) -> bool:
    """Return whether the version in the answer, if any, is that of the key."""
    return answer is None or answer.version is None or (state is not None and state[1] == answer.version)


def _version(call: Call) -> int | None:
    return call.answer.version if call.answer is not None else None
