"""What all tests have in common: an option, which of them share a worker, and a short scenario."""

import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.short_scenario import SHORT

settings.register_profile("tests", deadline=None)  # of a single example, which takes long on a busy machine
settings.load_profile("tests")

# Files that ask the Spark session of the conftest beside them.
ON_ONE_SPARK = ("integration/test_analyze_command", "integration/test_pipeline_", "integration/test_research_page")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the transcripts of model/transcripts anew, from what the protocol does now; review them in the diff",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what exists now out of all garbage collections: thousands of tests and the modules, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile the tests of a file share a worker; so do all that ask the Spark session, which starts slowly."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "Spark" if any(name in file for name in ON_ONE_SPARK) else file

    return ByFileOrSpark(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def short(tmp_path: Path) -> str:
    """The path of `tests.short_scenario`."""
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return str(path)
