"""Background threads: an exception in one is kept for the thread that checks it."""

import pytest

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.background import BackgroundThread


class Failing(BackgroundThread):
    in_words = "counting the bytes"

    def _run(self) -> None:
        raise OSError("no such file")


class Idle(BackgroundThread):
    def _run(self) -> None:
        self._stop.wait()


def test_an_error_is_raised_in_the_thread_that_checks() -> None:
    with Failing("counter") as thread:
        pass
    with pytest.raises(HarnessError, match=r"counting the bytes failed: OSError\('no such file'\)"):
        thread.check()


def test_a_thread_without_an_error_passes_the_check() -> None:
    with Idle("idle") as thread:
        thread.check()
    thread.check()
