"""The sessions that the plugin's tests run."""

import pytest


@pytest.fixture(autouse=True)
def only_our_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """hypothesis' plugin takes seconds to import, and every session in this process would do it anew."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
