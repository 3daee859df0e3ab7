"""Our own backends pass the conformance suite for backends.

The example's backend does too, see tests/integration/test_example_backend.py.
"""

import pytest

from zab_chaos.harness.testing.conformance import *  # noqa: F403 - tests, fixtures and what parametrizes them
from zab_chaos.harness.testing.conformance import pytest_generate_tests

__all__ = ["pytest_generate_tests"]

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]
