"""Which resources on the engine a clean-up may remove."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from zab_chaos.harness.backends.containers.labels import (
    HARNESS,
    HOST,
    is_from_this_host,
    is_harness_gone,
    labels_of_run,
)

RUN = Path("/results/x/1")


def test_a_run_of_this_process_is_not_over() -> None:
    labels = labels_of_run("t", RUN)
    assert is_from_this_host(labels)
    assert not is_harness_gone(labels)


def test_a_run_is_over_when_its_process_is_gone_or_its_pid_was_reused() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        born = psutil.Process(other.pid).create_time()
        labels = {**labels_of_run("t", RUN), HARNESS: f"{other.pid} {born:.2f}"}
        assert not is_harness_gone(labels)
        assert is_harness_gone(
            {**labels, HARNESS: f"{other.pid} {born - 100:.2f}"}
        )  # the number was given to another process
    assert is_harness_gone(labels)


def test_labels_of_another_machine_or_invalid_ones_are_left_alone() -> None:
    assert not is_from_this_host({**labels_of_run("t", RUN), HOST: "elsewhere"})
    assert not is_from_this_host({})
    assert not is_harness_gone({HARNESS: "nonsense"})
    assert not is_harness_gone({HARNESS: f"{os.getpid()} 0.0"})
