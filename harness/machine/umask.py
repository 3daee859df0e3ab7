"""Sets the permissions of the files that this process creates."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Create files without these permissions in this process, and in those that it starts, until the end of the block."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
