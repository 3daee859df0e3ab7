"""The chain that leads to a violation: the shortest way through the messages, and what a known bug's chain says."""

from pathlib import Path

import pytest

from tests.corpus.conduct import steady_state
from tests.corpus.delivery import agreement_fork
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.chain import Chain, _Point, chain_of, shortest
from zab_chaos.harness.report.html.run_data import RunData, read_story
from zab_chaos.harness.report.messages import About, Sent
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import core_of, judge


def sent(source: int, target: int, at: int, there: int | None, kind: str = "PROPOSE", zxid: int = 0) -> Sent:
    return Sent(source, target, About(kind, 1, zxid, zxid), at, there)


def way(messages: list[Sent], zxids: list[int] | None = None, line: int = 3) -> list[int]:
    return shortest(messages, [_Point(1, 10)], _Point(line, 100), zxids or [])


def test_the_way_with_the_fewest_messages() -> None:
    round_about = [sent(1, 2, 11, 12), sent(2, 3, 13, 14)]
    assert way(round_about) == [0, 1]
    assert way([*round_about, sent(1, 3, 20, 30)]) == [2]


def test_no_way_goes_back_in_time() -> None:
    assert way([sent(1, 2, 11, 20), sent(2, 3, 19, 25)]) == []
    assert way([sent(1, 3, 9, 12)]) == []  # before the begin
    assert way([sent(1, 3, 90, 101)]) == []  # after the end
    assert way([sent(1, 3, 20, None)]) == []  # never received
    assert way([sent(1, 2, 11, 20), sent(2, 3, 20, 25)]) == [0, 1]  # at once
    assert way([sent(1, 3, 20, 20)]) == [0]  # takes no time


def test_where_one_is_already_needs_no_message() -> None:
    assert way([sent(1, 2, 11, 12), sent(2, 1, 13, 14)], line=1) == []


def test_messages_about_the_same_transaction_are_nearer_than_others_and_pings_farthest() -> None:
    direct = sent(1, 3, 20, 30, "PING")
    assert way([direct]) == [0]
    assert way([direct, sent(1, 2, 11, 12, "VOTE"), sent(2, 3, 13, 14, "VOTE")]) == [1, 2]
    ours = [sent(1, 2, 11, 12, zxid=7), sent(2, 3, 13, 14, zxid=7)]
    assert way([sent(1, 3, 20, 30), *ours], [7]) == [1, 2]


def defective(name: str, results: Path) -> RunData:
    main(["run", f"defects/{name}", "--defect", name, "--on", "sim", "--results", str(results), "--quiet"])
    folder = RunFolder((results / "latest").resolve())
    return read_story(folder.path, core_of(folder.read_run()))


def told(chain: Chain | None) -> list[str]:
    assert chain is not None
    assert [link.t for link in chain.links] == sorted(link.t for link in chain.links)
    return [link.words for link in chain.links]


def in_this_order(words: list[str], *pieces: str) -> None:
    at = 0
    for piece in pieces:
        at = next((i for i in range(at, len(words)) if piece in words[i]), -1) + 1
        assert at > 0, f"{piece!r} is not there, or not in this order: {words}"


def test_a_late_write_is_told_from_the_pause_over_both_writes_to_its_delivery(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = defective("no-fence", tmp_path)
    shown = capsys.readouterr().out
    assert run.chain is not None
    assert run.chain.fault is not None
    assert (run.chain.fault.do, run.chain.fault.nodes) == ("pause", [2])
    in_this_order(
        told(run.chain), "client 2 asked node 2", "client 2 asked node 3", "node 3 (life 1) broadcast 1:299",
        "the pause of follower = 2 ended", "node 2 forwarded client 2's seq 35 to node 3", "node 3 delivered 1:308",
    )  # fmt: skip
    assert "The last fault before it: pause of follower = 2, at 2.000 s." in shown
    assert "node 3 delivered 1:308" in shown


def test_an_ack_without_a_durable_step_is_told(tmp_path: Path) -> None:
    """The bug is that nothing stands between PROPOSE and ACK."""
    words = told(defective("ack-before-sync", tmp_path).chain)
    in_this_order(words, "node 3 broadcast", "sent PROPOSE", "sent ACK", "node 3 (life 1) delivered")
    at = next(i for i, one in enumerate(words) if "sent PROPOSE" in one)
    assert "sent ACK" in words[at + 1]


def test_what_the_links_name_is_there(tmp_path: Path) -> None:
    run = defective("ack-ld-before-sync", tmp_path)
    assert run.chain is not None
    diagram = run.diagram
    for link in run.chain.links:
        if link.message is not None:
            assert diagram.exchange.messages[link.message].sent == link.t
        if link.step is not None:
            assert diagram.steps[link.step].t == link.t
    assert any(link.message is not None for link in run.chain.links)
    shown = run.as_json()["chain"]
    assert shown["begin"] < shown["end"]
    assert len(shown["messages"]) == sum(link.message is not None for link in run.chain.links)


def test_a_run_that_was_not_recorded_has_a_chain_without_messages(tmp_path: Path) -> None:
    story = agreement_fork()
    story.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    run = read_story(tmp_path)
    assert run.judged.verdict is not None
    chain = chain_of(run.judged.verdict, run.diagram, run.spans)
    assert chain is not None
    assert told(chain)
    assert all(link.message is None for link in chain.links)


def test_a_run_that_passed_has_none(tmp_path: Path) -> None:
    steady_state().save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    run = read_story(tmp_path)
    assert run.chain is None
    assert run.as_json()["chain"] is None
