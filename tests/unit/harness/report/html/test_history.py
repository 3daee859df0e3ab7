"""The picture of the requests that a violation cites."""

import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest

from zab_chaos.harness.report.html.history import LEFT, MOST, RIGHT, SHOWN, history
from zab_chaos.model.verdict import Dependency, Evidence, Violation

MS = 10**6


def call(client: int, seq: int, t: int, **fields: Any) -> Evidence:
    line = {"type": "invoke", "client": client, "seq": seq, "node": 1, "t": t * MS, "op": "get", "path": "/a"}
    return Evidence("ops.jsonl", 1, line | fields)


def answer(client: int, seq: int, t: int, **fields: Any) -> Evidence:
    line = {"type": "complete", "client": client, "seq": seq, "node": 1, "t": t * MS, "outcome": "ok"}
    return Evidence("ops.jsonl", 2, line | fields)


def drawn(evidence: list[Evidence], *cycle: Dependency) -> Element:
    picture = history(Violation("words", evidence, [*cycle]), zero=0)
    assert picture is not None
    return fromstring(picture)


def bars(picture: Element) -> list[tuple[str, int, int]]:
    """Return the class, the begin and the end of each request's bar, from top to bottom."""
    lines = [one.attrib for one in picture.iter("line") if one.attrib["class"] != "guide"]
    rows = [one for one in lines if one["y1"] == one["y2"]]
    assert rows == sorted(rows, key=lambda one: int(one["y1"]))
    return [(one["class"], int(one["x1"]), int(one["x2"])) for one in rows]


def texts(picture: Element) -> list[str]:
    return [one.text or "" for one in picture.iter("text")]


def test_rows_have_the_order_of_the_calls_and_bars_that_of_all_calls_and_answers() -> None:
    picture = drawn([call(2, 1, 5), answer(2, 1, 9000), call(1, 7, 3), answer(1, 7, 6)])
    (_, first, first_end), (_, second, second_end) = bars(picture)
    assert LEFT < first < second < first_end < second_end < RIGHT
    assert second - first == second_end - first_end  # one step each, though seconds and milliseconds are between them
    assert texts(picture)[:3] == ["client 1, seq 7", "0.003 to 0.006 s", "get /a: ok"]


@pytest.mark.parametrize("end", [[], [answer(1, 1, 4, outcome="unknown", error="timeout")]])
def test_a_request_that_may_still_take_effect_has_an_open_end(end: list[Evidence]) -> None:
    first, second = bars(drawn([call(1, 1, 1), *end, call(2, 1, 5), answer(2, 1, 9)]))
    assert (first[0], first[2]) == ("call open", RIGHT)
    assert (second[0], second[2]) != ("call open", RIGHT)


def test_a_request_says_what_it_asked_for_and_which_list_it_found() -> None:
    steps = [{"op": "read", "path": "/l"}, {"op": "append", "path": "/m", "value": 3}, {"op": "read", "path": "/n<b>"}]
    asked = call(1, 1, 1, op="list-append", steps=steps)
    picture = drawn([asked, answer(1, 1, 2, lists=[[1, 2], []]), call(2, 1, 3), answer(2, 1, 4)])
    words = "list-append (read /l, append 3 to /m, read /n<b>): ok, which found /l [1, 2], /n<b> []"
    assert words in texts(picture)


def test_long_words_are_cut_off_and_shown_when_pointed_at() -> None:
    picture = drawn([call(1, 1, 1, path="/" + "x" * SHOWN), answer(1, 1, 2), call(2, 1, 3)])
    (shown,) = [one for one in texts(picture) if "xxx" in one]
    assert len(shown) == SHOWN
    assert f"get /{'x' * SHOWN}: ok" in [one.text for one in picture.iter("title")]


def test_the_arrows_of_a_cycle_are_numbered_and_told() -> None:
    evidence = [call(1, 1, 1), answer(1, 1, 2), call(2, 5, 3), answer(2, 5, 4)]
    cycle = [Dependency((1, 1), (2, 5), "wr", "2 read of 1"), Dependency((2, 5), (1, 1), "rw", "2 did not read of 1")]
    picture = drawn(evidence, *cycle)
    assert [it.text for it in picture.iter("li")] == ["2 read of 1 (wr)", "2 did not read of 1 (rw)"]
    down, up = [re.findall(r"-?\d+", one.attrib["d"]) for one in picture.iter("path")]
    assert int(down[1]) < int(down[3])  # from the first row to the second one
    assert int(up[1]) > int(up[3])
    assert texts(picture)[-2:] == ["1", "2"]
    assert not list(drawn(evidence).iter("path"))


def test_a_violation_that_is_not_about_several_requests_has_no_picture() -> None:
    trace = Evidence("trace/node-1-1.jsonl", 1, {"event": "deliver", "t": 1})
    many = [call(1, seq, seq) for seq in range(MOST + 1)]
    for evidence in ([trace], [call(1, 1, 1), answer(1, 1, 2), trace], [answer(1, 1, 1), answer(1, 2, 2)], many):
        assert history(Violation("words", evidence), zero=0) is None


def test_damaged_lines_are_left_out_or_named() -> None:
    damaged = [Evidence("ops.jsonl", 1, {"type": "invoke", "client": "x", "seq": 1, "t": 1}), call(3, 1, 9, op=None)]
    picture = drawn([*damaged, call(1, 1, 1), call(2, 1, 3)])
    assert len(bars(picture)) == 3
