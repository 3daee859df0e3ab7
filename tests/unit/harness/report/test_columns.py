"""Records as columns."""

import gc
from collections.abc import Iterator

import pytest

from zab_chaos.harness.report.columns import Columns, Words

Pair = tuple[int, int]
PAIRS = [(3, -1), (1, 2**63 - 1), (3, 0), (2, -(2**63))]


@pytest.fixture
def pairs() -> Columns[Pair]:
    return Columns(2, PAIRS)


def test_columns_are_a_sequence_of_the_records(pairs: Columns[Pair]) -> None:
    assert (list(pairs), len(pairs), pairs[1], pairs[-1], pairs[1:3]) == (PAIRS, 4, PAIRS[1], PAIRS[-1], PAIRS[1:3])
    with pytest.raises(IndexError):
        pairs[4]


def test_records_with_equal_numbers_stay_in_their_order_when_they_are_sorted(pairs: Columns[Pair]) -> None:
    pairs.sort(0)
    assert list(pairs) == sorted(PAIRS, key=lambda one: one[0])


@pytest.mark.parametrize("damaged", [(2**64, 7), (7, 2**64), (-(2**80), 2**80)])
def test_a_number_from_a_damaged_file_may_be_of_any_size(pairs: Columns[Pair], damaged: Pair) -> None:
    for record in (damaged, (9, 9), damaged):
        pairs.append(record)
    assert list(pairs) == [*PAIRS, damaged, (9, 9), damaged]
    pairs.sort(1)
    assert list(pairs) == sorted([*PAIRS, damaged, (9, 9), damaged], key=lambda one: one[1])


def test_a_record_needs_all_its_numbers() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Columns[Pair](2).append((1,))  # type: ignore[arg-type]


def test_a_record_is_no_object() -> None:
    def records() -> Iterator[Pair]:
        return ((number, -number) for number in range(10_000))

    before = len(gc.get_objects())
    kept = Columns(2, records())
    assert len(gc.get_objects()) - before < 100
    assert list(kept) == list(records())


def test_words_are_numbered_as_they_come() -> None:
    words = Words()
    assert [words.number(word) for word in ("b", "a", "b", "")] == [0, 1, 0, 2]
    assert words.all == ["b", "a", ""]
