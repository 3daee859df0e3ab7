"""What the tests of the plugin share."""

from pathlib import Path

import pytest

# The body of a test whose verdict is PASS.
WRITES = """
    with zab_cluster.client() as client:
        client.create("/a", b"1")
"""


def results(session: pytest.Pytester, folder: str = "results") -> list[Path]:
    """Return the run folders that exist."""
    return sorted(path.parent for path in session.path.joinpath(folder).glob("**/run.json"))
