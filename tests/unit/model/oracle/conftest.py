"""What the tests of the oracle have in common."""

from pathlib import Path

import pytest

from tests.corpus.story import ensemble


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run as it was stored: all is well."""
    story = ensemble()
    story.settle()
    story.save(tmp_path / "run")
    return tmp_path / "run"
