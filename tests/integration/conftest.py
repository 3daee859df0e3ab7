"""One Spark session for all tests of a worker process: starting it takes longer than most questions that it is asked."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zab_chaos.harness.machine import java

if TYPE_CHECKING:
    from tests.integration.analyzed import Analyzed

# For every Spark that a test starts, in whichever process: several collector threads and Java's second compiler cost more than
# they save. The last option is the size of the cache of compiled code. The default, 48 MB, is too small for a session that
# analyzes several times: Java would drop compiled code, and compile it again.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).with_name("spark")))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = pytest.importorskip("zab_chaos.pipeline.session")
    try:
        java.version(java.find())
    except java.JavaMissing as error:
        pytest.skip(str(error))
    with session.session("local[2]", memory="2g", log=tmp_path_factory.mktemp("spark") / "spark.log") as started:
        yield started


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One case of the corpus for each property and verdict, and those of refused writes, as folders. All are judged in
    `tests/unit/model/oracle`."""
    from tests.corpus.build import CASES, write

    out = tmp_path_factory.mktemp("corpus")
    chosen = {(case.property, case.judgement, case.verdict): case for case in CASES}
    refused = {case.name: case for case in CASES if case.name.startswith("recovery-writes-are")}
    for case in (chosen | refused).values():
        write(case, out)
    return out


@pytest.fixture(scope="session")
def analyzed(spark: Any, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> "Analyzed":
    """One `zab analyze` of cases of the corpus and of some other runs."""
    from tests.integration.analyzed import analyze_all

    return analyze_all(spark, corpus, tmp_path_factory.mktemp("analyzed"))


@pytest.fixture
def analyze_here(spark: Any) -> Iterator[Callable[..., int]]:
    """Return a function that runs `zab analyze` in this process, on the Spark of the tests, and returns its exit code."""
    from tests.integration.analyzed import on_this_spark
    from zab_chaos.harness.cli.app import main

    with on_this_spark(spark):
        yield lambda *arguments: main(["analyze", *map(str, arguments)])
