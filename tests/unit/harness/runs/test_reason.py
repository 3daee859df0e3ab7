"""The texts of errors that end a run."""

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.runs.run import reason


@pytest.mark.parametrize("error", [BadInput("no such release"), HarnessError("no Java"), ClusterError("it went away")])
def test_our_own_errors_are_shown_by_their_text(error: Exception) -> None:
    assert reason(error) == str(error)


def test_other_errors_are_shown_with_type_and_place_of_the_traceback() -> None:
    assert reason(KeyError("x")) == "KeyError: 'x' (the trace is in log/harness.log)"
