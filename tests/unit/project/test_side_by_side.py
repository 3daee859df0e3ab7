"""The comparison of our nodes with ZooKeeper's: pairing, drawing and documenting the figures."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.against import pairs, picture
from docs import generate
from zab_chaos.harness.bench import store
from zab_chaos.harness.cli.app import main

BOTH = {"zab-chaos": 30_000.0, "ZooKeeper 3.9.4": 7500.0}


def report(**values: dict[str, float]) -> dict[str, Any]:
    figures = [
        {"name": f"{what}, {who}", "value": value, "unit": "writes/s", "rounds": [value, value * 2]}
        for what, by in values.items()
        for who, value in by.items()
    ]
    machine = {"processor": "P", "cores": 2, "memory": 2**30, "kernel": "Linux 6", "fdatasync_ms": 1.0}
    return {
        "command": "zab bench --against zookeeper", "started": "2026-11-22", "machine": machine, "load_before": [0.1],
        "versions": {"python": "3.11"}, "measurements": {"against": {"figures": figures}},
    }  # fmt: skip


def test_measurements_of_both_systems_are_in_one_row() -> None:
    rows = pairs(report(throughput=BOTH, memory={"zab-chaos": 90.0}))
    assert [(what, unit, list(figures)) for what, unit, figures in rows] == [
        ("throughput", "writes/s", list(BOTH)),
        ("memory", "writes/s", ["zab-chaos"]),
    ]


def test_bars_are_as_long_as_their_values_and_all_is_inside() -> None:
    drawn = ElementTree.fromstring(
        str(picture(report(throughput=BOTH, other={"zab-chaos": 1.0, "ZooKeeper 3.9.4": 2.0})))
    )
    bars = [(float(bar.attrib["width"]), float(bar.attrib["y"])) for bar in drawn.findall("{*}rect")]
    assert [bars[0][0] / bars[1][0], bars[2][0] / bars[3][0]] == [
        pytest.approx(4, rel=0.01),
        pytest.approx(0.5, rel=0.01),
    ]
    height = float(drawn.attrib["viewBox"].split()[3])
    assert all(0 < y < height for _, y in bars)
    texts = [str(text.text) for text in drawn.findall("{*}text")]
    assert "30,000 writes/s" in texts
    assert "throughput" in texts


def test_nothing_is_drawn_of_another_report(tmp_path: Path) -> None:
    assert picture({"measurements": {}}) is None
    assert not store({"measurements": {}}, tmp_path / "no").with_suffix(".svg").exists()
    assert store(report(throughput=BOTH), tmp_path / "yes").with_suffix(".svg").exists()


def test_the_table_for_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    (tmp_path / "bench.json").write_text(json.dumps(report(throughput=BOTH)))
    made = generate.side_by_side("../bench.json")
    assert "| throughput | writes/s | 30,000 (30,000 to 60,000) | 7,500 (7,500 to 15,000) |" in made
    assert "![zab-chaos and ZooKeeper 3.9.4, side by side](../bench.svg)" in made


def test_there_is_nobody_else_to_be_measured_against(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--against", "etcd"]) == 4
    assert "--against is 'etcd'; the only system to measure against is zookeeper" in capsys.readouterr().err
