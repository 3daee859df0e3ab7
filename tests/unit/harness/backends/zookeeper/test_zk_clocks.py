"""The offset between the wall clock of the servers' logs and the monotonic clock of everything else."""

from collections.abc import Callable
from itertools import chain, repeat

import pytest

from zab_chaos.harness.backends.zookeeper.evidence import clock_offset
from zab_chaos.harness.machine import clocks
from zab_chaos.harness.machine.clocks import read_clocks

MS = 1_000_000


def late(delays: list[int]) -> tuple[Callable[[], int], Callable[[], int]]:
    """Return a monotonic and a wall clock that differ by 1,000 s. The n-th reading of either is late by the n-th delay."""
    now, waits = [0], chain(delays, repeat(10))

    def monotonic() -> int:
        now[0] += next(waits)
        return now[0]

    return monotonic, lambda: monotonic() + 1000 * 1000 * MS


@pytest.mark.parametrize("delays", [[], [0, 0, 4 * MS], [0, 4 * MS, 0], [0, 4 * MS, 0, 0, 0, 4 * MS]])
def test_the_clocks_are_read_at_one_instant_although_the_thread_has_to_wait(
    delays: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monotonic, wall = late(delays)
    monkeypatch.setattr(clocks.time, "monotonic_ns", monotonic)
    monkeypatch.setattr(clocks.time, "time_ns", wall)
    read = read_clocks()
    line = {"t": read["monotonic"] + 4 * MS, "event": "clocks", **read}  # it is written later
    assert abs(clock_offset([line]) + 1000 * 1000 * MS) < 100


def test_a_run_of_an_older_version_has_the_time_of_the_line() -> None:
    assert clock_offset([{"t": 7, "event": "started"}, {"t": 5, "event": "clocks", "wall": 2}]) == 3
