"""Python's search for garbage, for work that keeps nearly all that it makes until it is done."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_AFTER = 50_000  # objects: some megabytes


@contextmanager
def seldom_collected() -> Iterator[None]:
    """A simulation, a judgement and a replay keep most of what they make and make few cycles. To look for garbage after
    every 700 objects, as Python does, is a tenth to a half of their work and finds next to nothing."""
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
