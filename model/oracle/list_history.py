"""What a history of transactions on lists shows: which of them took effect, and the order of the elements of each list.

A list only grows, so each read shows all appends before it, and their order. That is why the order of the transactions need
not be searched for (Kingsbury and Alvaro, Elle, 2020).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from zab_chaos.model.oracle.facts import Request

Append = tuple[str, int]  # of an element to a list. No two requests append the same


@dataclass(frozen=True, slots=True)
class Read:
    """What one step of a committed transaction has read of a list. `own`: the elements that its steps before had appended."""

    request: Request
    path: str
    elements: list[int]
    own: list[int]

    @property
    def shows_own(self) -> bool:
        """Whether it ends with what the transaction itself had appended."""
        return self.of_others + self.own == self.elements

    @property
    def of_others(self) -> list[int]:
        """The elements without those at the end that the transaction itself had appended."""
        return self.elements[: max(0, len(self.elements) - len(self.own))]


class ListHistory:
    """A history of transactions on lists.

    `appended`: the transaction that asked for each append. `reads`: what transactions have read. `longest`: for each list the
    longest read without a repeated element. `order`: its elements, in the order of their appends. `committed`: the transactions
    that took effect, in the order of their calls: those that were acknowledged, and those of unknown outcome of which a read
    shows an append. `unseen`: for each list the elements that committed transactions appended and no read shows; they came
    behind all others.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        """`requests`: the transactions on lists, in the order of their calls."""
        every = list(requests)
        self.appended: dict[Append, Request] = {}
        for request in every:
            for append in appends(request):
                self.appended.setdefault(append, request)
        self.reads = [read for request in every for read in reads_of(request)]
        self.longest = _longest(self.reads)
        self.order = {path: read.elements for path, read in self.longest.items()}
        shown = {(path, element) for path, elements in self.order.items() for element in elements}
        self.committed = [
            one for one in every if acknowledged(one) or not (failed(one) or shown.isdisjoint(appends(one)))
        ]
        self.unseen: dict[str, list[int]] = {}
        for request in self.committed:
            for path, element in appends(request):
                if (path, element) not in shown:
                    self.unseen.setdefault(path, []).append(element)

    def neighbours(self, path: str, element: int) -> tuple[int | None, int | None]:
        """Return the elements that the transaction of an append has appended to the same list before and after that one."""
        own = [None, *(other for to, other in appends(self.appended[path, element]) if to == path), None]
        place = own.index(element)
        return own[place - 1], own[place + 1]

    def fits(self, read: Read) -> bool:
        """Return whether a read shows the beginning of its list."""
        return self.order.get(read.path, [])[: len(read.elements)] == read.elements


def reads_of(request: Request) -> Iterator[Read]:
    """Yield what the steps of a transaction have read; nothing if it was not acknowledged."""
    lists = iter((request.complete and request.complete.lists) or ())
    own: dict[str, list[int]] = {}
    for step in request.invoke.steps or ():
        if step.op == "append":
            own.setdefault(step.path, []).append(step.value or 0)
        elif (elements := next(lists, None)) is not None:
            yield Read(request, step.path, elements, list(own.get(step.path, ())))


def appends(request: Request) -> list[Append]:
    """Return the appends of a transaction, in their order."""
    return [(step.path, step.value or 0) for step in request.invoke.steps or () if step.op == "append"]


def acknowledged(request: Request) -> bool:
    return request.complete is not None and request.complete.outcome == "ok"


def failed(request: Request) -> bool:
    """Return whether a transaction was certainly rolled back."""
    return request.complete is not None and request.complete.outcome == "failed"


def request_name(request: Request) -> str:
    return f"client {request.invoke.client}, seq {request.invoke.seq}"


def _longest(reads: Iterable[Read]) -> dict[str, Read]:
    found: dict[str, Read] = {}
    for read in reads:
        length = len(found[read.path].elements) if read.path in found else 0
        if len(read.elements) > length and len(set(read.elements)) == len(read.elements):
            found[read.path] = read
    return found
