"""The status table and the status line of `zab up`."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from zab_chaos.harness.cli.up import screen
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.live.status_table import Row, StatusReader, one_line, table


def shown(rows: list[Row], broken: list[str]) -> str:
    console = Console(width=100, record=True, quiet=False, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(table(rows, broken))
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
        assert f"{second} down" in one_line(rows.values())
        cluster.heal()


def test_a_line_changes_only_when_something_happened() -> None:
    row = Row(node=1, address="a:1", role="leading", epoch=2, last_zxid=(2, 1), hears=[2])
    later = Row(node=1, address="a:1", role="leading", epoch=2, last_zxid=(2, 9), hears=[])
    assert one_line([row]) == one_line([later]) == "1 leading epoch 2"
    assert "nothing is broken" in shown([row], [])


def test_without_a_terminal_each_change_is_a_line() -> None:
    console = Console(file=StringIO(), width=20)
    with screen(console, quiet=False) as show:
        for role in ("looking", "leading", "leading", "looking"):
            show([Row(node=1, address="a:1", role=role)], [])
    assert console.file.getvalue() == "1 looking\n1 leading\n1 looking\n"  # type: ignore[attr-defined]
    with screen(console, quiet=True) as show:
        show([Row(node=1, address="a:1", role="leading")], [])
    assert console.file.getvalue().count("\n") == 3  # type: ignore[attr-defined]
