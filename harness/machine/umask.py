"""What files this process creates may be read by."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Create files without these permissions, in this process and in those that it starts."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
