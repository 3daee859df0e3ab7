"""Descriptions of cited lines as sentences."""

from typing import Any, get_args

import pytest

from zab_chaos.harness.report.sentences import SESSIONS, describe_line, describe_request
from zab_chaos.model.events import SessionEvent

LOOK = {"type": "look", "client": 2, "path": "/e", "node": 3, "zxid": [1, 7]}


def test_every_line_of_sessions_has_a_sentence() -> None:
    assert set(SESSIONS) == {kind.__struct_config__.tag for kind in get_args(SessionEvent)}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({**LOOK, "changed": [1, 5], "watch": True}, "by node 3 at 1:7: with its last change at 1:5, and set a watch"),
        (LOOK, "client 2 was shown /e by node 3 at 1:7: no such znode"),
        ({"type": "ended", "client": 0, "session": 255, "zxid": [1, 9]}, "found the end of session 0xff in a log, at 1:9"),
        ({"type": "fired", "client": 1, "path": "/e", "what": "deleted"}, "client 1 was notified that /e was deleted"),
        ({"type": "made", "client": 1}, "client 1 wrote `made`"),
    ],
)  # fmt: skip
def test_lines_of_sessions(line: dict[str, Any], words: str) -> None:
    assert words in describe_line("sessions.jsonl", line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            {"type": "invoke", "op": "set", "path": "/k", "value": 77, "version": 0},
            "to node 2 (seq 5), value 77, if its version is 0",
        ),
        ({"type": "invoke", "op": "get", "path": "/k"}, "sent get /k to node 2 (seq 5)"),
        (
            {
                "type": "invoke",
                "op": "multi",
                "path": "/b",
                "steps": [{"op": "set", "path": f"/{i}"} for i in range(9)],
            },
            "sent multi (set /0, set /1, set /2, set /3, set /4, set /5, set /6, set /7, and 1 more) to node 2 (seq 5)",
        ),
        (
            {
                "type": "invoke",
                "op": "transaction",
                "path": "/b",
                "value": 77,
                "steps": [{"op": "get", "path": "/a"}, {"op": "set", "path": "/b", "value": 77}],
            },
            "sent transaction (get /a, set /b to 77) to node 2 (seq 5)",
        ),
        (
            {
                "type": "invoke",
                "op": "list-append",
                "path": "/list-2",
                "value": 3,
                "steps": [{"op": "append", "path": "/list-1", "value": 3}, {"op": "read", "path": "/list-2"}],
            },
            "sent list-append (append 3 to /list-1, read /list-2) to node 2 (seq 5)",
        ),
        (
            {"type": "complete", "outcome": "ok", "lists": [[1, 2], []]},
            "answered ok by node 2 (seq 5), which found [1, 2], []",
        ),
        (
            {"type": "complete", "outcome": "ok", "lists": [[1, 2, 3, 5, 6, 7, 8, 4, 10]]},
            "answered ok by node 2 (seq 5), which found [1, 2, 3, 5 to 8, 4, 10]",
        ),
        (
            {"type": "complete", "outcome": "ok", "values": [77, None]},
            "answered ok by node 2 (seq 5), which found 77, no key",
        ),
        (
            {"type": "complete", "outcome": "ok", "zxid": [1, 9], "value": 0, "version": 4},
            "answered ok by node 2 (seq 5), zxid 1:9, value 0, version 4",
        ),
        (
            {"type": "complete", "outcome": "failed", "error": "no node", "value": None},
            "answered failed by node 2 (seq 5): no node",
        ),
    ],
)
def test_an_operation_shows_the_value_and_the_version_that_a_judgement_compares(
    line: dict[str, Any], words: str
) -> None:
    assert describe_line("ops.jsonl", {"client": 1, "seq": 5, "node": 2} | line).endswith(words)


LISTS = {
    "op": "list-append",
    "path": "/b",
    "steps": [{"op": "read", "path": "/a"}, {"op": "append", "path": "/b", "value": 3}, {"op": "read", "path": "/b"}],
}


@pytest.mark.parametrize(
    ("asked", "answer", "words"),
    [
        (
            {"op": "set", "path": "/a", "value": 7, "version": 2},
            None,
            "set /a, value 7, if its version is 2: no answer",
        ),
        ({"op": "get", "path": "/a"}, {"outcome": "ok", "value": 0, "version": 4}, "get /a: ok, value 0, version 4"),
        ({"op": "get", "path": "/a"}, {"outcome": "failed", "error": "no node"}, "get /a: failed: no node"),
        (
            LISTS,
            {"outcome": "ok", "lists": [[1], [3]]},
            "list-append (read /a, append 3 to /b, read /b): ok, which found /a [1], /b [3]",
        ),
        (LISTS, {"outcome": "failed", "error": "x"}, "list-append (read /a, append 3 to /b, read /b): failed: x"),
        (
            {"op": "multi-get", "path": "/b", "steps": [{"op": "get", "path": "/a"}, {"op": "get", "path": "/b"}]},
            {"outcome": "ok", "values": [7, None]},
            "multi-get (get /a, get /b): ok, which found /a 7, /b no key",
        ),
        ({"op": "get"}, None, "a request of an unexpected form"),
    ],
)
def test_a_request_is_described_with_its_answer(
    asked: dict[str, Any], answer: dict[str, Any] | None, words: str
) -> None:
    assert describe_request(asked, answer) == words


def test_milestones_that_a_verdict_cites_have_a_sentence() -> None:
    tried = {"event": "crash-state", "node": 5, "life": 1, "why": "long"}
    assert (
        describe_line("harness.jsonl", tried)
        == "a crash of node 5 (life 1) at this sync was tried on a copy of its disk"
    )
    assert describe_line("harness.jsonl", {"event": "crash-state"}) == "wrote `crash-state`"  # a damaged line
    asked = describe_line("harness.jsonl", {"event": "last-question", "seconds": 8.0})
    assert asked == "from here on each client asked for a last read, for at most 8 s"
    ended = {"event": "ended", "node": 2, "life": 3, "code": -9, "armed": False}
    assert describe_line("harness.jsonl", ended) == "the process of node 2 (life 3) ended: SIGKILL"
    assert describe_line("harness.jsonl", {"event": "converged"}) == "the run: converged"
