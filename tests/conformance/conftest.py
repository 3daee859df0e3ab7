"""The backends that the tests of this folder run on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.channels import Channels, RealChannels, SimChannels
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyServer, locate

WORLDS = [
    pytest.param("zeromq", marks=pytest.mark.toxiproxy),
    *(f"simulated, seed {seed}" for seed in range(1, 6)),
]
Make = Callable[..., Channels]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], ToxiproxyServer]]:
    """A toxiproxy that is started when the first test needs it."""
    started: list[ToxiproxyServer] = []

    def get() -> ToxiproxyServer:
        if not started:
            started.append(ToxiproxyServer(locate(), tmp_path_factory.mktemp("toxiproxy") / "toxiproxy.log"))
        return started[0]

    yield get
    for one in started:
        one.stop()


@pytest.fixture(params=WORLDS)
def make(
    request: pytest.FixtureRequest, tmp_path: Path, server: Callable[[], ToxiproxyServer]
) -> Iterator[Callable[..., Channels]]:
    """Makes two nodes on one of the backends. `raw=True`: without sessions; keywords are limits."""
    made: list[Channels] = []
    world: str = request.param

    def build(*, raw: bool = False, **limits: int) -> Channels:
        if world == "zeromq":
            made.append(RealChannels(tmp_path, server(), raw=raw, **limits))
        else:
            made.append(SimChannels(int(world.split()[-1]), raw=raw, **limits))
        return made[-1]

    yield build
    for channels in made:
        channels.close()


@pytest.fixture
def channels(make: Make) -> Channels:
    """Nodes 1 and 2 with an open session."""
    made = make()
    made.start(1)
    made.start(2)
    made.until(made.both_up)
    return made
