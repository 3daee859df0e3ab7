"""What the plugin's tests have in common."""

from pathlib import Path

import pytest

# The body of a test that the verdict has nothing to say against.
WRITES = """
    with zab_cluster.client() as client:
        client.create("/a", b"1")
"""


def results(session: pytest.Pytester, folder: str = "results") -> list[Path]:
    """The folders of the runs that are there."""
    return sorted(path.parent for path in session.path.joinpath(folder).glob("**/run.json"))
