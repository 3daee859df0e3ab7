"""The frame of `zab bench`: choice of measurements, figures, report. The measurements are tested in tests/integration."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.figures import QUICK, Figure, Scale, median, percentile
from benchmarks.load import ClosedLoop
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness import bench
from zab_chaos.harness.bench import MEASUREMENTS, Measurement, measure, store
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.cli.bench import bench as run_bench
from zab_chaos.harness.cli.bench import chosen_names, show, shown
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.core import Operation, Then
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.node.core.zxid import zxid
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.requests import Request


def test_without_names_all_but_the_long_measurements_are_chosen() -> None:
    assert chosen_names([], full=False) == [
        "throughput",
        "latency",
        "start",
        "fixture",
        "failover",
        "memory",
        "oracle",
        "replay",
        "world",
        "curve",
        "containers",
    ]
    assert chosen_names([], full=True) == list(MEASUREMENTS)


def test_named_measurements_are_chosen_in_order_including_long_ones() -> None:
    assert chosen_names(["sizes", "latency"], full=False) == ["latency", "sizes"]


def test_all_wrong_names_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="Did you mean latency") as caught:
        chosen_names(["latencie", "start", "oracel"], full=False)
    assert "Did you mean oracle" in str(caught.value)
    assert main(["bench", "--only", "latencie"]) == 4
    assert "Did you mean latency" in capsys.readouterr().err


def test_median_keeps_its_rounds() -> None:
    assert median("x", "s", [3.0, 1.0, 2.0]) == Figure(name="x", value=2.0, unit="s", rounds=[3.0, 1.0, 2.0])


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_percentiles(percent: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_there_is_no_percentile_of_no_values() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_quick_is_less_of_the_same() -> None:
    assert QUICK.nodes == Scale().nodes
    assert QUICK.writes < Scale().writes
    assert QUICK.history < Scale().history


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "0.123"), (1.234, "1.23"), (99.994, "99.99"), (123.4, "123"), (1234567, "1,234,567")]
)
def test_numbers_are_shown_with_significant_digits(value: float, text: str) -> None:
    assert shown(value) == text


@pytest.fixture
def one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(folder: Path, scale: Scale) -> list[Figure]:
        assert folder.is_dir()
        return [median("first", "ms", [1.0, 5.0, 2.0]), Figure(name="second", value=scale.nodes, unit="")]

    one = Measurement(name="one", about="a test's own", measure=figures)
    monkeypatch.setattr(bench, "MEASUREMENTS", {"one": one})


@pytest.mark.usefixtures("one_measurement")
def test_the_report_is_complete(tmp_path: Path) -> None:
    heard: list[str] = []
    report = measure(["one"], Scale(), tmp_path / "results", "zab bench --only one", heard.append)
    assert heard == ["one: a test's own"]
    path = store(report, tmp_path / "results")
    assert path.parent == tmp_path / "results" / "summaries"
    read = json.loads(path.read_text())
    assert read["command"] == "zab bench --only one"
    assert set(read["machine"]) >= {"cores", "memory", "kernel", "processor", "fdatasync_ms"}
    assert set(read["versions"]) >= {"python", "pyzmq", "zab-chaos"}
    assert len(read["load_before"]) == len(read["load_after"]) == 3
    assert read["settings"]["payload"] == 1024
    assert read["settings"]["fsync"] is True
    measured = read["measurements"]["one"]
    assert measured["figures"][0] == {"name": "first", "value": 2.0, "unit": "ms", "rounds": [1.0, 5.0, 2.0]}
    assert [figure["value"] for figure in measured["figures"]] == [2.0, 3]


@pytest.mark.usefixtures("one_measurement")
def test_the_table_shows_machine_figures_and_rounds(tmp_path: Path) -> None:
    report = measure(["one"], Scale(), tmp_path, "zab bench", lambda words: None)
    out = io.StringIO()
    show(report, Console(file=out, width=200))
    text = out.getvalue()
    assert f"{report['machine']['cores']} cores" in text
    assert "first" in text
    assert "3: 1.00 .. 5.00" in text
    assert "second" in text


def failing(times: int, error: Exception) -> Measurement:
    """A measurement that fails so often before it succeeds."""
    left = [error] * times

    def figures(folder: Path, scale: Scale) -> list[Figure]:
        if left:
            raise left.pop()
        return [Figure(name="x", value=1, unit="")]

    return Measurement(name="x", about="", measure=figures)


@pytest.mark.parametrize("error", [HarnessError("it lost its leader"), ClusterError("node 2 is silent"), OSError("no")])
def test_a_failed_measurement_is_repeated_and_mentioned(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "MEASUREMENTS", {"x": failing(1, error)})
    measured = measure(["x"], Scale(), tmp_path, "", lambda words: None)["measurements"]["x"]
    assert [figure["name"] for figure in measured["figures"]] == ["x"]
    assert measured["failed"] == [str(error)]


def test_a_failing_measurement_does_not_affect_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"x": failing(99, HarnessError("it lost its leader")), "y": failing(0, OSError())}
    monkeypatch.setattr(bench, "MEASUREMENTS", both)
    assert run_bench(["x", "y"], Scale(), tmp_path, "zab bench", json=True) == 3
    out, err = capsys.readouterr()
    measured = json.loads(out)["measurements"]
    assert measured["x"]["figures"] == []
    assert len(measured["y"]["figures"]) == 1
    assert "x: not measured: it lost its leader" in err


def test_a_measurement_without_figures_fails_after_a_few_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def nothing(folder: Path, scale: Scale) -> list[Figure]:
        tries.append(folder)
        return []

    monkeypatch.setattr(bench, "MEASUREMENTS", {"x": Measurement(name="x", about="", measure=nothing)})
    assert run_bench(["x"], Scale(), tmp_path, "zab bench", json=True) == 3
    assert len(tries) == bench.ATTEMPTS_MAX


def test_a_measurement_that_the_machine_cannot_do_is_skipped_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    assert run_bench(["containers"], Scale(), tmp_path, "zab bench", json=True) == 0
    out, err = capsys.readouterr()
    measured = json.loads(out)["measurements"]["containers"]
    assert (measured["figures"], measured["failed"]) == ([], [])
    assert f"there is no container engine at {tmp_path}/docker.sock" in measured["lacking"]
    assert "containers: skipped: there is no container engine" in err


def test_a_folder_that_cannot_be_used_is_a_clean_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(HarnessError, match="--results"):
        measure([], Scale(), file / "results", "", lambda words: None)


class Answering(Client):
    """A fake client without an ensemble: each poll answers all outstanding operations with the next outcome."""

    def __init__(self, outcomes: list[Ok | Failed | Unknown]) -> None:
        self.outcomes = outcomes
        self.waiting: list[Operation] = []
        self.most = 0

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        self.waiting.append(Operation(len(self.waiting), request, 0, then, completed_ns=2_000_000))
        self.most = max(self.most, len(self.waiting))
        return self.waiting[-1]

    def poll(self, timeout: float = 0.0) -> None:
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        answered, self.waiting = self.waiting, []
        for operation in answered:
            assert operation.then is not None
            operation.then(operation, outcome)


def test_the_loop_keeps_the_given_number_outstanding_and_counts_all() -> None:
    client = Answering([Ok(zxid(1, 1))])
    driven = ClosedLoop(client, 8).writes(20, keys=3, payload=4)
    assert client.most == 8
    assert driven.latencies_ms == [2.0] * 20
    assert driven.rate == 20 / driven.seconds


@pytest.mark.parametrize("outcome", [Failed("overloaded", "too many"), Unknown("the node is gone")])
def test_a_write_that_fails_is_not_measured(outcome: Failed | Unknown) -> None:
    with pytest.raises(HarnessError, match="measures nothing"):
        ClosedLoop(Answering([Ok(zxid(1, 1)), outcome]), 8).writes(20, keys=3, payload=4)
