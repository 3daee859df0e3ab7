"""The ensemble of the client's tests, for the workload."""

from tests.unit.harness.client.conftest import ensemble, unused_address

__all__ = ["ensemble", "unused_address"]
