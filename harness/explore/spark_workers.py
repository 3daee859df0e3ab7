"""Runs items on the executors of Spark: each item is a job of one task, so its result is available at once.

What the work logs stays with the executors: in Spark's log file here (with a local master), or in their logs on the cluster.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.explore.workers import Crew, in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
HEAP = "1g"  # of the driver, which hands out items and gets short answers
AHEAD = 4  # items handed out for each core, as `zab_chaos.harness.explore.exploration` does


@contextmanager
def on_spark(master: str, log: Path) -> Iterator[Crew]:
    """A crew with all cores of `master`. `log`: the file for Spark's messages. Raises HarnessError."""
    with spark_session.spark(master, HEAP, log) as spark:
        threads = ThreadPoolExecutor(spark.sparkContext.defaultParallelism, "item")
        try:
            yield SparkCrew(spark, threads)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelAllJobs()
            threads.shutdown()


class SparkCrew:
    """Implements `zab_chaos.harness.explore.workers.Crew`."""

    def __init__(self, spark: "SparkSession", threads: ThreadPoolExecutor) -> None:
        self._context = spark.sparkContext
        self._threads = threads

    def answers(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        return in_order(partial(self._submit, work), items, self._context.defaultParallelism * AHEAD)

    def _submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        return self._threads.submit(self._one, work, item)

    def _one(self, work: Callable[[T], R], item: T) -> R:
        try:
            (answer,) = self._context.parallelize([item], 1).map(work).collect()
        except Exception as error:
            raise HarnessError(f"{item} failed on {self._context.master}: {spark_session.reason(error)}") from error
        return answer
