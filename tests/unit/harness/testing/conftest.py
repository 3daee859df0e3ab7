"""Settings of the pytest sessions that the plugin's tests run."""

import pytest


@pytest.fixture(autouse=True)
def only_our_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep hypothesis' plugin out: it takes seconds to import, and each session in this process would import it again."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
