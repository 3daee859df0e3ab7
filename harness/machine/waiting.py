"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable

STEP = 0.01


def wait_until(condition: Callable[[], bool], seconds: float, step: float = STEP) -> bool:
    """Look at `condition` every `step` seconds until it holds. False if it did not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)
    return True
