"""Where what was fetched or made once is kept: beside the checkout, or in the user's cache folder when installed."""

import os
from collections.abc import Mapping
from pathlib import Path


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """It need not exist yet."""
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".cache"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zab-chaos"
