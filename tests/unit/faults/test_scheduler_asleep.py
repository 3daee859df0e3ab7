"""What is wrong inside a node that another fault has paused is mended when it wakes up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.scheduler import Scheduler


def test_a_disk_is_mended_when_its_node_wakes_up(sleepers: Callable[..., Any], tmp_path: Path) -> None:
    cluster = sleepers(3)
    steps = [
        FaultStep(at=0.0, do="slow-disk", target="node-1", lasts=1.0, params={"ms": 5}),
        FaultStep(at=0.5, do="pause", target="node-1", lasts=4.0, params={}),
    ]
    with Scheduler(cluster, None, steps, 1, tmp_path / "faults.jsonl") as scheduler:
        scheduler.begin(0.0)
        scheduler.due(0.0)
        scheduler.due(0.5)
        wish = scheduler.due(1.1)
        assert [run.step.do for run in scheduler.active] == ["slow-disk", "pause"]
        assert wish is not None
        assert 1.1 < wish < 2.0  # it looks again soon
        scheduler.due(4.6)
        scheduler.due(4.7)
        assert scheduler.active == []
        assert all(run.recovered is not None and run.recovered.confirmed for run in scheduler.runs)
