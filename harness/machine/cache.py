"""Where what was fetched or made once is kept: beside the checkout, or in the user's cache folder when installed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from zab_chaos.harness.machine import checkout


def folder() -> Path:
    """It need not exist yet."""
    root = checkout.root()
    return root / ".cache" if root is not None else platformdirs.user_cache_path("zab-chaos", appauthor=False)


@contextmanager
def for_everybody() -> Iterator[None]:
    """Create files that everybody can read, also where a run begins, whose own files are private: what is fetched is public."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)
