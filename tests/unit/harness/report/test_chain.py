"""The chain of events that leads to a violation: the cheapest path through the messages, and runs without a chain."""

from pathlib import Path
from typing import Any

import pytest

from tests.corpus.conduct import steady_state
from tests.corpus.delivery import agreement_fork
from zab_chaos.harness.report.chain import Chain, Point, chain_of, preceding_fault, shortest_path
from zab_chaos.harness.report.html.diagram import ClientOperation, Diagram, NodeStep
from zab_chaos.harness.report.html.run_data import read_run_data
from zab_chaos.harness.report.messages import Exchange, MessageContent, SentMessage
from zab_chaos.harness.results.fault_spans import FaultSpan
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model.verdict import Evidence, Judgement, Outcome, Property, Verdict, Violation
from zab_chaos.node.core.zxid import zxid


def sent(source: int, target: int, at: int, there: int | None, kind: str = "PROPOSE", zxid: int = 0) -> SentMessage:
    return SentMessage(source, target, MessageContent(kind, 1, zxid, zxid), at, there)


def way(messages: list[SentMessage], zxids: list[int] | None = None, line: int = 3) -> list[int]:
    return shortest_path(messages, [Point(1, 10)], Point(line, 100), zxids or [])


def test_the_path_with_the_fewest_messages_is_found() -> None:
    round_about = [sent(1, 2, 11, 12), sent(2, 3, 13, 14)]
    assert way(round_about) == [0, 1]
    assert way([*round_about, sent(1, 3, 20, 30)]) == [2]


def test_no_path_goes_back_in_time() -> None:
    assert way([sent(1, 2, 11, 20), sent(2, 3, 19, 25)]) == []
    assert way([sent(1, 3, 9, 12)]) == []  # before the begin
    assert way([sent(1, 3, 90, 101)]) == []  # after the end
    assert way([sent(1, 3, 20, None)]) == []  # never received
    assert way([sent(1, 2, 11, 20), sent(2, 3, 20, 25)]) == [0, 1]  # at once
    assert way([sent(1, 3, 20, 20)]) == [0]  # takes no time


def test_the_target_line_itself_needs_no_message() -> None:
    assert way([sent(1, 2, 11, 12), sent(2, 1, 13, 14)], line=1) == []


def test_messages_about_the_same_transaction_cost_least_and_pings_most() -> None:
    direct = sent(1, 3, 20, 30, "PING")
    assert way([direct]) == [0]
    assert way([direct, sent(1, 2, 11, 12, "VOTE"), sent(2, 3, 13, 14, "VOTE")]) == [1, 2]
    ours = [sent(1, 2, 11, 12, zxid=7), sent(2, 3, 13, 14, zxid=7)]
    assert way([sent(1, 3, 20, 30), *ours], [7]) == [1, 2]


def told(chain: Chain | None) -> list[str]:
    assert chain is not None
    assert [event.t for event in chain.events] == sorted(event.t for event in chain.events)
    return [event.words for event in chain.events]


def test_a_run_that_was_not_recorded_has_a_chain_without_messages(tmp_path: Path) -> None:
    story = agreement_fork()
    story.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    run = read_run_data(tmp_path)
    assert run.judged.verdict is not None
    chain = chain_of(run.judged.verdict, run.diagram, run.spans)
    assert chain is not None
    assert told(chain)
    assert all(event.message is None for event in chain.events)


def test_a_run_that_passed_has_no_chain(tmp_path: Path) -> None:
    steady_state().save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    run = read_run_data(tmp_path)
    assert run.chain is None
    assert run.as_json()["chain"] is None


# ---- the chain of a run by hand: node 1 leads epoch 1; client 4 asks node 2 for a write, which becomes 1:7 ----

SIX, SEVEN = zxid(1, 6), zxid(1, 7)


def content(kind: str, of: int = SEVEN) -> MessageContent:
    return MessageContent(kind, 1, of, of)


def by_hand() -> Diagram:
    steps = [
        NodeStep(200, 1, "broadcast", 1, SEVEN, SEVEN),
        NodeStep(205, 1, "accept", 1, SEVEN, SEVEN),
        NodeStep(265, 2, "accept", 1, SIX, SIX),
        NodeStep(270, 2, "accept", 1, SEVEN, SEVEN),
        NodeStep(310, 1, "deliver", 1, SEVEN, SEVEN),
        NodeStep(400, 2, "deliver", 1, SEVEN, SEVEN),
        NodeStep(500, 3, "deliver", 1, SEVEN, SEVEN),
    ]
    messages = [
        SentMessage(1, 2, content("PROPOSE"), 205, 260),
        SentMessage(1, 3, content("PROPOSE"), 205, None),
        SentMessage(2, 1, content("ACK"), 270, 300),
        SentMessage(1, 2, content("COMMIT", SIX), 300, 320),
        SentMessage(1, 2, content("COMMIT"), 310, 390),
        SentMessage(1, 2, content("PING"), 311, 395),
    ]
    requests = [ClientOperation(4, 8, "/b", 1, 90), ClientOperation(4, 9, "/a", 2, 100, answered=410, by=2, zxid=SEVEN)]
    return Diagram(Exchange(messages), steps, requests, [(SIX, 0), (SEVEN, 1)])


