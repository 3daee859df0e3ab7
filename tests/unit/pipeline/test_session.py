"""The end of a Spark session whose JVM has ended."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.pipeline import java
from zab_chaos.pipeline.session import session


class Gone:
    """A session that worked once, and whose JVM has been killed since."""

    sparkContext = SimpleNamespace(setLogLevel=lambda level: None, defaultParallelism=2)  # noqa: N815 - Spark's name
    conf = SimpleNamespace(set=lambda key, value: None)

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.fixture(autouse=True)
def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find", lambda: "java")
    monkeypatch.setattr(java, "version", lambda found: 17)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: Gone())


def asked(error: BaseException | None) -> Any:
    with session():
        if error is not None:
            raise error


def test_an_interrupt_stays_an_interrupt() -> None:
    with pytest.raises(Stopped):
        asked(Stopped())


def test_a_failed_stop_is_an_error_only_if_there_was_no_other() -> None:
    with pytest.raises(ConnectionRefusedError):
        asked(None)
    with pytest.raises(ValueError, match="the question"):
        asked(ValueError("the question"))
