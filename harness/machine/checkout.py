"""The checkout that this code runs from, if it was not installed from a wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]  # harness: in a checkout, a top-level folder


def root() -> Path | None:
    """The checkout's folder; None if there is none."""
    folder = PACKAGE.parent
    return folder if (folder / "pyproject.toml").is_file() else None