def span(do: str, at: int, nodes: list[int], healed: int | None = None) -> FaultSpan:
    return FaultSpan(id=at, do=do, target="one", nodes=nodes, params={}, pairs=[], at=at, healed=healed)


def line(node: int, t: int, event: str, **fields: Any) -> Evidence:
    return Evidence(f"trace/node-{node}-1.jsonl", 1, {"t": t, "event": event, "node": node, "life": 1, **fields})


def delivered(node: int, t: int) -> Evidence:
    return line(node, t, "deliver", epoch=1, first=7, digests="00" * 8)


def chain_by_hand(words: str, *evidence: Evidence, spans: list[FaultSpan] | None = None) -> Chain:
    found = Violation(words, list(evidence))
    broken = Property(
        name="agreement", source="", verdict=Judgement.VIOLATION, statement="", checked=1, violations=[found]
    )
    verdict = Verdict(verdict=Outcome.VIOLATION, exit=1, properties=[broken], reasons=[], metrics={})
    chain = chain_of(verdict, by_hand(), spans or [])
    assert chain is not None
    return chain


WRITE = [
    "client 4 asked node 2 for /a (seq 9)",
    "node 2 forwarded client 4's request (seq 9) to node 1 (not recorded)",
    "node 1 broadcast 1:7",
]
WAY = [
    "node 1 sent PROPOSE 1:7 to node 2",
    "node 2 sent ACK 1:7 to node 1",
    "node 2 accepted 1:7, durably",
    "node 1 sent COMMIT 1:7 to node 2",
]


@pytest.mark.parametrize("words", ["1:7 was lost", "the write of client 4, seq 9 was lost"])
def test_the_chain_leads_from_the_request_over_the_messages_to_the_delivery(words: str) -> None:
    chain = chain_by_hand(words, delivered(2, 400))
    assert chain.zxids == [SEVEN]
    assert preceding_fault(chain, 0) == "No fault preceded it"
    *before, last = chain.events
    assert [event.words for event in before] == [*WRITE, WAY[3]]
    assert (last.step, last.mark) == (5, True)
    assert [event.request for event in before] == [1, 1, None, None]
    assert [event.message for event in before] == [None, None, None, 4]


def test_the_chain_begins_at_the_last_fault_before_the_violation() -> None:
    """A wait breaks nothing, and a restart repairs something."""
    spans = [
        span("crash", 10, [3]),
        span("pause", 20, [2], healed=330),
        span("wait", 30, [1]),
        span("restart", 40, [3]),
        span("crash", 450, [1]),
    ]
    chain = chain_by_hand("1:7 was lost", delivered(1, 310), delivered(2, 400), spans=spans)
    assert preceding_fault(chain, 5) == "The last fault before it: pause of one = 2, at 0.000 s"
    words = told(chain)
    assert words[:3] == WRITE
    assert words[3:] == [
        WAY[1], "node 1 (life 1) delivered 1:7", WAY[3], "the pause of one = 2 ended", "node 2 (life 1) delivered 1:7",
    ]  # fmt: skip
    late = chain_by_hand("1:7 was lost", delivered(1, 310), spans=[span("pause", 20, [2], healed=330)])
    assert not any("ended" in words for words in told(late))


def test_the_messages_on_the_way_are_shown_with_what_they_made_durable() -> None:
    chain = chain_by_hand("1:7 was lost", line(1, 200, "vote"), delivered(1, 310))
    assert told(chain) == [
        *WRITE, "node 1 (life 1) wrote `vote`", WAY[0], WAY[2], WAY[1], "node 1 (life 1) delivered 1:7",
    ]  # fmt: skip


def test_a_message_that_is_sent_at_the_time_of_a_cited_line_is_shown_after_it() -> None:
    """The time of a message is that of the last trace line before it."""
    words = told(chain_by_hand("1:7 was lost", line(2, 270, "role", role="LOOKING"), delivered(1, 310)))
    assert words[-3:-1] == ["node 2 (life 1) became LOOKING", "node 2 sent ACK 1:7 to node 1"]


def test_a_delivery_that_came_too_late_ends_the_chain() -> None:
    chain = chain_by_hand("1:7 was lost", line(3, 420, "role", role="LOOKING"))
    assert told(chain)[-1] == "node 3 delivered 1:7"
    assert chain.events[-1].step == 6
