"""Where what was fetched or made once is kept: beside the checkout, or in the user's cache folder when installed."""

from pathlib import Path

import platformdirs

from zab_chaos.harness.machine import checkout


def folder() -> Path:
    """It need not exist yet."""
    root = checkout.root()
    return root / ".cache" if root is not None else platformdirs.user_cache_path("zab-chaos", appauthor=False)
