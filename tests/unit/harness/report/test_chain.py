"""The chain of events that leads to a violation: the cheapest path through the messages, and runs without a chain."""

from pathlib import Path

from tests.corpus.conduct import steady_state
from tests.corpus.delivery import agreement_fork
from zab_chaos.harness.report.chain import Chain, Point, chain_of, shortest_path
from zab_chaos.harness.report.html.run_data import read_run_data
from zab_chaos.harness.report.messages import MessageContent, SentMessage
from zab_chaos.harness.runs.judgement import judge


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
