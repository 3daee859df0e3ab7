"""The chain of events that leads to a violation: the cheapest path through the messages, and runs without a chain."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.conduct import steady_state
from tests.corpus.delivery import agreement_fork
from zab_chaos.harness.report.chain import Chain, ChainEvent, Point, chain_of, moments, preceding_fault, shortest_path
from zab_chaos.harness.report.columns import Columns
from zab_chaos.harness.report.html.diagram import ClientOperation, Diagram, NodeStep, NodeSteps
from zab_chaos.harness.report.html.run_data import read_run_data
from zab_chaos.harness.report.messages import Drop, Exchange, MessageContent, Messages, SentMessage
from zab_chaos.harness.report.sentences import describe_line
from zab_chaos.harness.results.fault_spans import FaultSpan
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model.verdict import Evidence, Judgement, Outcome, Property, Verdict, Violation
from zab_chaos.node.core.zxid import zxid


def sent(source: int, target: int, at: int, there: int | None, kind: str = "PROPOSE", zxid: int = 0) -> SentMessage:
    return SentMessage(source, target, MessageContent(kind, 1, zxid, zxid), at, there)


def way(messages: list[SentMessage], zxids: list[int] | None = None, line: int = 3) -> list[int]:
    return shortest_path(Messages(messages), [Point(1, 10)], Point(line, 100), zxids or [])


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


# ---- the chain of a run by hand ----
# Node 1 leads epoch 1. Client 4 asks it for 1:6, and node 2 for 1:7.

SIX, SEVEN, EIGHT = zxid(1, 6), zxid(1, 7), zxid(1, 8)


def content(kind: str, of: int = SEVEN) -> MessageContent:
    return MessageContent(kind, 1, of, of)


def by_hand(accepted: int) -> Diagram:
    """`accepted`: when node 2 accepts 1:7, whose ACK it sends at 270."""
    steps = [
        NodeStep(195, 1, "broadcast", 1, SIX, SIX),
        NodeStep(200, 1, "broadcast", 1, SEVEN, SEVEN),
        NodeStep(205, 3, "accept", 1, SIX, SIX),
        NodeStep(205, 1, "accept", 1, SEVEN, SEVEN),
        NodeStep(265, 2, "accept", 1, SIX, SIX),
        NodeStep(accepted, 2, "accept", 1, SEVEN, SEVEN),
        NodeStep(310, 1, "deliver", 1, SEVEN, SEVEN),
        NodeStep(400, 2, "deliver", 1, SEVEN, SEVEN),
        NodeStep(500, 3, "deliver", 1, SEVEN, SEVEN),
    ]
    messages = [
        SentMessage(1, 2, content("PROPOSE", SIX), 195, 250),
        SentMessage(1, 2, content("PROPOSE"), 205, 260),
        SentMessage(1, 3, content("PROPOSE"), 205, None),
        SentMessage(2, 1, content("ACK"), 270, 300),
        SentMessage(3, 1, content("ACK", SIX), 280, 305),
        SentMessage(1, 2, content("COMMIT", SIX), 300, 320),
        SentMessage(1, 2, content("COMMIT"), 310, 390),
        SentMessage(1, 2, content("PING"), 311, 395),
        SentMessage(1, 2, content("COMMIT", EIGHT), 420, 450),
    ]
    requests = [
        ClientOperation(4, 8, "/b", 1, 90),
        ClientOperation(4, 9, "/a", 2, 100, answered=410, by=2, zxid=SEVEN, op="set"),
        ClientOperation(4, 10, "/c", 1, 420),
    ]
    return Diagram(Exchange(Messages(messages)), NodeSteps(steps), requests, Columns(2, [(SIX, 0), (SEVEN, 1)]))


def span(do: str, at: int, nodes: list[int], healed: int | None = None) -> FaultSpan:
    return FaultSpan(id=at, do=do, target="one", nodes=nodes, params={}, pairs=[], at=at, healed=healed)


def line(node: int, t: int, event: str, **fields: Any) -> Evidence:
    return Evidence(f"trace/node-{node}-1.jsonl", 1, {"t": t, "event": event, "node": node, "life": 1, **fields})


def looks(node: int, t: int) -> Evidence:
    return line(node, t, "role", role="LOOKING")


def delivered(node: int, t: int) -> Evidence:
    return line(node, t, "deliver", epoch=1, first=7, digests="00" * 8)


def answered(seq: int, t: int) -> Evidence:
    event = {"t": t, "type": "complete", "client": 4, "seq": seq, "node": 2, "outcome": "ok"}
    return Evidence("ops.jsonl", 1, event)


def chain_by_hand(
    words: str, *evidence: Evidence, spans: list[FaultSpan] | None = None, diagram: Diagram | None = None,
    name: str = "agreement",
) -> Chain:  # fmt: skip
    found = Violation(words, list(evidence))
    broken = Property(name=name, source="", verdict=Judgement.VIOLATION, statement="", checked=1, violations=[found])
    verdict = Verdict(verdict=Outcome.VIOLATION, exit=1, properties=[broken], reasons=[], metrics={})
    chain = chain_of(verdict, diagram or by_hand(accepted=270), spans or [])
    assert chain is not None
    return chain


WRITE = [
    "client 4 sent set /a to node 2 (seq 9)",
    "node 2 forwarded client 4's request (seq 9) to node 1 (not recorded)",
    "node 1 broadcast 1:7",
]
PROPOSE, ACK, COMMIT = (
    "node 1 sent PROPOSE 1:7 to node 2", "node 2 sent ACK 1:7 to node 1", "node 1 sent COMMIT 1:7 to node 2",
)  # fmt: skip
ACCEPTED, LED, FOLLOWED = (
    "node 2 accepted 1:7, durably", "node 1 (life 1) delivered 1:7", "node 2 (life 1) delivered 1:7",
)  # fmt: skip


@pytest.mark.parametrize("words", ["1:7 was lost, not 0:3", "the write of client 4, seq 9 was lost"])
def test_the_chain_leads_from_the_request_over_the_messages_to_the_delivery(words: str) -> None:
    chain = chain_by_hand(words, delivered(2, 400))
    assert chain.zxids == [SEVEN]
    assert preceding_fault(chain, 0) == "No fault preceded it"
    *before, last = chain.events
    assert [event.words for event in before] == [*WRITE, COMMIT]
    assert (last.words, last.step, last.mark) == (FOLLOWED, 7, True)
    assert [event.request for event in before] == [1, 1, None, None]
    assert [event.message for event in before] == [None, None, None, 6]


@pytest.mark.parametrize(
    ("words", "evidence", "zxids"),
    [
        ("client 4, seq 9 came after its seq 8", delivered(2, 400), [SIX, SEVEN]),
        ("client 4, seq 8 came after client 5, seq 9", delivered(2, 400), [SIX]),
        ("a write was lost", answered(9, 410), [SEVEN]),
        ("a write was lost", delivered(2, 400), [SEVEN]),
        ("1:1 1:2 1:2 1:3 1:4 1:5 1:6 1:7", delivered(2, 400), [zxid(1, counter) for counter in range(1, 7)]),
    ],
)
def test_the_transactions_of_a_chain_are_those_of_the_violations_words_and_evidence(
    words: str, evidence: Evidence, zxids: list[int]
) -> None:
    assert chain_by_hand(words, evidence).zxids == zxids


def test_a_request_after_the_violation_is_not_shown_and_an_answer_that_is_cited_is() -> None:
    chain = chain_by_hand("client 4, seq 9 and its seq 10", answered(9, 410))
    asked = [event for event in chain.events if event.request is not None and "client 4 sent" in event.words]
    assert [event.words for event in asked] == WRITE[:1]
    assert (chain.events[-1].request, chain.events[-1].mark) == (1, True)


def test_a_crash_point_that_no_node_came_to_is_no_cause() -> None:
    armed = replace(span("crash-at", 240, [2]), reached=False)
    chain = chain_by_hand("1:7 was lost", delivered(2, 400), spans=[span("pause", 230, [2]), armed])
    assert preceding_fault(chain, 0).startswith("The last fault before it: pause of one = 2")


def test_what_a_node_has_accepted_comes_with_the_message_that_brought_it() -> None:
    """Also if the chain begins with a fault of that node, from which no message would be needed."""
    cut = span("partition", 230, [2])
    accepted = line(2, 270, "accept", epoch=1, first=7, digests="00" * 8)
    words = told(chain_by_hand("node 2 accepted 1:7", accepted, spans=[cut]))
    assert words[-2:] == [PROPOSE, describe_line(accepted.file, accepted.event)]


def test_a_request_to_the_leader_itself_is_not_forwarded() -> None:
    words = told(chain_by_hand("1:6 and 1:7", line(2, 265, "accept")))
    assert words[:1] == ["client 4 sent request /b to node 1 (seq 8)"]
    assert [one for one in words if "forwarded" in one] == WRITE[1:2]
    assert "node 1 sent PROPOSE 1:6 to node 2" in words  # from the first broadcast on


def test_a_cited_step_is_the_one_of_its_node() -> None:
    chain = chain_by_hand("1:7 was lost", line(1, 205, "accept"))
    assert [event.step for event in chain.events if event.mark] == [3]


def test_the_chain_begins_at_the_last_fault_before_the_violation() -> None:
    """A pause of nobody and a wait break nothing, and a restart repairs something."""
    spans = [
        span("crash", 10, [3]),
        span("pause", 20, [2], healed=330),
        span("pause", 25, []),
        span("wait", 30, [1]),
        span("restart", 40, [3]),
        span("crash", 450, [1]),
    ]
    chain = chain_by_hand("1:7 was lost", delivered(2, 400), delivered(1, 310), spans=spans)
    assert preceding_fault(chain, 5) == "The last fault before it: pause of one = 2, at 0.000 s"
    assert told(chain) == [*WRITE, ACK, LED, COMMIT, "the pause of one = 2 ended", FOLLOWED]
    early = chain_by_hand("1:7 was lost", delivered(1, 310), spans=spans)
    assert not any("ended" in words for words in told(early))


def test_if_only_clients_saw_it_the_last_fault_may_have_been_at_any_node() -> None:
    """The write was asked for at node 2, and nothing is known of what the nodes did. The fault was at node 3."""
    cited = [
        Evidence("ops.jsonl", t, {"t": t, "type": kind, "client": 8, "seq": seq, "node": 2})
        for t, kind, seq in ((90, "invoke", 8), (100, "complete", 8), (400, "invoke", 9), (410, "complete", 9))
    ]
    spans = [span("crash", 10, [1], healed=50), span("partition", 60, [3], healed=300)]
    chain = chain_by_hand("/b: the write of client 8, seq 8 is lost", *cited, spans=spans)
    assert preceding_fault(chain, 0) == "The last fault before it: partition of one = 3, at 0.000 s"
    assert chain.fault is spans[1]
    spans[0] = span("crash", 10, [1], healed=80)
    chain = chain_by_hand("/b: the write of client 8, seq 8 is lost", *cited, spans=spans)
    assert preceding_fault(chain, 0).startswith("The last faults before it: crash of one = 1, ")


def test_all_faults_between_the_answers_of_clients_may_have_caused_what_contradicts_them() -> None:
    """A write was answered at 100, and a read that does not show it at 410."""
    asked = [(90, "invoke", 8), (100, "complete", 8), (400, "invoke", 9), (410, "complete", 9)]
    cited = [Evidence("ops.jsonl", t, {"t": t, "type": kind, "client": 4, "seq": seq}) for t, kind, seq in asked]
    spans = [span("crash", 10, [3], healed=50), span("power-cut", 150, [1], healed=200), span("pause", 300, [2])]
    chain = chain_by_hand("/b: the write of client 4, seq 8 is lost", *cited, spans=spans)
    assert preceding_fault(chain, 0) == (
        "The faults between these answers: power-cut of one = 1, at 0.000 s; pause of one = 2, at 0.000 s"
    )
    chain = chain_by_hand("/b: the write of client 4, seq 8 is lost", *cited, spans=spans[:2])
    assert preceding_fault(chain, 0) == "The last fault before it: power-cut of one = 1, at 0.000 s"
    many = [span("crash", t, [3], healed=t + 5) for t in range(110, 180, 10)]
    chain = chain_by_hand("/b: the write of client 4, seq 8 is lost", *cited, spans=many)
    assert preceding_fault(chain, 0).endswith("; and 2 more")
    chain = chain_by_hand(
        "1:7 was lost",
        delivered(1, 310),
        looks(2, 400),
        spans=[span("pause", 290, [2], healed=295), span("pause", 300, [2], healed=500)],
    )
    assert preceding_fault(chain, 0) == "The last fault before it: pause of one = 2, at 0.000 s"  # it shows by itself


def test_the_chain_goes_on_from_each_cited_event() -> None:
    """From a fault of node 2; or, if no fault is known to be related, from the broadcast."""
    way_on = [ACK, LED, COMMIT, "node 2 (life 1) became LOOKING"]
    chain = chain_by_hand("1:7 was lost", delivered(1, 310), looks(2, 400), spans=[span("crash", 10, [2])])
    assert told(chain)[len(WRITE) :] == way_on
    chain = chain_by_hand("1:7 was lost", delivered(1, 310), looks(2, 400), spans=[span("crash", 10, [3])])
    assert told(chain)[len(WRITE) :] == [PROPOSE, ACCEPTED, *way_on]


@pytest.mark.parametrize(("accepted", "between"), [(270, [ACCEPTED]), (275, [])])
def test_the_messages_on_the_way_are_shown_with_what_they_made_durable(accepted: int, between: list[str]) -> None:
    """If node 2 accepts 1:7 only after its ACK, nothing is durable between the two messages."""
    chain = chain_by_hand("1:7 was lost", line(1, 200, "vote"), delivered(1, 310), diagram=by_hand(accepted))
    assert told(chain) == [*WRITE, "node 1 (life 1) wrote `vote`", PROPOSE, *between, ACK, LED]


def test_a_durable_step_belongs_to_the_message_of_its_epoch() -> None:
    steps = [NodeStep(12, 2, "accepted_epoch", 1, 0, 0), NodeStep(13, 2, "accepted_epoch", 2, 0, 0)]
    steps += [NodeStep(14, 2, "current_epoch", 2, 0, 0)]
    diagram = Diagram(
        Exchange(Messages([SentMessage(1, 2, MessageContent("NEWEPOCH", 2, 0, 0), 10, 11)])), NodeSteps(steps)
    )
    chain = chain_by_hand("two leaders", looks(2, 20), spans=[span("crash", 5, [1])], diagram=diagram)
    assert told(chain)[:-1] == ["node 1 sent NEWEPOCH of epoch 2 to node 2", "node 2 promised epoch 2, durably"]


def test_a_message_that_is_sent_at_the_time_of_a_cited_line_is_shown_after_it() -> None:
    """The time of a message is that of the last trace line before it."""
    words = told(chain_by_hand("1:7 was lost", looks(2, 270), delivered(1, 310)))
    assert words[-3:-1] == ["node 2 (life 1) became LOOKING", ACK]


def broadcast(node: int, t: int, *txns: Any, first: int = 7) -> Evidence:
    return line(node, t, "broadcast", epoch=1, first=first, digests="00" * 8 * max(1, len(txns)), txns=list(txns))


def test_a_delivery_after_a_wrong_broadcast_ends_the_chain_and_after_any_other_violation_it_does_not() -> None:
    """And the deliveries are in the order of the zxids."""
    diagram = by_hand(accepted=270)
    chain = chain_by_hand("1:7 was lost", broadcast(3, 420), diagram=diagram)
    assert told(chain)[-1] == "node 3 delivered 1:7"
    assert chain.events[-1].step == 8
    assert told(chain_by_hand("1:7 was lost", looks(3, 420)))[-1] == "node 3 (life 1) became LOOKING"
    diagram.steps.append(NodeStep(500, 3, "deliver", 1, SIX, SIX))
    assert told(chain_by_hand("1:7 and 1:6 were lost", broadcast(3, 420), diagram=diagram))[-2:] == [
        "node 3 delivered 1:6", "node 3 delivered 1:7"
    ]  # fmt: skip


# ---- the faults ----


def test_a_fault_elsewhere_is_no_cause_and_one_of_the_nodes_concerned_is() -> None:
    """Node 1 broadcast what node 2 delivered, of a request to node 2. Nothing happened to node 3 there."""
    elsewhere, here = span("pause", 60, [3]), span("crash", 50, [2], healed=55)
    over = span("pause", 60, [3], healed=70)
    for one, words in (
        (elsewhere, "No fault touched nodes 1 and 2 before it. At other nodes"),
        (over, "No fault is known to be related. The last one before it"),
    ):
        chain = chain_by_hand("1:7 was lost", delivered(2, 400), spans=[one])
        assert preceding_fault(chain, 0) == f"{words}: pause of one = 3, at 0.000 s"
        assert chain.fault is None
    chain = chain_by_hand("1:7 was lost", delivered(2, 400), spans=[here, elsewhere])
    assert (
        preceding_fault(chain, 0) == "The last fault before it that touched nodes 1 and 2: crash of one = 2, at 0.000 s"
    )
    assert chain.fault is here
    channel = line(2, 400, "channel", peer=3, first=0, last=9, session=1, ended="gap")  # from node 3
    assert preceding_fault(chain_by_hand("a gap", channel, spans=[elsewhere]), 0).startswith(
        "The last fault before it: "
    )
    cut = FaultSpan(id=1, do="partition", target="links", nodes=[9], params={}, pairs=[(1, 2)], at=70)
    chain = chain_by_hand("1:7 was lost", delivered(2, 400), spans=[here, elsewhere, cut])
    assert preceding_fault(chain, 0) == "The last fault before it: partition of links = 9, at 0.000 s"


def test_a_fault_that_came_only_after_the_first_cited_line_does_not_hide_the_one_before_it() -> None:
    spans = [span("crash", 10, [2]), span("stop", 20, [2]), span("pause", 350, [2]), span("power-cut", 380, [3])]
    chain = chain_by_hand("1:7 was lost", delivered(2, 320), looks(2, 400), spans=spans)
    assert preceding_fault(chain, 0) == (
        "The last faults before it that touched nodes 1 and 2: stop of one = 2, at 0.000 s; pause of one = 2, at 0.000 s"
    )
    assert chain.fault is spans[1]


def test_a_fault_that_lasted_when_the_last_one_began_is_named_with_it() -> None:
    spans = [
        span("flap", 10, [2], healed=15),
        span("latency", 20, [2], healed=300),
        span("clock-jump", 40, [1], healed=40),
    ]
    chain = chain_by_hand("1:7 was lost", delivered(2, 400), spans=spans)
    assert [one.do for one in chain.suspects.faults] == ["latency", "clock-jump"]


def test_a_crash_that_was_only_tried_needs_no_fault_and_concerns_no_request() -> None:
    tried = Evidence("harness.jsonl", 1, {"t": 400, "event": "crash-state", "node": 2, "life": 1, "why": "1:7"})
    chain = chain_by_hand("its disk had held a history up to 1:7", tried, spans=[span("crash", 10, [2])])
    assert preceding_fault(chain, 0) == "It needs no fault: the crash was only tried, on a copy of the disk"
    assert told(chain) == ["a crash of node 2 (life 1) at this sync was tried on a copy of its disk"]
    assert chain.zxids == []


def test_a_chain_of_a_few_milliseconds_is_shown_in_microseconds() -> None:
    events = [ChainEvent(2_000_000, "a"), ChainEvent(2_250_000, "b"), ChainEvent(11_999_999, "c")]
    assert moments(events, 1_000_000) == ["0.001000 s", "0.001250 s", "0.011000 s"]
    assert moments([*events, ChainEvent(12_000_000, "d")], 1_000_000) == ["0.001 s", "0.001 s", "0.011 s", "0.011 s"]
    assert moments(events[:1], 1_000_000) == ["0.001 s"]
    assert moments([], 0) == []


# ---- what a message came to ----


def test_a_delivery_without_the_right_message_shows_the_last_one_and_who_had_acknowledged_it() -> None:
    """Node 1 delivers 1:7 upon an ACK of 1:6: no node has acknowledged 1:7."""
    diagram = by_hand(accepted=270)
    messages = [one for one in diagram.exchange.messages if one.content.last != SEVEN]
    diagram.exchange.messages = Messages([*messages, SentMessage(2, 1, content("PING", SIX), 306, 309)])
    last = "node 3 sent ACK 1:6 to node 1, the last message before it delivered"
    chain = chain_by_hand("1:7 is on one disk", delivered(1, 310), diagram=diagram, name="quorum durability")
    assert told(chain)[len(WRITE) :] == [last, "by then no other node had acknowledged 1:7", LED]
    diagram = by_hand(accepted=270)
    chain = chain_by_hand("1:7 is on two disks", delivered(1, 310), diagram=diagram, name="quorum durability")
    assert told(chain)[-2:] == ["by then node 2 had acknowledged 1:7", LED]
    diagram.exchange.gaps.append("node 2, life 1: it has no recording")
    chain = chain_by_hand("1:7 is on two disks", delivered(1, 310), diagram=diagram, name="quorum durability")
    assert not any("by then" in words for words in told(chain))


def stopped(node: int, t: int, why: str) -> Evidence:
    return line(node, t, "abort", why=why)


STOPPED = "node 3 (life 1) stopped itself: COMMIT up to 1:7, beyond 1:6"


@pytest.mark.parametrize(
    ("received", "accepted", "came_to"),
    [
        (None, None, ", which never received it"),
        (450, None, ", which had not received it by then"),
        (210, None, ", which received and did not accept it by then"),
        (210, 220, ""),
    ],
)
def test_a_node_that_stopped_itself_shows_the_message_that_stopped_it_and_what_became_of_what_it_lacks(
    received: int | None, accepted: int | None, came_to: str
) -> None:
    commit = SentMessage(1, 3, content("COMMIT"), 310, 390)
    messages = [
        SentMessage(1, 3, content("PROPOSE"), 205, received),
        SentMessage(1, 3, content("PING", SIX), 311, 395),
        commit,
    ]
    steps = [NodeStep(200, 1, "broadcast", 1, SEVEN, SEVEN)]
    steps += [NodeStep(accepted, 3, "accept", 1, SEVEN, SEVEN)] if accepted else []
    diagram = Diagram(Exchange(Messages(messages)), NodeSteps(steps))
    chain = chain_by_hand("stopped", stopped(3, 400, "COMMIT up to 1:7, beyond 1:6"), diagram=diagram)
    assert told(chain)[-2:] == ["node 1 sent COMMIT 1:7 to node 3, the last message before it stopped", STOPPED]
    chain = chain_by_hand("beyond 1:7", stopped(3, 400, "COMMIT up to 1:7, beyond 1:6"), diagram=diagram)
    proposed = f"node 1 sent PROPOSE 1:7 to node 3{came_to}"
    became = ["node 3 accepted 1:7, durably"] if accepted else []
    last = "node 1 sent COMMIT 1:7 to node 3, the last message before it stopped"
    assert told(chain) == ["node 1 broadcast 1:7", proposed, *became, last, STOPPED]
    chain = chain_by_hand(
        "digests", stopped(3, 400, "digest of the history is 1 here but 2 at node 1"), diagram=diagram
    )
    assert "node 1 sent PING 1:6 to node 3, the last message before it stopped" in told(chain)


def test_a_message_that_was_dropped_is_shown_with_the_reason() -> None:
    diagram = by_hand(accepted=270)
    why = "not expected in FOLLOWING, SYNCHRONIZATION"
    diagram.exchange.drops += [
        Drop(1, 2, content("COMMIT"), 390, why), Drop(1, 2, content("COMMIT", EIGHT), 450, why),
    ]  # fmt: skip
    chain = chain_by_hand("1:7 was lost", looks(2, 400), diagram=diagram)
    assert told(chain)[-3:] == [
        COMMIT, f"node 2 received COMMIT 1:7 and dropped it: {why}", "node 2 (life 1) became LOOKING"
    ]  # fmt: skip
    assert not any("dropped" in words for words in told(chain_by_hand("1:7 was lost", looks(2, 380), diagram=diagram)))


# ---- fences and multis ----


def test_a_fence_is_not_the_request_behind_which_it_stands() -> None:
    diagram = by_hand(accepted=270)
    diagram.owners = Columns(2)
    diagram.fences = Columns(3, [(SEVEN, 4, 9)])
    chain = chain_by_hand("the write of client 4, seq 9 was lost", looks(2, 400), diagram=diagram)
    assert chain.zxids == [SEVEN]
    assert told(chain)[:2] == [WRITE[0], "node 1 broadcast 1:7, a fence for client 4, seq 9"]
    assert not any("forwarded" in words for words in told(chain))
    assert told(chain_by_hand("1:7 was lost", looks(2, 400), diagram=diagram))[0] == WRITE[0]
    diagram.steps = NodeSteps([NodeStep(200, 1, "broadcast", 1, SIX, SEVEN)])
    chain = chain_by_hand("1:7 was lost", looks(2, 400), diagram=diagram)
    assert "node 1 broadcast 1:6 to 1:7; 1:7 is a fence for client 4, seq 9" in told(chain)


def test_a_cited_broadcast_says_what_the_transactions_concerned_do() -> None:
    multi = [4, 8, [["create", "/b/0000000004", 0, 1], ["delete", "/c", None, None]]]
    cited = broadcast(1, 195, [4, 7, [["set", "/a", 1, 2]]], multi, [4, 9, [["fence", "", None, None]]], first=5)
    words = "node 1 (life 1) broadcast 1:5 to 1:7 (3 transactions)"
    does = "1:6 is create /b/0000000004, delete /c of client 4, seq 8"
    assert told(chain_by_hand("1:6 creates /b/0000000004", cited))[-1] == f"{words}; {does}"
    assert f"{words}; {does}; 1:7 is a fence for client 4, seq 9" in told(chain_by_hand("1:6 and 1:7", cited))
