"""Stores many records of whole numbers as columns: a tenth of the memory of a list of objects, and nothing to collect."""

from array import array
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any, TypeVar, overload

R = TypeVar("R")


class Columns(Sequence[R]):
    """A sequence of records with `width` whole numbers each. A record is a tuple, unless a subclass converts it."""

    def __init__(self, width: int, records: Iterable[R] = ()) -> None:
        self.columns: list[MutableSequence[int]] = [array("q") for _ in range(width)]
        for record in records:
            self.append(record)

    def append(self, record: R) -> None:
        numbers = self._numbers(record)
        try:
            for column, number in zip(self.columns, numbers, strict=True):
                column.append(number)
        except OverflowError:  # a number from a damaged file
            count = len(self)
            self.columns = [[*column[:count], number] for column, number in zip(self.columns, numbers, strict=True)]

    def _numbers(self, record: Any) -> Iterable[int]:
        numbers: tuple[int, ...] = record
        return numbers

    def _record(self, *numbers: int) -> Any:
        return numbers

    def sort(self, column: int) -> None:
        """Sort the records by the numbers of a column. Those with equal numbers stay in their order."""
        order = sorted(range(len(self)), key=self.columns[column].__getitem__)
        for place, values in enumerate(self.columns):
            ordered = map(values.__getitem__, order)
            self.columns[place] = array("q", ordered) if isinstance(values, array) else list(ordered)

    def __len__(self) -> int:
        return len(self.columns[-1])  # to which a record is appended last

    @overload
    def __getitem__(self, at: int) -> R: ...
    @overload
    def __getitem__(self, at: slice) -> list[R]: ...
    def __getitem__(self, at: int | slice) -> R | list[R]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        record: R = self._record(*[column[at] for column in self.columns])
        return record

    def __iter__(self) -> Iterator[R]:
        return map(self._record, *self.columns)


class Words:
    """Numbers distinct words in the order in which they first occur."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, word: str) -> int:
        number = self._numbers.setdefault(word, len(self.all))
        if number == len(self.all):
            self.all.append(word)
        return number
