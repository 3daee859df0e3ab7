"""The chain of events that leads to a violation, for known bugs: it shows how the bug works."""

from pathlib import Path

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report import ci, summary
from zab_chaos.harness.report.chain import Chain
from zab_chaos.harness.report.html.run_data import RunData, read_run_data
from zab_chaos.harness.report.recording import core_of
from zab_chaos.harness.report.summary import events_before
from zab_chaos.harness.results.run_folder import RunFolder


def defective(name: str, results: Path) -> RunData:
    main(["run", f"defects/{name}", "--defect", name, "--on", "sim", "--results", str(results), "--quiet"])
    folder = RunFolder((results / "latest").resolve())
    return read_run_data(folder.path, core_of(folder.read_run()))


def told(chain: Chain | None) -> list[str]:
    assert chain is not None
    assert [event.t for event in chain.events] == sorted(event.t for event in chain.events)
    return [event.words for event in chain.events]


def in_this_order(words: list[str], *pieces: str) -> None:
    at = 0
    for piece in pieces:
        at = next((i for i in range(at, len(words)) if piece in words[i]), -1) + 1
        assert at > 0, f"{piece!r} is not there, or not in this order: {words}"


def test_the_chain_of_a_late_write_leads_from_the_pause_over_both_writes_to_its_delivery(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = defective("no-fence", tmp_path)
    shown = capsys.readouterr().out
    assert run.chain is not None
    assert run.chain.fault is not None
    assert (run.chain.fault.do, run.chain.fault.nodes) == ("pause", [2])
    in_this_order(
        told(run.chain), "to node 2 (seq 35)", "to node 3 (seq 83)", "node 3 (life 1) broadcast 1:299",
        "the pause of follower = 2 ended", "node 2 forwarded client 2's request (seq 35) to node 3", "node 3 delivered 1:308",
    )  # fmt: skip
    requests = [event.request for event in run.chain.events if event.request is not None]
    assert run.as_json()["chain"]["requests"] == requests != []
    assert "The last fault before it: pause of follower = 2, at 2.000 s." in shown
    assert "node 3 delivered 1:308" in shown


def test_the_chain_shows_an_ack_without_a_durable_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is that no durable step comes between PROPOSE and ACK. The terminal shows both, if it takes no long time."""
    words = told(defective("ack-before-sync", tmp_path).chain)
    folder = RunFolder((tmp_path / "latest").resolve())
    verdict = folder.read_verdict()
    assert verdict is not None
    assert "sent ACK" in "\n".join(events_before(folder, verdict))
    monkeypatch.setattr(summary, "RECORDING_MAX", 1000)
    assert "sent ACK" not in "\n".join(events_before(folder, verdict))
    in_this_order(words, "node 3 broadcast", "sent PROPOSE", "sent ACK", "node 3 (life 1) delivered")
    at = next(i for i, one in enumerate(words) if "sent PROPOSE" in one)
    assert "sent ACK" in words[at + 1]


def test_the_messages_and_steps_that_the_chain_refers_to_exist(tmp_path: Path) -> None:
    run = defective("ack-ld-before-sync", tmp_path)
    assert run.chain is not None
    diagram = run.diagram
    for event in run.chain.events:
        if event.message is not None:
            assert diagram.exchange.messages[event.message].sent == event.t
        if event.step is not None:
            assert diagram.steps[event.step].t == event.t
    assert any(event.message is not None for event in run.chain.events)
    shown = run.as_json()["chain"]
    assert shown["begin"] < shown["end"]
    assert len(shown["messages"]) == sum(event.message is not None for event in run.chain.events)
    assert shown["end"] == (run.chain.events[-1].t - run.zero) // 1000


@pytest.mark.parametrize("junit", [True, False])
def test_a_recording_is_re_executed_once_for_each_text_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, junit: bool
) -> None:
    monkeypatch.delenv(ci.SUMMARY_VARIABLE, raising=False)
    looked: list[str] = []
    monkeypatch.setattr(summary, "events_before", lambda folder, _: looked.append(folder.name) or [])
    words = ["defects/ack-before-sync", "--defect", "ack-before-sync", "--on", "sim", "--results", str(tmp_path)]
    report = ["--junit", str(tmp_path / "junit.xml")] if junit else []
    assert main(["run", *words, *report]) == 1
    assert len(looked) == 1 + junit
    assert main(["verify", "latest", "--results", str(tmp_path), *report]) == 1
    assert len(looked) == 2 * (1 + junit)
