"""Compares the two clocks of this machine."""

import time

CLOCK_READINGS = 20


def read_clocks() -> dict[str, int]:
    """Return the nanoseconds of the `monotonic` and the `wall` clock at one instant.

    On a busy machine the thread may have to wait for milliseconds between two readings. Then a server would seem to have
    answered before its leader had broadcast. So of several attempts the one counts that took the shortest time.
    """
    attempts = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(CLOCK_READINGS)]
    before, wall, after = min(attempts, key=lambda one: one[2] - one[0])
    return {"monotonic": (before + after) // 2, "wall": wall}
