"""Notices that the time of a world stands still: code that computes without end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from zab_chaos.model.world.world import World

LOOK = 1.0  # seconds of processor time between two looks; all that happens at one instant takes milliseconds
LOOKS = 5  # so many looks in a row must find the world at one instant; one, after the first time


class Standstill(Exception):
    """Raised in code that has computed for seconds at one instant of a world."""


@contextmanager
def watched(world: World) -> Iterator[None]:
    """Raise Standstill where the world does not go on. In a thread that gets no signals, notice nothing."""
    if current_thread() is not main_thread():
        yield
        return
    at, looks, enough = -1, 0, LOOKS  # the instant at the last look, how many have found it, and how many may

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal at, looks, enough
        looks = looks + 1 if world.running and world.now == at else 0
        at = world.now
        if looks >= enough:
            looks, enough = 0, 1
            raise Standstill("computes without end")

    former = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, LOOK, LOOK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
