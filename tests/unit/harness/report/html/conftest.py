from pathlib import Path

import pytest

from tests.corpus.story import Story


@pytest.fixture
def told() -> Story:
    """Three nodes; the leader 3 is killed, node 2 leads epoch 2, node 1's disk is lost, node 3 is paused; ten writes."""
    story = Story(verdict="PASS")
    story.start()
    story.elect(3, 1)
    story.milestone("workload-started")
    story.write(4)
    story.crash(3, heal=False)
    story.elect(2, 2)
    story.write(3)
    story.heal()
    story.boot(3)
    story.join(3)
    story.inject("pause", [3])
    story.event(1, "link", peer=3, state="closed", session=1, why="silent")
    story.heal()
    story.wipe(1)
    story.boot(1, "amnesiac")
    story.join(1)
    story.inject("partition", [2], pairs=[[2, 1], [2, 3]])
    story.heal()
    story.write(3)
    story.settle()
    return story


@pytest.fixture
def folder(told: Story, tmp_path: Path) -> Path:
    """The same run as a folder; it was not judged."""
    path = tmp_path / "run"
    told.save(path)
    return path
