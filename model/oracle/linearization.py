"""Linearizability: does some order of the operations, each at one instant between its call and its return, explain every
answer (Herlihy and Wing, 1990)? If operations are transactions of several keys, this is strict serializability. If reads may
be stale, a read may take its place in the order before it is called, but in each session after the operation before it.

Linearizability is local, so a key is judged by itself, and keys that transactions connect are judged together. If a key is
only read and written, and each value is written once, no search is needed: the operations of a value must be adjacent in the
order, so it is enough to compare the times at which each value must have been, or could have been, the current one (Gibbons
and Korach, 1997).

Otherwise there is a just-in-time search (Lowe, 2017): operations are ordered only when one of them must return. The search
keeps the possible states, each with the outstanding operations that have taken effect in it. An operation with an unknown
outcome stays outstanding for ever: it may take effect at any time after its call, or never. Whatever makes no difference to
any answer is left out, so that few configurations are carried from one return to the next, however long the history is.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count, pairwise

from msgspec import Struct
from msgspec.structs import replace

from zab_chaos.model.ddmin import ddmin
from zab_chaos.model.events import Complete, Invoke
from zab_chaos.node.tree.refusal import BAD_VERSION, NO_NODE, NODE_EXISTS

MAX_CONFIGURATIONS = 200_000  # examined for each thousand operations of a key, at most
EFFORT, LITTLE = 200_000, 2_000  # to shorten the evidence: the same for each thousand transactions, and in one try
SHOWN = 8  # of the answers that contradict each other, at most
BEFORE, NEVER = -1, 2**63  # times
NOTHING: frozenset[int] = frozenset()
UNSEEN = -1  # replaces a value or a version that no further answer shows; not a CRC-32
UNNAMED = -2  # any version of which it is not known which write it names
INFORMATIVE = frozenset({NODE_EXISTS, NO_NODE, BAD_VERSION})  # refusals that depend on the state of the key
ASKING = frozenset({"get", "exists", "check"})  # operations that change nothing
READING = frozenset({"get", "exists"})  # those that may be stale
NEEDING = frozenset({"get", "check", "delete"})  # operations whose key must exist; so must that of a `set` on condition

State = tuple[int | None, int] | None  # the CRC-32 of the value and the version; None: the key does not exist
States = tuple[State, ...]  # by the number of the key
Seen = tuple[int, int | None]  # the number of a key, and a value or a version of it
Numbers = frozenset[int]  # transactions, by their index
Configuration = tuple[States, Numbers, Numbers]  # with the outstanding transactions that took effect: known, unknown


class Call(Struct, frozen=True, gc=False):
    """One operation of one key and its answer. An `answer` of None or with the outcome "unknown" says nothing.

    `makes`: the version that the write makes, if versions name writes (`zab_chaos.model.oracle.version_names`); None if they
    count. `session`: the one that it belongs to, if reads may be stale. `blind`: a delete succeeds whether or not there is such
    a key.
    """

    invoke: Invoke
    answer: Complete | None
    makes: int | None = None
    session: int | None = None
    blind: bool = False

    @property
    def known(self) -> bool:
        return self.answer is not None and self.answer.outcome != "unknown"


class Transaction(Struct, frozen=True, gc=False):
    """What one operation does to its keys, all at one instant: for each step the number of the key, and the call."""

    steps: tuple[tuple[int, Call], ...]

    @property
    def invoke(self) -> Invoke:
        """Return the call of its first step. All steps are called, and return, at the same times."""
        return self.steps[0][1].invoke

    @property
    def answer(self) -> Complete | None:
        return self.steps[0][1].answer

    @property
    def known(self) -> bool:
        return self.steps[0][1].known

    @property
    def session(self) -> int | None:
        return self.steps[0][1].session

    @property
    def may_be_stale(self) -> bool:
        return self.session is not None and all(call.invoke.op in READING for _, call in self.steps)

    def unanswered(self) -> "Transaction":
        """Return the same transaction as if nobody knew whether it took effect: what it has read says nothing."""
        steps = [(key, replace(call, answer=None)) for key, call in self.steps]
        return Transaction(tuple([one for one in steps if one[1].invoke.op not in ASKING] or steps))

    def without_versions(self) -> "Transaction":
        """Return the same transaction as if no versions were known."""
        return Transaction(tuple([(key, _without_version(call)) for key, call in self.steps]))

    def outcome_only(self) -> "Transaction":
        """Return the same transaction as if the answer had only told whether it took effect."""
        if not self.known:
            return self
        if all(call.answer and call.answer.outcome == "failed" for _, call in self.steps):
            return Transaction(tuple([(key, _without_error(call)) for key, call in self.steps]))
        writes = tuple([one for one in self.without_versions().steps if one[1].invoke.op not in ASKING])
        return Transaction(writes) if writes else self.unanswered()

    def written(self) -> frozenset[int]:
        """Return the numbers of the keys that it may change."""
        return frozenset(key for key, call in self.steps if not _only_asks(call))


class GaveUp(Exception):
    """There are too many possibilities to search."""


def first_unexplained(calls: Sequence[Call]) -> Call | None:
    """Return the first operation whose answer no order explains, None if the history is linearizable. Raises GaveUp.

    If versions name writes, `zab_chaos.model.oracle.version_names.resolved` must have prepared the calls.
    """
    relevant = _relevant(calls)
    linearizable = all(call.session is None for call in calls)
    return by_zones(relevant) if linearizable and _is_plain(relevant) else by_search(relevant)


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
    first = first_unserializable([Transaction(((0, call),)) for call in calls])
    return None if first is None else calls[first]


def first_unserializable(transactions: Sequence[Transaction], limit: int | None = None) -> int | None:
    """Return the index of the first transaction whose answer no order explains, None if there is none. Raises GaveUp.

    `limit`: how many configurations each search examines, at most.
    """
    limit = limit or MAX_CONFIGURATIONS * (1 + len(transactions) // 1000)
    stuck = _stuck(transactions, _Effort(limit))
    if stuck is None:
        return None
    returns = _returns(transactions)

    def wrong(place: int) -> bool:
        """Return whether no order explains the answers of the returns up to this index."""
        known = set(returns[: place + 1])
        told = [one if n in known else one.unanswered() for n, one in enumerate(transactions)]
        return _stuck(told, _Effort(limit)) is not None

    first = returns.index(stuck)  # later answers were used as well: one of them may be the wrong one
    with suppress(GaveUp):
        first = bisect_left(range(len(returns) - 1), True, first, key=wrong)
    return returns[first]


def contradicting(transactions: Sequence[Transaction], wrong: int) -> tuple[list[int], int]:
    """Return answers that no order explains: the indices of their transactions, in the order in which they came, and how many
    others there are, if too many. `wrong`: the first one that no order explains.

    Versions are left out of as many answers as possible, then all that answers say except the outcome of a write, and then
    that. So none of them can be left out, as far as `EFFORT` allows to find out.
    """
    returns = _returns(transactions)
    known = set(returns[: returns.index(wrong) + 1])
    called = [n for n, one in enumerate(transactions) if one.invoke.t <= _end(transactions[wrong])]
    told = {n: transactions[n] if n in known else transactions[n].unanswered() for n in called}
    rest = sorted(told.keys() - {wrong}, key=lambda number: (_end(told[number]), number))
    found, more = {wrong}, 0
    for weaker in (Transaction.without_versions, Transaction.outcome_only, Transaction.unanswered):
        needed, told = _fewest(told, weaker, rest)
        rest = [number for number in rest if number not in needed and told[number].known]
        needed &= known
        if len(found | needed) <= SHOWN:
            found |= needed
        else:
            more += len(needed)
    return [number for number in returns if number in found], more


def _fewest(
    told: dict[int, Transaction], weaker: Callable[[Transaction], Transaction], rest: Sequence[int]
) -> tuple[set[int], dict[int, Transaction]]:
    """Return the fewest of the transactions `rest` so that no order explains all answers if only the others of `rest` say
    less; and all transactions, with what they say then. Once the effort is spent, return the fewest that were found."""
    weakened = told | {number: weaker(told[number]) for number in rest}
    left, found = EFFORT * (1 + len(told) // 1000), rest

    def contradict(numbers: Sequence[int]) -> bool:
        nonlocal left, found
        if left <= 0:
            raise GaveUp
        effort = _Effort(little(told.values()))
        try:
            stuck = _stuck(telling([*(weakened | {n: told[n] for n in numbers}).values()]), effort) is not None
        except GaveUp:
            stuck = False
        left -= effort.examined + len(told)
        found = numbers if stuck else found
        return stuck

    size = 1  # most answers came long before
    with suppress(GaveUp):
        while size < len(rest) and not contradict(rest[-size:]):
            size *= 2
        ddmin(rest[-size:], lambda tries: next((at for at, numbers in enumerate(tries) if contradict(numbers)), None))
    return set(found), weakened | {number: told[number] for number in found}


def telling(transactions: Sequence[Transaction]) -> list[Transaction]:
    """Return the transactions that matter: they say something of the state, or may have made what others saw."""
    by_key: dict[int, list[Call]] = {}
    for one in transactions:
        for key, call in one.steps:
            by_key.setdefault(key, []).append(call)
    matter = {id(call) for calls in by_key.values() for call in _relevant(calls)}
    return [one for one in transactions if any(id(call) in matter for _, call in one.steps)]


class _Effort(Struct, gc=False):
    """The configurations that a search may examine, and those that it has."""

    limit: int
    examined: int = 0


def little(transactions: Collection[Transaction]) -> int:
    """Return how many configurations a search may examine on which only the length of the evidence depends."""
    return LITTLE + 10 * len(transactions)


def _stuck(transactions: Sequence[Transaction], effort: _Effort) -> int | None:
    """Return the index of the transaction at whose return no configuration is left, None if there is none. Raises GaveUp."""
    before = _before(transactions)
    search = _Search.of(transactions, before, effort)
    for number, returns in _in_time(transactions, before):
        if not returns:
            search.outstanding[number] = transactions[number]
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
        return call.invoke.op in ASKING
    assert call.answer is not None
    return call.answer.outcome == "failed" and call.answer.error not in INFORMATIVE


def _end(transaction: Transaction) -> int:
    """Return the time of the return, or of the call if the outcome is unknown."""
    return transaction.answer.t if transaction.known and transaction.answer else transaction.invoke.t


def _returns(transactions: Sequence[Transaction]) -> list[int]:
    """Return the indices of the transactions with a known outcome, in the order in which they returned."""
    return [
        number
        for _, number in sorted((one.answer.t, n) for n, one in enumerate(transactions) if one.known and one.answer)
    ]


def _in_time(transactions: Sequence[Transaction], before: Mapping[int, int]) -> Iterator[tuple[int, bool]]:
    """Yield (index, whether it is a return) in order of time. At equal times calls come before returns: the operations
    overlap. `before`: see `_before`."""
    calls = _calls(transactions, before)
    moments = [(t, False, transactions[number].invoke.t, number) for number, t in enumerate(calls)]
    moments += [(one.answer.t, True, 0, number) for number, one in enumerate(transactions) if one.known and one.answer]
    for _, returns, _, number in sorted(moments):
        yield number, returns


def _calls(transactions: Sequence[Transaction], before: Mapping[int, int]) -> list[int]:
    """Return the time from which each transaction may have its place in the order: that of its call; for a read that may be
    stale, that of the call of the writes that it shows, but not before the read before it in its session."""
    found = [one.invoke.t for one in transactions]
    if any(one.session is not None for one in transactions):
        written: dict[Seen, int] = {}
        for one in transactions:
            for key, call in one.steps:
                if call.invoke.op not in ASKING:
                    seen = key, call.invoke.value
                    written[seen] = min(one.invoke.t, written.get(seen, NEVER))
        for number, one in enumerate(transactions):
            if one.may_be_stale:
                found[number] = max([written.get(seen, BEFORE) for seen in _shown(one)], default=BEFORE)
        for number, earlier in before.items():
            found[number] = max(found[number], found[earlier])
        found = [min(t, one.invoke.t) for t, one in zip(found, transactions, strict=True)]
    return found


def _shown(transaction: Transaction) -> list[Seen]:
    """Return the values that a transaction has read."""
    return [
        (key, call.answer.value)
        for key, call in transaction.steps
        if call.invoke.op == "get" and call.answer is not None and call.answer.outcome == "ok"
    ]


def _before(transactions: Sequence[Transaction]) -> dict[int, int]:
    """Return, by the index of each read that may be stale, that of the read or successful write before it in its session, in
    order of time."""
    found: dict[int, int] = {}
    last: dict[int | None, int] = {}
    in_sessions = [number for number, one in enumerate(transactions) if one.session is not None]
    for number in sorted(in_sessions, key=lambda number: transactions[number].invoke.t):
        one = transactions[number]
        if one.known and (one.may_be_stale or one.written()):
            if one.may_be_stale and one.session in last:
                found[number] = last[one.session]
            last[one.session] = number
    return found


class _Search(Struct, gc=False):
    """The search: the outstanding transactions and the possible configurations.

    Four rules leave out what makes no difference:

    - Values are distinguished only as long as some read that shows them has not taken effect. All other values are
      equal. If versions name writes, the same holds for versions and the operations that name them.
    - A value that is written once can't be replaced as long as such a read is left, unless it is a read of the very
      transaction that replaces it: the value would never come back.
    - A transaction that changes nothing takes effect as soon as its answer is true. Nothing is lost by that.
    - As few unknown transactions as possible have taken effect. Of two that would do the same now, the one that can do
      less later goes first: it needs a version, or a missing key.

    `reads` has, by key and value, the reads that show it and have not returned. `naming` has, by key and version, the
    operations that name it in a condition or show it, and have not returned; None if versions count. `once` are the values
    that are written once. `written` are the keys that a transaction may change. `alike` describes what an unknown transaction
    does to each of its keys: whether it deletes, the value that it writes, if some read shows that value, and the version
    that it makes. `before`: see `_before`.
    """

    versions: bool
    reads: dict[Seen, set[int]]
    naming: dict[Seen, set[int]] | None
    once: frozenset[Seen]
    written: list[frozenset[int]]
    alike: dict[int, tuple[tuple[int, bool, int | None, int | None], ...]]
    before: dict[int, int]
    effort: _Effort
    outstanding: dict[int, Transaction]
    possible: list[Configuration]

    @classmethod
    def of(cls, transactions: Sequence[Transaction], before: dict[int, int], effort: _Effort) -> "_Search":
        steps = [(number, key, call) for number, one in enumerate(transactions) for key, call in one.steps]
        reads: dict[Seen, set[int]] = {}
        for number, one in enumerate(transactions):
            for seen in _shown(one):
                reads.setdefault(seen, set()).add(number)
        written = Counter((key, call.invoke.value) for _, key, call in steps if call.invoke.op in ("set", "create"))
        return cls(
            versions=any(call.invoke.version is not None or _version(call) is not None for _, _, call in steps),
            reads=reads,
            naming=_naming(steps) if any(call.makes is not None for _, _, call in steps) else None,
            once=frozenset(value for value, times in written.items() if times == 1),
            written=[one.written() for one in transactions],
            alike={
                number: tuple(
                    (
                        key,
                        call.invoke.op == "delete",
                        call.invoke.value if (key, call.invoke.value) in reads else UNSEEN,
                        call.makes,
                    )
                    for key, call in one.steps
                )
                for number, one in enumerate(transactions)
                if not one.known
            },
            before=before,
            effort=effort,
            outstanding={},
            possible=[((None,) * (1 + max((key for _, key, _ in steps), default=0)), NOTHING, NOTHING)],
        )

    def returned(self, number: int) -> bool:
        """Let a transaction return. Return whether any configuration is left. Raises GaveUp."""
        asking = [other for other in self.outstanding if not self.written[other]]
        writing = sorted(self.outstanding.keys() - asking, key=self._ability)
        left: list[Configuration] = []
        fewest: dict[tuple[States, Numbers], list[Numbers]] = {}
        order = count()
        ahead = [(len(one[2]), next(order), one) for one in self.possible]
        heapify(ahead)
        while ahead:  # configurations with fewer unknown transactions come first
            states, done, used = self._settled(heappop(ahead)[2], asking)
            self.effort.examined += 1
            if self.effort.examined > self.effort.limit:
                raise GaveUp(f"more than {MAX_CONFIGURATIONS:,} possibilities for each thousand operations")
            others = fewest.setdefault((states, done), [])
            if any(other <= used for other in others):
                continue
            others.append(used)
            if number in done:
                left.append((states, done - {number}, used))
                continue
            for one in self._steps((states, done, used), writing):
                heappush(ahead, (len(one[2]), next(order), one))
        self.possible = left
        self._forget(number)
        return bool(left)

    def _forget(self, number: int) -> None:
        """Forget a transaction that has returned: what it shows, and the versions that it names."""
        for key, call in self.outstanding.pop(number).steps:
            if call.answer is not None and (key, call.answer.value) in self.reads:
                self.reads[key, call.answer.value].discard(number)
            if self.naming is not None:
                for version in _named(call):
                    self.naming[key, version].discard(number)

    def _ability(self, number: int) -> tuple[bool, int]:
        """Return the key by which transactions are sorted: those first that can do less."""
        calls = [call.invoke for _, call in self.outstanding[number].steps]
        return all(invoke.version is None and invoke.op != "create" for invoke in calls), number

    def _settled(self, one: Configuration, asking: Sequence[int]) -> Configuration:
        """Return the configuration after all transactions that can be answered now and change nothing."""
        states, done, used = one
        found = set(done)
        for number in asking:
            before = self.before.get(number)
            if (before is None or before in found or before not in self.outstanding) and self._may_take_effect(
                number, states
            ):
                found.add(number)
        done = frozenset(found)
        return self._without_unseen(states, done), done, used

    def _may_take_effect(self, number: int, states: States) -> bool:
        return _effects(self.outstanding[number], states, self.versions)[0]

    def _without_unseen(self, states: States, done: Numbers) -> States:
        """Replace values that no further read shows, and versions that no further operation names."""
        return tuple([self._what_is_seen(key, state, done) for key, state in enumerate(states)])

    def _what_is_seen(self, key: int, state: State, done: Numbers) -> State:
        if state is None:
            return None
        value, version = state
        named = self.naming is None or not self.naming.get((key, version), NOTHING) <= done
        awaited = not self.reads.get((key, value), NOTHING) <= done
        return value if awaited else UNSEEN, version if named else UNSEEN

    def _steps(self, one: Configuration, writing: Sequence[int]) -> Iterator[Configuration]:
        """Yield the configurations in which one more write has taken effect."""
        states, done, used = one
        awaited = {
            key: self.reads.get((key, state[0]), NOTHING) - done
            for key, state in enumerate(states)
            if state is not None and (key, state[0]) in self.once
        }
        tried = set()
        for number in writing:
            if number in done or number in used:
                continue
            if any(awaited.get(key, NOTHING) - {number} for key in self.written[number]):
                continue
            transaction = self.outstanding[number]
            legal, after = _effects(transaction, states, self.versions)
            if not legal:
                continue
            if transaction.known:
                yield after, done | {number}, used
            elif self.alike[number] not in tried and self._without_unseen(after, done) != states:
                tried.add(self.alike[number])
                yield after, done, used | {number}


def _effects(transaction: Transaction, states: States, versions: bool) -> tuple[bool, States]:
    """Return whether all steps may take effect, each after those before it, with their answers; and the states afterwards."""
    for key, call in transaction.steps:
        legal, after = _effect(call, states[key], versions)
        if not legal:
            return False, states
        states = (*states[:key], after, *states[key + 1 :])
    return True, states


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
            return state is not None or call.blind, None
        case "create" if state is not None:
            return False, state
    counted = state[1] + 1 if state is not None and versions else 0
    after = (call.invoke.value, counted if call.makes is None else call.makes)
    return _version_fits(answer, after), after


def _only_asks(call: Call) -> bool:
    """Return whether the operation leaves the key unchanged in every state."""
    refused = call.answer is not None and call.answer.outcome == "failed"
    return call.known and (refused or call.invoke.op in ASKING)


def _without_error(call: Call) -> Call:
    """Return the same operation as if it was not known why it was refused."""
    return replace(call, answer=call.answer and replace(call.answer, error=None))


def _without_version(call: Call) -> Call:
    """Return the same operation as if no version was known. A refusal of a missing key remains: it needs the condition."""
    answer = call.answer
    if answer is not None and answer.error == NO_NODE:
        return call
    if answer is not None and call.invoke.op == "exists" and answer.version is not None:
        return replace(call, answer=None)
    if answer is not None:
        answer = replace(answer, version=None, error=None if answer.error == BAD_VERSION else answer.error)
    return replace(call, invoke=replace(call.invoke, version=None), answer=answer)


def _is_refusal_true(call: Call, state: State, error: str | None) -> bool:
    """Return whether the error is true in this state and a reason to refuse the operation."""
    expected = call.invoke.version
    if error == NODE_EXISTS:
        return call.invoke.op == "create" and state is not None
    if error == NO_NODE:
        return state is None and (expected is not None or call.invoke.op in NEEDING)
    return expected is not None and state is not None and (state[1] != expected or expected == UNNAMED)


def _naming(steps: Iterable[tuple[int, int, Call]]) -> dict[Seen, set[int]]:
    """Return, by key and version, the transactions that name it. `steps`: number of the transaction, key, call."""
    found: dict[Seen, set[int]] = {}
    for number, key, call in steps:
        for version in _named(call):
            found.setdefault((key, version), set()).add(number)
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
