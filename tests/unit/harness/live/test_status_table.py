"""The status table and the status line of `zab up`."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.network import Traffic
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.live.status_table import EnsembleStatus, Row, StatusReader
from zab_chaos.harness.report.progress import display


def shown(rows: list[Row], broken: list[str]) -> str:
    console = Console(width=100, record=True, quiet=False, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(EnsembleStatus(rows, broken).panel())
    return capture.get()


def test_the_rows_show_roles_lag_and_heard_peers(tmp_path: Path) -> None:
    with Ensemble(on="sim", results=tmp_path, timing={"timeout_ms": 2000}) as cluster:
        leader = cluster.until_established()
        client = cluster.client(node=leader)
        client.create("/a")
        first, second = (node for node in cluster.nodes if node != leader)
        looks = StatusReader(cluster)
        assert {row.hears for row in looks.read() if row.hears is not None} == set()
        cluster.sleep(1)
        rows = {row.node: row for row in looks.read()}
        assert rows[leader].role == "leading"
        assert rows[leader].hears == sorted([first, second])
        assert rows[first].role == "following"
        assert rows[first].lag == 0
        assert rows[first].last_zxid == rows[leader].last_zxid
        assert rows[first].epoch == rows[leader].epoch

        with cluster.partition(first, shape="isolate"):
            looks.read()
            client.set("/a", b"1")
            cluster.sleep(0.5)
            row = {row.node: row for row in looks.read()}[first]
            assert row.hears == []
            assert row.lag == 1
        cluster.crash(second)
        cluster.pause(first)
        rows = {row.node: row for row in looks.read()}
        assert (rows[first].role, rows[second].role) == ("paused", "down")
        words = shown(list(rows.values()), ["node 3 killed"])
        assert "down" in words
        assert "broken: node 3 killed" in words
        assert f"{second} down" in EnsembleStatus([*rows.values()]).line()
        cluster.heal()


LED = Status(
    node=2, life=1, role="LEADING", phase="BROADCAST", leader=2, epoch=3, last_zxid=(3, 9), delivered=(3, 7), frames={1: 5}
)  # fmt: skip


class Answers:
    """An ensemble whose nodes give these answers. The process of node 4 does not exist, and that of node 5 is paused."""

    nodes = (1, 2, 3, 4, 5)
    addresses = {node: f"127.0.0.1:{node}" for node in nodes}  # noqa: RUF012

    def __init__(self, *answers: Status) -> None:
        self.answers = {answer.node: answer for answer in answers}
        self.carried: dict[tuple[int, int], int] = {}  # bytes that have passed the proxies

    def traffic(self) -> dict[tuple[int, int], Traffic]:
        return {pair: Traffic(passed, passed) for pair, passed in self.carried.items()}

    def status(self) -> dict[int, Status]:
        return self.answers

    def alive(self, node: int) -> bool:
        return node != 4

    def is_paused(self, node: int) -> bool:
        return node == 5


def test_what_each_node_answers_and_what_its_process_shows() -> None:
    follower = replace(LED, node=1, role="FOLLOWING", last_zxid=(3, 8), delivered=(3, 4))
    late = replace(
        LED, node=3, role="LOOKING", phase="ELECTION", established=False, epoch=2, delivered=(2, 6), amnesiac=True
    )
    ensemble: Any = Answers(follower, LED, late, replace(follower, node=4))
    reader = StatusReader(ensemble)
    first, leader, other, *_ = reader.read()
    assert (first.role, first.phase, first.epoch, first.last_zxid, first.lag) == (
        "following",
        "broadcast",
        3,
        (3, 8),
        3,
    )
    assert (first.address, first.hears, leader.lag) == ("127.0.0.1:1", None, 0)
    assert (other.role, other.phase, other.epoch, other.lag) == ("amnesiac", "election", 2, None)

    ensemble.answers = {1: replace(follower, frames={1: 5, 3: 1}), 2: replace(LED, life=2, frames={1: 9})}
    first, leader, silent, down, paused = reader.read()
    assert (first.hears, leader.hears) == ([3], None)  # counts of another life say nothing
    assert (silent.role, down.role, paused.role) == ("silent", "down", "paused")
    said = shown([first, leader, replace(first, hears=[])], []).splitlines()
    assert said[0].split() == ["node", "clients", "at", "role", "phase", "epoch", "last", "zxid", "lag", "hears"]
    assert said[1].split() == ["1", "127.0.0.1:1", "following", "broadcast", "3", "3:8", "-", "3"]
    assert said[3].endswith("nobody")


def test_nodes_that_do_not_count_hear_what_passes_their_proxies() -> None:
    ensemble: Any = Answers(replace(LED, frames={}), replace(LED, node=1, frames={}))
    ensemble.carried = {(1, 2): 100, (2, 1): 200, (3, 1): 300}
    reader = StatusReader(ensemble)
    reader.read()
    ensemble.carried |= {(1, 2): 101, (3, 1): 301}
    first, leader, *_ = reader.read()
    assert (first.hears, leader.hears) == ([3], [1])


def test_a_line_changes_only_when_something_happened() -> None:
    row = Row(node=1, address="a:1", role="leading", epoch=2, last_zxid=(2, 1), hears=[2])
    later = Row(node=1, address="a:1", role="leading", epoch=2, last_zxid=(2, 9), hears=[])
    assert EnsembleStatus([row]).line() == EnsembleStatus([later]).line() == "1 leading epoch 2"
    assert "nothing is broken" in shown([row], [])


def test_without_a_terminal_each_change_is_a_line() -> None:
    console = Console(file=StringIO(), width=20)
    with display(console, quiet=False, line_seconds=0.0) as screen:
        for role in ("looking", "leading", "leading", "looking"):
            screen.update(EnsembleStatus([Row(node=1, address="a:1", role=role)]))
    assert console.file.getvalue() == "1 looking\n1 leading\n1 looking\n"  # type: ignore[attr-defined]
    with display(console, quiet=True, line_seconds=0.0) as screen:
        screen.update(EnsembleStatus([Row(node=1, address="a:1", role="leading")]))
    assert console.file.getvalue().count("\n") == 3  # type: ignore[attr-defined]
