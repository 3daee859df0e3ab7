"""The texts of errors that end a run."""

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.runs.run import reason
from zab_chaos.harness.workload.thread import WorkloadError


@pytest.mark.parametrize("error", [BadInput("no such release"), HarnessError("no Java"), ClusterError("it went away")])
def test_our_own_errors_are_shown_by_their_text(error: Exception) -> None:
    assert reason(error) == str(error)


def test_an_error_in_the_workload_may_be_a_backends_own() -> None:
    error = WorkloadError("the workload failed: KeyError('x')")
    assert reason(error) == "the workload failed: KeyError('x') (the trace is in log/harness.log)"


def test_other_errors_are_shown_with_type_and_place_of_the_traceback() -> None:
    assert reason(KeyError("x")) == "KeyError: 'x' (the trace is in log/harness.log)"
