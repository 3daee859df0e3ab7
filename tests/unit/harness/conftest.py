"""Fixtures of the clients' tests."""

import socket
from collections.abc import Iterator

import pytest

from tests.unit.harness.client.fake_ensemble import FakeEnsemble


@pytest.fixture
def ensemble() -> Iterator[FakeEnsemble]:
    """Three nodes."""
    ensemble = FakeEnsemble(3)
    yield ensemble
    ensemble.close()


@pytest.fixture
def unused_address() -> Iterator[str]:
    """Bound by somebody who does not listen, so that nobody else can: connecting is refused."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"
