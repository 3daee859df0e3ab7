"""A small run whose every number can be worked out on paper. Times are milliseconds since the first line.

Node 1 leads epoch 1. It dies at 2000 ms with two transactions that nobody else has; node 2 leads epoch 2 from 2500 ms on.
Node 1 comes back and has to cut them off, node 3 gets a snapshot.
"""

import json
from pathlib import Path
from typing import Any

from zab_chaos.node.core import digest as dg

MS = 1_000_000
ZERO = 1_000_000_000


class Pages:
    """Lines by file, written in any order of nodes."""

    def __init__(self) -> None:
        self.lines: dict[str, list[dict[str, Any]]] = {}

    def event(self, ms: float, node: int, event: str, life: int = 1, **fields: Any) -> None:
        file = self.lines.setdefault(f"trace/node-{node}-{life}.jsonl", [])
        common = {"t": round(ZERO + ms * MS), "node": node, "life": life, "n": len(file) + 1, "event": event}
        file.append(common | fields)

    def line(self, ms: float, file: str, **fields: Any) -> None:
        self.lines.setdefault(file, []).append({"t": round(ZERO + ms * MS), **fields})

    def save(self, folder: Path) -> None:
        (folder / "trace").mkdir(parents=True)
        said = {
            "run": "hand",
            "scenario": "hand",
            "seed": 1,
            "nodes": 3,
            "outcome": "finished",
            "command": "zab run hand",
        }
        (folder / "run.json").write_text(json.dumps(said))
        for name, lines in self.lines.items():
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def handmade() -> Pages:
    pages = Pages()
    _first_epoch(pages)
    _writes(pages)
    _second_epoch(pages)
    _back_again(pages)
    _clients(pages)
    _harness(pages)
    return pages


def _boot(pages: Pages, ms: float, node: int, life: int = 1, epoch: int = 0, last: tuple[int, int] = (0, 0)) -> None:
    disk = "fresh" if life == 1 else "recovered"
    pages.event(
        ms, node, "boot", life, disk=disk, accepted_epoch=epoch, current_epoch=epoch, last_zxid=last,
        snapshot_zxid=[0, 0], pid=10 * node + life,
    )  # fmt: skip


def _work(pages: Pages, ms: float, node: int, frames: int, syncs: int, life: int = 1, **messages: int) -> None:
    pages.event(ms, node, "work", life, frames=frames, messages=messages, syncs=syncs)


def _batch(pages: Pages, ms: float, node: int, event: str, zxid: tuple[int, int], count: int, **fields: Any) -> None:
    digests = dg.show_all([1000 * zxid[0] + zxid[1] + i for i in range(count)])
    pages.event(ms, node, event, epoch=zxid[0], first=zxid[1], digests=digests, **fields)


def _first_epoch(pages: Pages) -> None:
    """Node 1 looks from 10 ms on, leads at 30 ms, is established at 60 ms: it voted in rounds 1 and 2. Sent: 4 + 3 votes."""
    for node in (1, 2, 3):
        _boot(pages, node, node)
    pages.event(10, 1, "role", role="LOOKING", leader=None, why="start")
    pages.event(10.1, 1, "vote", round=1, leader=1, zxid=[0, 0], epoch=0)
    pages.event(10.2, 2, "role", role="LOOKING", leader=None, why="start")
    _work(pages, 11, 1, 2, 0, VOTE=2)
    pages.event(20, 1, "vote", round=2, leader=1, zxid=[0, 0], epoch=0)
    pages.event(30, 1, "role", role="LEADING", leader=1, why="elected")
    _work(pages, 31, 1, 4, 0, VOTE=4)
    pages.event(32, 2, "role", role="FOLLOWING", leader=1, why="elected")
    _work(pages, 33, 2, 3, 0, VOTE=3)
    for ms, node in ((40, 1), (42, 2)):
        pages.event(ms, node, "accepted_epoch", epoch=1, leader=1)
        pages.event(ms + 5, node, "phase", phase="SYNCHRONIZATION", epoch=1)
        pages.event(ms + 10, node, "current_epoch", epoch=1, last_zxid=[0, 0])
    pages.event(60, 1, "established", epoch=1, last_zxid=[0, 0], quorum=[1, 2])
    for node in (1, 2):
        pages.event(61, node, "phase", phase="BROADCAST", epoch=1)


