"""A proxy that the server does not delete at once: the network tries again, and keeps track of a half-recreated link."""

import pytest

from tests.unit.faults.proxies_in_memory import ProxiesInMemory
from zab_chaos.faults.network import Network, NetworkError, WedgedError
from zab_chaos.faults.proxies import ProxyState


class Slow(ProxiesInMemory):
    """Proxies that do not answer the first `deaf` DELETE requests."""

    def __init__(self, deaf: int) -> None:
        super().__init__()
        self.deaf = deaf
        self.created = 0

    def create(self, name: str, listen: str, upstream: str, enabled: bool = True) -> None:
        self.created += 1

    def delete(self, name: str) -> None:
        if self.deaf:
            self.deaf -= 1
            raise WedgedError("no answer")

    def disable(self, name: str) -> None: ...

    def states(self) -> dict[str, ProxyState]:
        raise WedgedError("no answer")


def cut(deaf: int) -> tuple[Network, Slow]:
    proxies = Slow(deaf)
    network = Network(proxies)
    network.create_links({(1, 2): ("listen", "upstream")})
    network.cut([(1, 2)], "disable")
    return network, proxies


def test_a_deletion_that_the_server_does_not_answer_is_tried_again() -> None:
    network, proxies = cut(deaf=4)
    network.heal([(1, 2)])
    assert proxies.created == 2
    assert network.broken() == {}


def test_a_link_that_could_not_be_recreated_is_recreated_for_the_next_fault() -> None:
    network, proxies = cut(deaf=5)
    with pytest.raises(NetworkError):
        network.heal([(1, 2)])
    network.cut([(1, 2)], "disable", "next")
    assert proxies.created == 2


def test_a_link_that_could_not_be_recreated_is_tried_again_when_all_is_healed() -> None:
    network, proxies = cut(deaf=5)
    with pytest.raises(WedgedError):
        network._recreate(network._links[1, 2])
    network._links[1, 2].effects.clear()  # as `heal` leaves it
    network.heal_all()
    assert proxies.created == 2
    network.heal_all()
    assert proxies.created == 2  # and once it is whole, its connections are let alone
