"""A lower rate of Python's garbage collection, for work that keeps nearly all its objects until it is done."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_AFTER = 50_000  # new objects, a few megabytes


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage only after every `COLLECT_AFTER` new objects.

    Simulation, judgement and replay keep most of their objects and create few cycles. Python's collection after every 700
    objects would be a tenth to a half of their work and find next to nothing.
    """
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
