"""An interrupt while Spark starts or works: its JVM is ended, whatever else ends at that moment."""

import subprocess
import sys

import psutil
import pytest

from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.machine.interrupt import Stopped


def test_a_child_that_ends_at_that_moment_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", "spark"])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    processes = [psutil.Process(gone.pid), psutil.Process(jvm.pid)]
    try:
        while processes[0].status() != psutil.STATUS_ZOMBIE:  # nobody has waited for it
            pass
        monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: processes)
        with pytest.raises(Stopped), spark_session._interruptible():
            raise Stopped
        assert jvm.wait(60) == -9
    finally:
        jvm.kill()
        jvm.wait()
        gone.wait()