def _writes(pages: Pages) -> None:
    """Three batches of 1, 4 and 2 transactions; nobody but node 1 has the third. Node 3 joins late and takes the first five
    as a difference: from 500 ms, when it follows, to 520 ms."""
    for ms, first, count in ((100, 1, 1), (200, 2, 4)):
        _batch(pages, ms, 1, "broadcast", (1, first), count, delivered=[1, first - 1] if first > 1 else [0, 0])
        for node in (1, 2):
            _batch(pages, ms + 2 + node, node, "accept", (1, first), count, in_epoch=1)
        for node in (1, 2):
            _batch(pages, ms + 10 + node, node, "deliver", (1, first), count, digest="0" * 16, tree="0" * 16)
    _batch(pages, 1990, 1, "broadcast", (1, 6), 2, delivered=[1, 5])
    _batch(pages, 1992, 1, "accept", (1, 6), 2, in_epoch=1)
    _work(pages, 1995, 1, 20, 6, VOTE=5, PROPOSE=6, COMMIT=4)
    pages.event(490, 3, "role", role="LOOKING", leader=None, why="start")
    pages.event(500, 3, "role", role="FOLLOWING", leader=1, why="elected")
    pages.event(502, 3, "accepted_epoch", epoch=1, leader=1)
    pages.event(505, 3, "phase", phase="SYNCHRONIZATION", epoch=1)
    pages.event(507, 3, "snapshot", kind="taken", zxid=[0, 0], digest="0" * 16)
    _batch(pages, 510, 3, "accept", (1, 1), 5, in_epoch=1)
    pages.event(520, 3, "current_epoch", epoch=1, last_zxid=[1, 5])
    pages.event(521, 3, "phase", phase="BROADCAST", epoch=1)
    _batch(pages, 522, 3, "deliver", (1, 1), 5, digest="0" * 16, tree="0" * 16)
    _work(pages, 523, 3, 9, 3, VOTE=1, ACK=2)


def _second_epoch(pages: Pages) -> None:
    """Node 2 looks from 2300 ms on and is established at 2500 ms. Sent meanwhile: 5 votes by node 2, which had sent 3, and 2 by
    node 3, which had sent 1."""
    for node in (2, 3):
        pages.event(2300, node, "role", role="LOOKING", leader=None, why="leader lost")
    pages.event(2301, 2, "vote", round=3, leader=2, zxid=[1, 5], epoch=1)
    _work(pages, 2302, 2, 12, 4, VOTE=6, ACK=2)
    pages.event(2400, 2, "role", role="LEADING", leader=2, why="elected")
    pages.event(2400, 3, "role", role="FOLLOWING", leader=2, why="elected")
    _work(pages, 2401, 2, 14, 4, VOTE=8, ACK=2)
    _work(pages, 2402, 3, 12, 3, VOTE=3, ACK=2)
    for node in (2, 3):
        pages.event(2410, node, "accepted_epoch", epoch=2, leader=2)
        pages.event(2420, node, "phase", phase="SYNCHRONIZATION", epoch=2)
    pages.event(2430, 2, "current_epoch", epoch=2, last_zxid=[1, 5])
    pages.event(2435, 3, "snapshot", kind="installed", zxid=[1, 5], digest="0" * 16, bytes=512)
    pages.event(2440, 3, "current_epoch", epoch=2, last_zxid=[1, 5])
    pages.event(2500, 2, "established", epoch=2, last_zxid=[1, 5], quorum=[2, 3])
    for node in (2, 3):
        pages.event(2501, node, "phase", phase="BROADCAST", epoch=2)
    _batch(pages, 2600, 2, "broadcast", (2, 1), 1, delivered=[1, 5])
    for node in (2, 3):
        _batch(pages, 2602, node, "accept", (2, 1), 1, in_epoch=2)
        _batch(pages, 2610, node, "deliver", (2, 1), 1, digest="0" * 16, tree="0" * 16)
    _work(pages, 2700, 2, 20, 6, VOTE=8, ACK=2, PROPOSE=1, COMMIT=1, ANSWER=3)
    _work(pages, 2700, 3, 15, 5, VOTE=3, ACK=3)


