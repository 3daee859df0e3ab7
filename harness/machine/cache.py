"""Where what was fetched or made once is kept: beside the checkout, or in the user's cache folder when installed."""

from contextlib import AbstractContextManager
from pathlib import Path

import platformdirs

from zab_chaos.harness.machine import checkout
from zab_chaos.harness.machine.umask import umask


def folder() -> Path:
    """It need not exist yet."""
    root = checkout.root()
    return root / ".cache" if root is not None else platformdirs.user_cache_path("zab-chaos", appauthor=False)


def for_everybody() -> AbstractContextManager[None]:
    """Create files that everybody can read, also where a run begins, whose own files are private: what is fetched is public."""
    return umask(0o022)
