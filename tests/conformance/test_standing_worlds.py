"""An ensemble that a test controls behaves the same on every backend."""

from typing import Any

import pytest

from tests.mounted import possible
from zab_chaos.faults.abilities import Ability
from zab_chaos.harness.backends import registry
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.live import Ensemble, Failed, Unknown

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]

ELSEWHERE = ("containers", "zookeeper")  # backends that need more than this package; their tests have a mark


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on every backend, or on the one that --zab-on names."""
    named = metafunc.config.getoption("zab_on")
    outage = metafunc.function is test_a_power_outage
    worlds = [
        on_a_disk_that_loses(world) if outage and world == "zookeeper" else standing(world)
        for world in ([named] if named else registry.OURS)
        if not outage or Ability.UNSYNCED in registry.find(world).abilities
    ]
    metafunc.parametrize("zab_cluster", worlds, indirect=True)


def standing(world: str, *marks: pytest.MarkDecorator, **options: str) -> Any:
    elsewhere = [getattr(pytest.mark, world)] if world in ELSEWHERE else []
    return pytest.param({"on": world, **options}, id=world, marks=[*elsewhere, *marks])


def on_a_disk_that_loses(world: str) -> Any:
    """Servers that do not simulate their disk lose unsynced data only on our own file system."""
    return standing(world, pytest.mark.fuse, disk="fuse")


@pytest.fixture(autouse=True)
def where_it_can_be_had(request: pytest.FixtureRequest) -> None:
    """Skip if a backend is not available: containers need an engine with this code's image, ZooKeeper Java and a release."""
    for world in ELSEWHERE:
        if request.node.get_closest_marker(world):
            try:
                registry.find(world).check()
            except (BadInput, HarnessError) as error:
                pytest.skip(str(error))
    if request.node.get_closest_marker("fuse"):
        possible()


def test_a_power_outage(zab_cluster: Ensemble) -> None:
    with zab_cluster.client() as client:
        client.create("/a", b"1")
        zab_cluster.power_cut("all")
        assert not any(zab_cluster.alive(node) for node in zab_cluster.nodes)
        zab_cluster.restart("all")
        zab_cluster.until_established()
        assert client.get("/a").value == b"1"


def test_an_isolated_leader_is_replaced_and_comes_back(zab_cluster: Ensemble) -> None:
    with zab_cluster.client() as client:
        client.create("/a", b"1")
        old = zab_cluster.until_established()
        with zab_cluster.partitioned("leader"):
            zab_cluster.until(lambda: zab_cluster.leader not in (old, None))
            with zab_cluster.client(node=zab_cluster.until_established()) as other:
                other.set("/a", b"2", version=0)
        zab_cluster.until_converged()
        assert client.get("/a").value == b"2"


def test_a_paused_leader_resumes_as_a_follower(zab_cluster: Ensemble) -> None:
    old = zab_cluster.until_established()
    with zab_cluster.client(node=old % 3 + 1) as client:
        client.create("/a")
        with zab_cluster.paused(old):
            zab_cluster.until(lambda: zab_cluster.leader not in (old, None))
        zab_cluster.until_converged()
        assert zab_cluster.leader != old


def test_a_wiped_node_is_synchronized_again(zab_cluster: Ensemble) -> None:
    with zab_cluster.client() as client:
        client.create("/a", b"1")
        lost = zab_cluster.wipe("follower")
        lost.heal()
        zab_cluster.until_converged()
        with zab_cluster.client(node=lost.nodes[0]) as reader:
            assert reader.get("/a").value == b"1"


def test_outcomes(zab_cluster: Ensemble) -> None:
    with zab_cluster.client(timeout=1.0) as client:
        client.create("/a")
        with pytest.raises(Failed) as refused:
            client.create("/a")
        assert refused.value.error == "node exists"
        with zab_cluster.paused("all"), pytest.raises(Unknown):
            client.set("/a", b"")
