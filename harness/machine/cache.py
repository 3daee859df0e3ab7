"""Where what was fetched or made once is kept: beside the checkout, or in the user's cache folder when installed."""

import os
from collections.abc import Mapping
from pathlib import Path

from zab_chaos.harness.machine import checkout


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """It need not exist yet."""
    root = checkout.root()
    if root is not None:
        return root / ".cache"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zab-chaos"
