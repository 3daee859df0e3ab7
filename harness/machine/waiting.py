"""Waits for conditions."""

import time
from collections.abc import Callable

STEP = 0.01  # seconds between two checks of a condition


def wait_until(condition: Callable[[], bool], seconds: float, step: float = STEP) -> bool:
    """Check `condition` every `step` seconds until it holds. Return False if it did not hold within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)
    return True
