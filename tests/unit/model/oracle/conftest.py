"""Fixtures for the tests of the oracle."""

from pathlib import Path

import pytest

from tests.corpus.story import ensemble


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a stored run that passes."""
    story = ensemble()
    story.settle()
    story.save(tmp_path / "run")
    return tmp_path / "run"
