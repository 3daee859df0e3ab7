"""Finds the checkout that this code runs from, if it was not installed from a wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]  # the folder `harness`, which is a top-level folder of a checkout


def root() -> Path | None:
    """Return the checkout's folder; None if this code is installed."""
    folder = PACKAGE.parent
    return folder if (folder / "pyproject.toml").is_file() else None
