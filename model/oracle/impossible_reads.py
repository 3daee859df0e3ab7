"""Reads of lists that no level of isolation allows, whatever else happened."""

from collections.abc import Iterator
from dataclasses import dataclass

from zab_chaos.model.oracle.facts import Request
from zab_chaos.model.oracle.list_history import ListHistory, Read, failed, request_name


@dataclass(frozen=True, slots=True)
class ImpossibleRead:
    """What a read shows, in words, and the requests that prove it. Reads with the same `key` show the same."""

    key: tuple[object, ...]
    words: str
    requests: list[Request]


def impossible_reads(history: ListHistory) -> Iterator[ImpossibleRead]:
    """Find reads that no level allows. What many of them show is told of the first one."""
    told: set[tuple[object, ...]] = set()
    for read in history.reads:
        for found in (*_elements(history, read), *_end(history, read), *_order(history, read)):
            if found.key not in told:
                told.add(found.key)
                yield found


def _elements(history: ListHistory, read: Read) -> Iterator[ImpossibleRead]:
    """Check each element: it is there once, and its transaction has appended it by then and was not rolled back."""
    for place, element in enumerate(read.elements):
        writer = history.appended.get((read.path, element))
        why = _what_is_wrong(history, read, element, read.elements[:place])
        if why is not None:
            others = [] if writer is None or writer is read.request else [writer]
            yield ImpossibleRead((why[0], read.path, element), _said(read, why[1]), [*others, read.request])


def _what_is_wrong(history: ListHistory, read: Read, element: int, seen: list[int]) -> tuple[str, str] | None:
    """Return the kind of what is wrong with an element of a read, and the words for it. `seen`: the elements before it."""
    writer = history.appended.get((read.path, element))
    if writer is None:
        return "nobody", f"in which {element} is, which nobody appended"
    if element in seen:
        return "twice", f"in which {element} of {request_name(writer)} is twice"
    if writer is read.request and element not in read.own:
        return "early", f"in which {element} is, which it appended only later"
    if failed(writer):
        return (
            "aborted",
            f"in which {element} of {request_name(writer)} is, which was rolled back (G1a, an aborted read)",
        )
    before, _ = history.neighbours(read.path, element)
    if before is not None and before not in seen:
        return (
            "order",
            f"in which {element} of {request_name(writer)} is not after its {before}, which it appended before",
        )
    return None


def _end(history: ListHistory, read: Read) -> Iterator[ImpossibleRead]:
    """Check that a read ends with its transaction's own appends, and before them with the last one of another transaction."""
    if not read.shows_own:
        own = ", ".join(map(str, read.own))
        words = f"which does not end with {own}, what it had appended before"
        yield ImpossibleRead(("own", read.path, read.own[-1]), _said(read, words), [read.request])
        return
    last = read.of_others[-1] if read.of_others else None
    writer = history.appended.get((read.path, last)) if last is not None else None
    if writer is None or last is None or writer is read.request:
        return
    _, after = history.neighbours(read.path, last)
    if after is not None:
        words = f"which shows {last} of {request_name(writer)}, but not its {after} (G1b, an intermediate read)"
        yield ImpossibleRead(("part", read.path, last), _said(read, words), [writer, read.request])


def _order(history: ListHistory, read: Read) -> Iterator[ImpossibleRead]:
    """Check that of two reads of a list one shows the beginning of the other."""
    if len(set(read.elements)) == len(read.elements) and not history.fits(read):
        other = history.longest[read.path]
        place = next(at for at, (one, two) in enumerate(zip(read.elements, other.elements, strict=False)) if one != two)
        found = " and ".join(f"{one.elements[place]} for {request_name(one.request)}" for one in (read, other))
        words = f"{read.path}: element {place + 1} is {found}: an append was lost, or two came in different orders"
        yield ImpossibleRead(("order", read.path), words, [read.request, other.request])


def _said(read: Read, words: str) -> str:
    return f"{request_name(read.request)} read {read.path}, {words}"
