"""Every measurement in a tiny form, on real processes. Checks that it gives figures, not how large they are."""

from pathlib import Path

import psutil
import pytest

from benchmarks import pipeline
from benchmarks.against import pairs, picture
from benchmarks.figures import Scale
from zab_chaos.harness.bench import MEASUREMENTS, measure
from zab_chaos.harness.errors import HarnessError

TINY = Scale(
    nodes=3,
    keys=4,
    payload=64,
    outstanding=20,
    rounds=1,
    writes=100,
    warm_up=20,
    single=20,
    starts=1,
    failovers=1,
    history=200,
    judged=500,
    frames_seconds=0.05,
    sizes=(1, 3),
    payloads=(16, 4096),
    simulated=5.0,
    events=(),
    campaign=2,
)
COST_OF = pipeline.cost_of
MARKS = {"containers": "containers", "against": "zookeeper"}
SIDE_BY_SIDE = [
    "start", "throughput at the leader", "servers' processor time at the leader", "client's processor time at the leader",
    "throughput at a follower", "servers' processor time at a follower", "client's processor time at a follower",
    "latency at a follower p50", "latency at a follower p99", "memory of the leader", "fail-over p50", "fail-over max",
]  # fmt: skip
FIGURES = {
    "throughput": ["leader", "leader p50", "follower", "follower p50"],
    "latency": ["leader p50", "leader p99", "follower p50", "follower p99", "disk fdatasync p50"],
    "start": ["first acknowledged write"],
    "fixture": ["processes first acknowledged write", "sim first acknowledged write"],
    "failover": ["first commit p50", "first commit max", "client's answer p50", "client's answer max"],
    "oracle": ["one core", "one core, whole runs"],
    "replay": ["one core"],
    "world": ["10 writes/s", "100 writes/s"],
    "curve": ["1 KiB plain", "1 KiB CURVE", "64 KiB plain", "64 KiB CURVE"],
    "pipeline": [
        "2 simulated runs",
        "2 simulated runs: processor",
        "2 simulated runs: memory at most",
    ],
    "containers": ["processes", "containers"],
    "sizes": ["1 nodes", "1 nodes: busy", "3 nodes", "3 nodes: busy"],
    "payloads": ["16 bytes", "16 bytes: busy", "4096 bytes", "4096 bytes: busy"],
}


@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=getattr(pytest.mark, MARKS[name]) if name in MARKS else ()) for name in MEASUREMENTS],
)
def test_a_measurement_gives_figures_and_leaves_nothing_behind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "pipeline":
        monkeypatch.setattr(pipeline, "cost_of", without_spark)
    report = measure([name], TINY, tmp_path, f"zab bench --only {name}", lambda words: None)
    measured = report["measurements"][name]
    if measured["lacking"] is not None:
        pytest.skip(measured["lacking"])
    figures = measured["figures"]
    names = [figure["name"] for figure in figures]
    if name == "memory":
        assert len(names) == 1 + 2 * TINY.nodes
        assert sum("(leader)" in each for each in names) == 2
    elif name == "against":
        found = pairs(report)
        assert sorted(what for what, _, _ in found) == sorted(SIDE_BY_SIDE)
        assert {len(figures) for _, _, figures in found} == {2}
        assert picture(report) is not None
    else:
        assert names == FIGURES[name]
    assert all(figure["value"] > 0 for figure in figures)
    assert list(tmp_path.iterdir()) == []
    assert [child.cmdline() for child in psutil.Process().children() if "node" in child.cmdline()] == []


def without_spark(*arguments: str) -> pipeline.CallCost:
    """The cost of the same call where there is nothing to analyze: it ends before Spark starts, which takes a minute."""
    assert len(list(Path(arguments[1]).rglob("run.json"))) == TINY.campaign
    nothing = Path(arguments[1]).parent / "nothing"
    nothing.mkdir()
    with pytest.raises(
        HarnessError,
        match=r"ended with 4, so this measures nothing:\nlooking for runs\n.*there is no run\.json in or below",
    ):
        COST_OF(arguments[0], str(nothing), *arguments[2:])
    return COST_OF("results", "--results", str(nothing))
