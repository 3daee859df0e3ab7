"""The data of the space-time diagram: messages, steps and requests, and their packed form."""

import base64
import json
import zlib
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.delivery import agreement_fork
from tests.corpus.story import Story
from zab_chaos.harness.report.columns import Columns
from zab_chaos.harness.report.html.diagram import ClientOperation, Diagram, NodeSteps, read_diagram
from zab_chaos.harness.report.html.evidence import read_shown_verdict
from zab_chaos.harness.report.html.packed import differences, pack
from zab_chaos.harness.report.messages import NOT_RECORDED, Exchange, MessageContent, Messages, SentMessage
from zab_chaos.harness.results.source import Source
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.node.core.peer import Peer


def unpack(text: str) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Unpack as assets/exchange.js does."""
    data = zlib.decompress(base64.urlsafe_b64decode(text))
    at = 4 + int.from_bytes(data[:4], "little")
    head = json.loads(data[4:at])
    columns = {}
    for name, code, length in head["columns"]:
        column = array(code)
        width = column.itemsize
        planes = [data[at + plane * length : at + (plane + 1) * length] for plane in range(width)]
        column.frombytes(bytes(planes[i % width][i // width] for i in range(width * length)))
        columns[name] = column.tolist()
        at += width * length
    assert at == len(data)
    return columns, head["words"]


@pytest.mark.parametrize("values", [[], [0, 1, -1, 2**31 - 1, -(2**31)], [2**31, -5, 2**52]])
def test_packed_values_can_be_unpacked(values: list[int]) -> None:
    columns, words = unpack(pack({"a": values, "b": [7]}, {"w": ["x", "y\n"]}))
    assert columns == {"a": values, "b": [7]}
    assert words == {"w": ["x", "y\n"]}
    assert list(accumulate(differences(values))) == values


def zxid(epoch: int, counter: int) -> int:
    return epoch << 32 | counter


def test_times_are_microseconds_and_lost_messages_are_marked() -> None:
    propose = MessageContent("PROPOSE", 1, zxid(1, 4), zxid(1, 6))
    newleader = MessageContent("NEWLEADER", 2, zxid(1, 6), zxid(2, 1), "NEWLEADER e=2")
    exchange = Exchange(
        Messages([SentMessage(3, 1, propose, 5_000_000, 5_250_000), SentMessage(3, 2, newleader, 6_000_000, None)])
    )
    requests = [
        ClientOperation(9, 1, "/a", 2, 4_000_000, 7_000_000, 2, zxid(1, 4)),
        ClientOperation(2**63, 2, "/b", 1, 4_500_000),
    ]
    columns, words = unpack(
        Diagram(exchange, NodeSteps(), requests, Columns(2, [(zxid(1, 4), 0)])).as_json(1_000_000)["packed"]
    )
    assert list(accumulate(columns["message.sent"])) == [4000, 5000]
    assert columns["message.took"] == [251, 0]
    assert [words["kinds"][int(kind)] for kind in columns["message.kind"]] == ["PROPOSE", "NEWLEADER"]
    assert [words["said"][int(one)] for one in columns["message.said"]] == ["", "NEWLEADER e=2"]
    last = list(zip(accumulate(columns["message.zepoch"]), accumulate(columns["message.counter"]), strict=True))
    assert last == [(1, 6), (2, 1)]
    assert (columns["message.back"], columns["message.many"]) == ([0, 1], [2, -5])
    assert columns["request.took"] == [3001, 0]
    assert words["clients"] == ["9", str(2**63)]
    assert (columns["owner.epoch"], columns["owner.counter"], columns["owner.request"]) == ([1], [4], [0])


def test_steps_are_read_from_the_traces_even_without_a_recording(folder: Path) -> None:
    found = read_diagram(folder, Peer, own_clocks=False)
    assert found.gaps == [NOT_RECORDED]
    kinds = {step.kind for step in found.steps}
    assert {"broadcast", "accept", "deliver", "established", "accepted_epoch", "current_epoch", "boot"} <= kinds
    assert [step.t for step in found.steps] == sorted(step.t for step in found.steps)
    delivered = [step for step in found.steps if step.kind == "deliver" and step.node == 2]
    assert delivered[0].first == zxid(1, 1)
    assert all(step.first <= step.last for step in delivered)
    assert len(found.requests) == 10
    assert all(request.answered is not None for request in found.requests)


def test_a_transaction_belongs_to_the_request_that_asked_for_it(folder: Path) -> None:
    found = read_diagram(folder, Peer, own_clocks=False)
    assert len(found.owners) == 10
    assert all(found.requests[index].zxid == zxid for zxid, index in found.owners)


def test_a_request_is_drawn_when_it_was_sent_between_the_nodes_that_took_and_answered_it(
    told: Story, tmp_path: Path
) -> None:
    """And it belongs to its own place in the batch."""
    told.event(1, "broadcast", epoch=4, first=7, digests="0" * 16 * 2, txns=[[7, 2, []], [7, 1, []]], delivered=[0, 0])
    told.save(tmp_path / "run")
    with (tmp_path / "run" / "ops.jsonl").open("a") as file:
        file.write(
            '{"type": "invoke", "t": 50, "due": 20, "client": 7, "seq": 1, "node": 1, "op": "set", "path": "/b"}\n'
        )
        file.write('{"type": "complete", "t": 90, "client": 7, "seq": 1, "node": 3, "outcome": "ok", "zxid": [4, 8]}\n')
    found = read_diagram(tmp_path / "run", Peer, own_clocks=False)
    assert found.requests[-1] == ClientOperation(7, 1, "/b", 1, 50, 90, 3, zxid(4, 8), "set")
    assert (zxid(4, 8), len(found.requests) - 1) in found.owners


def test_a_fence_belongs_to_a_client_and_no_request(told: Story, tmp_path: Path) -> None:
    txns = [[1, 1, [["set", "/a", 1, 2]]], [1, 2, [["fence", "", None, None]]], [1, 3, "damaged"]]
    told.event(1, "broadcast", epoch=4, first=7, digests="0" * 16 * 3, txns=txns, delivered=[0, 0])
    told.save(tmp_path / "run")
    with (tmp_path / "run" / "ops.jsonl").open("a") as file:
        for seq in (1, 2, 3):
            line = {"type": "invoke", "t": 50, "due": 20, "client": 1, "seq": seq, "node": 1, "op": "set", "path": "/a"}
            file.write(json.dumps(line) + "\n")
    found = read_diagram(tmp_path / "run", Peer, own_clocks=False)
    assert list(found.fences) == [(zxid(4, 8), 1, 2)]
    of_epoch = [(one, found.requests[index].seq) for one, index in found.owners if one >= zxid(4, 1)]
    assert of_epoch == [(zxid(4, 7), 1), (zxid(4, 9), 3)]


def test_a_step_has_the_transactions_that_its_line_names(told: Story, tmp_path: Path) -> None:
    told.event(1, "deliver", epoch=3, first=5, digests="0" * 16 * 3, digest="", tree="")
    told.event(1, "truncate", keep=[3, 4], last=[3, 9])
    for kind in ("taken", "restored"):
        told.event(1, "snapshot", kind=kind, zxid=[3, 7])
    told.save(tmp_path / "run")
    steps = read_diagram(tmp_path / "run", Peer, own_clocks=False).steps[-3:]
    assert [(one.kind, one.first, one.last) for one in steps] == [
        ("deliver", zxid(3, 5), zxid(3, 7)),
        ("truncate", zxid(3, 5), zxid(3, 9)),
        ("restored", 1, zxid(3, 7)),
    ]


def test_without_the_nodes_core_the_diagram_says_why(folder: Path) -> None:
    assert read_diagram(folder, "no core", own_clocks=False).gaps == [NOT_RECORDED]  # which no core would change
    record = folder / "record"
    record.mkdir()
    (record / "node-1-1.bin").touch()
    assert read_diagram(folder, "the core is not here", own_clocks=False).gaps == ["the core is not here"]


def test_damaged_files_cannot_break_the_diagram(told: Story, tmp_path: Path) -> None:
    told.event(
        1, "broadcast", epoch=2**62, first=2**62, digests="ff" * 8, delivered=[0, 0], txns=[[1], "x", [[], 2, 3]]
    )
    told.event(1, "truncate", keep="a", last=[1])
    told.event(2, "deliver", epoch=1, first=5, digests="", digest="", tree="")
    told.save(tmp_path / "run")
    with (tmp_path / "run" / "ops.jsonl").open("a") as file:
        file.write('{"type": "invoke", "t": 5, "client": 1, "seq": 99, "path": {}, "zxid": 3}\n?\n')
        file.write('{"type": "complete", "t": 6, "client": 1, "seq": 99, "zxid": {"a": 1}}\n')
    found = read_diagram(tmp_path / "run", Peer, own_clocks=False)
    assert (found.requests[-1].path, found.requests[-1].zxid) == ("", 0)
    unpack(found.as_json(0)["packed"])


def test_evidence_has_search_texts(tmp_path: Path) -> None:
    agreement_fork().save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    judged = read_shown_verdict(Source(tmp_path))
    asked = [one for _, violations in judged.violations for violation in violations for one in violation.queries]
    assert any(one and one.split(":")[0].isdigit() for one in asked)


def test_the_search_text_of_a_batch_is_the_transaction_that_the_words_name(folder: Path) -> None:
    line: dict[str, Any] = {"t": 1, "event": "broadcast", "epoch": 2, "first": 1, "digests": "0" * 16 * 50}
    asked = {"t": 2, "type": "invoke", "client": 27, "seq": 4, "node": 1}
    evidence = [
        {"file": "trace/node-1-1.jsonl", "line": 1, "event": line},
        {"file": "ops.jsonl", "line": 2, "event": asked},
        {"file": "harness.jsonl", "line": 3, "event": {"t": 3, "event": "started"}},
    ]
    violation = {"words": "1:17 was next for /a, but 2:36 sets it to version 4", "evidence": evidence}
    item = {
        "name": "p",
        "source": "s",
        "verdict": "VIOLATION",
        "statement": "",
        "checked": 1,
        "violations": [violation],
    }
    verdict = {"verdict": "VIOLATION", "exit": 1, "properties": [item], "reasons": [], "metrics": {}}
    folder.joinpath("verdict.json").write_text(json.dumps(verdict))
    judged = read_shown_verdict(Source(folder))
    ((_, (violation,)),) = judged.violations
    assert violation.queries == ["2:36", "client 27 seq 4", None]
    assert violation.query == "1:17 2:36"
    assert [mark.node for mark in judged.marks] == [1, None, None]  # a request is on no node's lane
