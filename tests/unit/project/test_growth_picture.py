"""The picture of the pipeline's time against the number of events."""

from pathlib import Path
from xml.etree import ElementTree

from benchmarks.growth import picture, points
from zab_chaos.harness.bench import store


def report(seconds: dict[int, tuple[float, float]]) -> dict[str, object]:
    figures = [{"name": "1,000 simulated runs", "value": 9.0}]
    for events, (clock, processor) in seconds.items():
        figures.append({"name": f"{events:,} events", "value": clock})
        figures.append({"name": f"{events:,} events: processor", "value": processor})
        figures.append({"name": f"{events:,} events: memory at most", "value": 1000.0})
    return {"measurements": {"pipeline": {"figures": figures}}}


def test_points_are_the_events_figures_only() -> None:
    made = report({2_000_000: (30.0, 50.0), 1_000_000: (20.0, 35.0)})
    assert points(made) == [(1_000_000, 35.0), (2_000_000, 50.0)]
    assert points(made, "") == [(1_000_000, 20.0), (2_000_000, 30.0)]


def test_every_point_is_drawn_inside() -> None:
    made = report({1_000_000: (20.0, 35.0), 2_000_000: (30.0, 50.0), 10**7: (110.0, 200.0)})
    drawn = ElementTree.fromstring(str(picture(made)))
    circles = drawn.findall("{*}circle")
    assert len(circles) == len(drawn.findall("{*}rect")) == 3
    for circle in circles:
        assert 0 < float(circle.attrib["cx"]) < 640
        assert 0 < float(circle.attrib["cy"]) < 320
    assert any("10 + 10.0 for each million" in str(text.text) for text in drawn.findall("{*}text"))


def test_the_picture_is_written_beside_the_summary_if_there_are_points(tmp_path: Path) -> None:
    made = report({1_000_000: (20.0, 35.0), 2_000_000: (30.0, 50.0)})
    assert store(dict(made), tmp_path / "two").with_suffix(".svg").read_text() == picture(made)
    for name, less in (("one", report({1000: (1.0, 1.0)})), ("none", {"measurements": {}})):
        assert not store(dict(less), tmp_path / name).with_suffix(".svg").exists()
