"""A process is killed with all that it has started, whether that is in its session or not."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from zab_chaos.faults import process_tree
from zab_chaos.harness.machine.waiting import wait_until

STARTS_ANOTHER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("leads_a_group", [True, False])
def test_what_a_process_has_started_is_killed_with_it(leads_a_group: bool) -> None:
    command = [sys.executable, "-c", STARTS_ANOTHER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=leads_a_group) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        try:
            process_tree.kill(process.pid)
            assert wait_until(lambda: not process_tree.runs(child), 20)
        finally:
            with suppress(psutil.Error):
                child.kill()


def test_a_process_that_has_ended_has_started_nothing_and_is_killed_in_silence() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert process_tree.started_by(process.pid) == set()
    process_tree.kill(process.pid)


@pytest.mark.parametrize("listed", [True, False])
def test_a_kernel_need_not_list_the_children_of_a_process(
    listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(process_tree, "Path", lambda _: tmp_path)
    with subprocess.Popen([sys.executable, "-c", STARTS_ANOTHER], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            assert process_tree.started_by(parent.pid) == {child}
            assert process_tree.started_by(child.pid) == set()
        finally:
            child.kill()
            parent.kill()
