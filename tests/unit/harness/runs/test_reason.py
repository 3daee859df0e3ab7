"""What people are told when a run could not go on."""

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.runs.run import reason


@pytest.mark.parametrize("error", [BadInput("no such release"), HarnessError("no Java"), ClusterError("it went away")])
def test_our_own_errors_speak_for_themselves(error: Exception) -> None:
    assert reason(error) == str(error)


def test_a_bug_has_its_type_and_where_the_trace_is() -> None:
    assert reason(KeyError("x")) == "KeyError: 'x' (the trace is in log/harness.log)"
