"""A pool of workers on the executors of Spark.

Each item is a job with one task, so its result is available as soon as it is done.

Log messages of the work stay with the executors: in Spark's log file with a local master, in the executors' logs on a cluster.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.explore.workers import AHEAD, WorkerPool, in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
HEAP = "1g"  # of the driver, which submits items and receives short results


@contextmanager
def spark_workers(master: str, log: Path) -> Iterator[WorkerPool]:
    """Yield a pool of all cores of `master`. `log`: the file for Spark's messages. Raises HarnessError."""
    with spark_session.spark(master, HEAP, log) as spark:
        threads = ThreadPoolExecutor(spark.sparkContext.defaultParallelism, "item")
        try:
            yield SparkWorkers(spark, threads)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelAllJobs()
            threads.shutdown()


class SparkWorkers:
    """A `zab_chaos.harness.explore.workers.WorkerPool` of Spark's executors. Each thread waits for one job."""

    def __init__(self, spark: "SparkSession", threads: ThreadPoolExecutor) -> None:
        self._context = spark.sparkContext
        self._threads = threads

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        return in_order(partial(self._submit, work), items, self._context.defaultParallelism * AHEAD)

    def _submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        return self._threads.submit(self._run_job, work, item)

    def _run_job(self, work: Callable[[T], R], item: T) -> R:
        try:
            (result,) = self._context.parallelize([item], 1).map(work).collect()
        except Exception as error:
            raise HarnessError(f"{item} failed on {self._context.master}: {spark_session.reason(error)}") from error
        return result
