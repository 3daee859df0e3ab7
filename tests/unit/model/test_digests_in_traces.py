"""Digests in a trace must have the documented form; otherwise the line is refused."""

import json
from typing import Any

import msgspec
import pytest

from zab_chaos.model.events import Deliver, event_from_dict, event_from_json
from zab_chaos.node.core import digest as dg

ONE = "0123456789abcdef"
GOOD = {
    "t": 1, "node": 1, "life": 1, "n": 1, "event": "deliver", "epoch": 1, "first": 1,
    "digests": 2 * ONE, "digest": ONE, "tree": ONE,
}  # fmt: skip
BAD = [
    ONE[1:],
    ONE.upper(),
    f"{ONE} ",
    f"0x{ONE[2:]}",
    f"{ONE[:-1]}\n",
    f"{ONE[:-1]}é",
    f"{ONE[:-1]}\ud800",
    ONE[:-1] + "_",
]


def test_a_batch_of_digests_in_the_documented_form_is_read() -> None:
    for event in (event_from_json(json.dumps(GOOD).encode()), event_from_dict(GOOD)):
        assert isinstance(event, Deliver)
        assert event.count == 2


@pytest.mark.parametrize("field", ["digests", "digest", "tree"])
@pytest.mark.parametrize("text", BAD)
def test_digests_in_another_form_are_refused(field: str, text: str) -> None:
    line: dict[str, Any] = {**GOOD, field: text}
    with pytest.raises(msgspec.ValidationError):
        event_from_dict(line)
    with pytest.raises(msgspec.DecodeError):  # of which ValidationError is one
        event_from_json(json.dumps(line).encode())


def test_written_digests_have_the_documented_form() -> None:
    assert dg.is_shown(dg.show_all([])), "nothing was broadcast"
    assert dg.is_shown(dg.show_all([0, 2**64 - 1]))
    assert dg.is_shown(dg.show(dg.EMPTY))


def test_folding_all_digests_equals_folding_one_after_the_other() -> None:
    one = dg.fold(dg.EMPTY, 1 << 32 | 5, 77)
    assert dg.fold_all(dg.EMPTY, 1 << 32 | 5, [77, 88]) == [one, dg.fold(one, 1 << 32 | 6, 88)]
    assert dg.fold_all(one, 1, []) == []