def _back_again(pages: Pages) -> None:
    """Node 1 follows at 3010 ms, cuts 1:6 and 1:7 off, takes 2:1, and has epoch 2 at 3030 ms."""
    _boot(pages, 3000, 1, 2, 1, (1, 7))
    pages.event(3005, 1, "role", 2, role="LOOKING", leader=None, why="start")
    pages.event(3010, 1, "role", 2, role="FOLLOWING", leader=2, why="elected")
    pages.event(3012, 1, "accepted_epoch", 2, epoch=2, leader=2)
    pages.event(3015, 1, "phase", 2, phase="SYNCHRONIZATION", epoch=2)
    pages.event(3020, 1, "truncate", 2, keep=[1, 5], last=[1, 7])
    pages.event(3025, 1, "accept", 2, epoch=2, first=1, digests=dg.show_all([2001]), in_epoch=2)
    pages.event(3030, 1, "current_epoch", 2, epoch=2, last_zxid=[2, 1])
    pages.event(3031, 1, "phase", 2, phase="BROADCAST", epoch=2)
    _work(pages, 3040, 1, 4, 2, 2, VOTE=1, FORWARD=2)
    pages.event(3120, 3, "fault", do="clock-jump", state="fired", detail="500 ms")
    pages.event(3250, 1, "exit", 2, code=0, why="")


# due, answered, op, outcome, zxid. The latencies of what succeeded: 10, 20, 300, 620 (writes) and 5 (read) ms.
ASKED = (
    (100, 110, "set", "ok", (1, 1)),
    (200, 220, "set", "ok", (1, 5)),
    (700, 705, "get", "ok", (1, 5)),
    (1000, 1001, "check", "failed", None),
    (2000, 2620, "set", "ok", (2, 1)),
    (2100, None, "set", None, None),
    (2200, 2250, "set", "unknown", None),
    (2400, 2700, "create", "ok", (2, 1)),
)


def _clients(pages: Pages) -> None:
    lines: list[tuple[float, dict[str, Any]]] = []
    for seq, (due, answered, op, outcome, zxid) in enumerate(ASKED, 1):
        common = {"client": 1, "seq": seq, "node": 1}
        asked = {"type": "invoke", "due": ZERO + due * MS, "op": op, "path": "/a"}
        lines.append((due + 1, asked | common))  # sent a millisecond late: latency counts from the due time
        if answered is not None:
            told = {"type": "complete", "outcome": outcome, "zxid": zxid}
            lines.append((answered, told | common))
    for ms, fields in sorted(lines, key=lambda line: line[0]):
        pages.line(ms, "ops.jsonl", **fields)


def _harness(pages: Pages) -> None:
    """Node 3 has no role at 300 ms, and looks for a leader at 495. Node 1 starts again at 3002 ms. It is down at 2800 and
    3300 ms, node 2 at 3200 ms, node 3 at 3300 ms."""
    common = {"type": "inject", "target": "leader", "params": {}, "confirmed": True, "evidence": {}}
    pages.line(300, "faults.jsonl", id=1, do="slow-disk", nodes=[3], **common)
    pages.line(495, "faults.jsonl", id=2, do="slow-disk", nodes=[3], **common)
    pages.line(
        2000, "faults.jsonl", id=3, do="crash", nodes=[1], **common | {"evidence": {"1": {"pid": 11, "exit": -9}}}
    )
    pages.line(2800, "faults.jsonl", id=4, do="slow-disk", nodes=[1], **common)
    pages.line(3002, "faults.jsonl", id=5, do="slow-disk", nodes=[1], **common)
    pages.line(3200, "faults.jsonl", id=6, do="slow-disk", nodes=[1, 2, 3], **common)
    pages.line(3210, "faults.jsonl", id=7, do="stop", nodes=[3], **common | {"evidence": {"3": {"pid": 31, "exit": 0}}})
    pages.line(3300, "faults.jsonl", id=8, do="slow-disk", nodes=[1, 2, 3], **common)
    pages.line(3000, "faults.jsonl", type="heal", id=3, confirmed=True, evidence={})
    pages.line(50, "harness.jsonl", event="workload-started")
    pages.line(3150, "harness.jsonl", event="ended", node=2)
    pages.line(3500, "harness.jsonl", event="workload-stopped")
    pages.line(3600, "harness.jsonl", event="safety-ended")
    pages.line(3850, "harness.jsonl", event="converged", zxid=[2, 1], seconds=0.25)
