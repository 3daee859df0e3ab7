"""The grammar of crash points agrees with the node's own."""

import pytest

from faults.crashpoints import MESSAGES, RECORDS, STEPS, CrashPoint, parse, subjects
from faults.rules import WrongError
from node import crash


def test_every_point_is_read_and_the_node_knows_it() -> None:
    for step in STEPS:
        for what in subjects(step):
            for text in (f"{step}:{what}", f"{step}:{what}#3"):
                point = parse(text)
                assert str(point) == text
                assert crash.parse(text) == (point.step, point.what, point.count)


def test_the_node_knows_no_other() -> None:
    assert set(STEPS) == set(crash.DISK_STEPS) | set(crash.SEND_STEPS)
    assert set(RECORDS) == set(crash.RECORDS)
    assert set(MESSAGES) == set(crash.MESSAGES)


def test_the_first_time_may_be_written_or_not() -> None:
    assert parse("after-send:COMMIT#1") == parse("after-send:COMMIT") == CrashPoint("after-send", "COMMIT", 1)


@pytest.mark.parametrize(
    "text", ["", "COMMIT", "after-send:", ":TXN", "after-sync:ACK", "after-sync:TXN#x", 5, "a:b:c"]
)
def test_what_is_no_point(text: object) -> None:
    with pytest.raises(WrongError):
        parse(text)
