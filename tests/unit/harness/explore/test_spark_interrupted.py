"""An interrupt while Spark starts or works kills its JVM, also if another child process ends at the same moment."""

import subprocess
import sys

import psutil
import pytest

from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.machine.interrupt import Stopped


def test_a_child_that_has_ended_does_not_keep_the_jvm_alive(monkeypatch: pytest.MonkeyPatch) -> None:
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
