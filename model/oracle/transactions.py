"""Transactions of several keys, in the history of a foreign system: their steps as operations of one key, and all together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from zab_chaos.model.events import TRANSACTIONS, Complete, RequestStep
from zab_chaos.model.oracle.facts import Request
from zab_chaos.model.oracle.linearization import (
    Call,
    GaveUp,
    Transaction,
    contradicting,
    first_unserializable,
    little,
    telling,
)
from zab_chaos.node.tree.refusal import NO_NODE


def by_step(request: Request) -> Iterator[Request]:
    """Yield the steps of a transaction as requests of one key, each with its part of the answer; any other request as it is."""
    if request.invoke.op not in TRANSACTIONS:
        yield request
        return
    values = iter((request.complete and request.complete.values) or ())
    for step in request.invoke.steps or ():
        invoke = replace(request.invoke, op=step.op, path=step.path, value=step.value, version=step.version, steps=None)
        yield Request(invoke, _answer_to(step, request.complete, values))


def _answer_to(step: RequestStep, answer: Complete | None, values: Iterator[int | None]) -> Complete | None:
    if answer is None or answer.outcome != "ok" or step.op != "get":
        return answer
    value = next(values, None)
    return replace(answer, value=value) if value is not None else replace(answer, outcome="failed", error=NO_NODE)


def connected(requests: Iterable[Request]) -> list[list[str]]:
    """Return the keys of transactions with several steps, as sorted groups: those that are connected, also through others."""
    groups: list[set[str]] = []
    for request in requests:
        if request.invoke.op in TRANSACTIONS and len(request.invoke.steps or ()) > 1:
            group = {step.path for step in request.invoke.steps or ()}
            touched = [other for other in groups if other & group]
            groups = [other for other in groups if not other & group] + [group.union(*touched)]
    return sorted(sorted(group) for group in groups)


def unexplained_together(
    calls: Mapping[str, Sequence[Call]], limit: int | None = None
) -> tuple[list[str], list[Transaction], int] | None:
    """Return keys and answers that contradict each other: no order of the operations explains them. None if there are none.

    The answers are in the order in which they came; the last one is the first of the history that no order explains. None of
    the keys and answers can be left out, as far as a short search can tell. The number is that of further answers, if there
    are too many. `calls`: the operations of each key; the steps of a transaction are in their order. `limit`: how many
    configurations a search examines, at most. Raises GaveUp.
    """
    paths = sorted(calls)
    judged = _joined(calls, paths)
    wrong = first_unserializable(judged, limit)
    if wrong is None:
        return None
    for path in list(paths):
        fewer = _joined(calls, [other for other in paths if other != path])
        with suppress(GaveUp):
            found = first_unserializable(fewer, little(fewer))
            if found is not None:
                paths.remove(path)
                judged, wrong = fewer, found
    answers, more = contradicting(judged, wrong)
    return paths, [judged[number] for number in answers], more


def _joined(calls: Mapping[str, Sequence[Call]], paths: Sequence[str]) -> list[Transaction]:
    """Return the operations, as far as they concern these keys and matter."""
    steps: dict[tuple[int, int], list[tuple[int, Call]]] = {}
    for key, path in enumerate(paths):
        for call in calls[path]:
            steps.setdefault(call.invoke.id, []).append((key, call))
    joined = [Transaction(tuple(found)) for found in steps.values()]
    return telling([one if one.known else one.unanswered() for one in joined])
