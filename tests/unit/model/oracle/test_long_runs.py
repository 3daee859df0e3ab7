"""The judge's work grows with the length of a run, and not with its square."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import zab_chaos.model.oracle
from tests.corpus.story import Story, digest, ensemble
from zab_chaos.model.oracle.oracle import judge

ORACLE = str(Path(zab_chaos.model.oracle.__file__).parent)
SECOND = 1_000_000_000


def long_run(folder: Path, epochs: int) -> Path:
    """Write a run with so many epochs, in each of which node 3 is killed, and as many clients."""
    story = ensemble(3, 1, links_are_reliable=True, progress_within=15, min_acked=1)
    for epoch in range(2, epochs + 2):
        story.take_snapshot(3)
        seq = story.invoke(epoch)
        zxid = story.propose(to=[1, 2], of=(epoch, seq))
        story.servers[3].log.append((zxid, digest(zxid)))  # on the disk, and killed before it could trace that
        for node in (1, 2):
            story.deliver(node, zxid)
        story.complete(epoch, seq, zxid)
        story.inject("clock-rate", [3], params={"rate": 2})
        story.event(3, "fault", do="clock-rate", state="armed", detail="2")
        story.event(3, "fault", do="clock-rate", state="lifted", detail="1")
        story.heal()
        story.inject("pause", [3])
        story.heal(evidence={"awake": [3]})
        story.crash(3)
        story.boot(3)
        for node in (1, 2):
            story.event(node, "role", role="LOOKING", leader=None, why="the leader was lost")
            story.event(node, "phase", phase="ELECTION", epoch=epoch - 1)
        reconnect(story, session=epoch)
        story.elect(1 + epoch % 2, epoch)
        story.write(1)
    story.event(3, "role", role="LOOKING", leader=None, why="the leader was lost")
    story.event(3, "phase", phase="ELECTION", epoch=epochs + 1)
    story.inject("stall", [3])
    story.t += 20 * SECOND
    story.heal()
    story.join(3)
    story.settle()
    story.save(folder)
    return folder


def reconnect(story: Story, session: int) -> None:
    """Close and open all links."""
    for node in (1, 2, 3):
        for peer in {1, 2, 3} - {node}:
            if peer in story.open_sessions.get((node, story.servers[node].life), {}):
                frames = {"incarnation": story.servers[peer].life - (peer == 3), "session": session - 1}
                story.event(node, "channel", peer=peer, **frames, first=0, last=9, ended="closed")
                story.event(node, "link", peer=peer, state="closed", session=session - 1, why="the peer was lost")
            story.event(node, "link", peer=peer, state="opened", session=session, why="")


def lines_executed(work: Callable[[], Any]) -> dict[str, int]:
    """Return how many lines of each function of the judge are executed."""
    found: dict[str, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ORACLE):
            return None
        if event == "line":
            name = f"{Path(frame.f_code.co_filename).name} {frame.f_code.co_name} {frame.f_code.co_firstlineno}"
            found[name] = found.get(name, 0) + 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return found


@pytest.mark.slow
def test_four_times_the_run_is_four_times_the_work(tmp_path: Path) -> None:
    short, long = (long_run(tmp_path / str(epochs), epochs) for epochs in (15, 60))
    before, after = (lines_executed(partial(judge, folder)) for folder in (short, long))
    assert {
        name: (before.get(name, 0), count) for name, count in after.items() if count > 7 * max(before.get(name, 0), 100)
    } == {}
    assert sum(after.values()) < 4.6 * sum(before.values())
