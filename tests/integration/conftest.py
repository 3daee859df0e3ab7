"""One Spark session for all tests of a worker process: starting it takes longer than most questions that it is asked."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

# For every Spark that a test starts, in whichever process: several collector threads cost more than they save.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).with_name("spark")))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = pytest.importorskip("zab_chaos.pipeline.session")
    words = tmp_path_factory.mktemp("spark") / "spark.log"
    with ExitStack() as stack:
        try:
            yield stack.enter_context(session.session("local[2]", memory="2g", log=words))
        except session.java.JavaMissing as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases of the corpus, as folders."""
    from tests.corpus.build import CASES, write

    out = tmp_path_factory.mktemp("corpus")
    for case in CASES:
        write(case, out)
    return out
