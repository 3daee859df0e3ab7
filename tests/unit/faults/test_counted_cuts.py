"""Cuts of links whose proxies count bytes: confirmed by what was sent into the proxies and has not passed them."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.unit.faults.links_in_memory import LinksInMemory, params_of
from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.network import NetworkError, Pair, Traffic
from zab_chaos.faults.partition import LOST, UNUSED, Flap, Partition
from zab_chaos.faults.registry import KINDS

Made = Callable[..., Any]


@pytest.fixture
def links() -> LinksInMemory:
    """The links between two nodes, over which something was sent already."""
    made = LinksInMemory()
    made.counts = dict.fromkeys([(1, 2), (2, 1)], Traffic(100, 100))
    return made


@pytest.fixture
def made(sleepers: Callable[..., Any], patient: Any, links: LinksInMemory) -> Made:
    """Return `made(kind, drawn)`, which injects a cut of both links."""

    def make(kind: type[Any] = Partition, drawn: bool = False) -> Any:
        context: Any = FaultContext(sleepers(2), links, Random(1), patience=5.0, host=patient, drawn=drawn)  # type: ignore[arg-type]
        fault = kind(context, [1], params_of(KINDS[kind.__name__.lower()]))
        fault.inject()
        return fault

    return make


def healed(fault: Any) -> tuple[bool, Any]:
    """Heal a fault, and return whether that is confirmed, and the error if there is one."""
    fault.heal()
    shown = fault.recovered()
    return shown.confirmed, shown.evidence.get("error")


def test_a_cut_is_confirmed_by_what_was_sent_and_did_not_pass(made: Made, links: LinksInMemory) -> None:
    fault = made()
    assert fault.injected().confirmed
    links.send((1, 2), 7)
    assert healed(fault) == (True, None)
    assert links.broken() == {}
    assert fault.recovered().evidence["links"] == [
        {"from": 1, "to": 2, "at_inject": 100, "at_heal": 100, "sent": 7},
        {"from": 2, "to": 1, "at_inject": 100, "at_heal": 100, "sent": 0},
    ]


def test_a_proxy_that_does_not_cut_is_found_out(made: Made, links: LinksInMemory) -> None:
    fault = made()
    links.leaks = True
    links.send((2, 1), 1)
    assert healed(fault) == (False, None)


@pytest.mark.parametrize("gone", [[(1, 2)], [(2, 1)], [(1, 2), (2, 1)]])
def test_a_cut_that_is_gone_is_found_out_even_if_nothing_was_sent(
    made: Made, links: LinksInMemory, gone: list[Pair]
) -> None:
    """Also if it is gone from one of its links only."""
    fault = made()
    links.lose(gone)
    assert healed(fault) == (False, LOST)


@pytest.mark.parametrize(("drawn", "shown"), [(False, (False, UNUSED)), (True, (True, None))])
def test_links_that_no_node_ever_uses_show_nothing(
    made: Made, links: LinksInMemory, drawn: bool, shown: tuple[bool, Any]
) -> None:
    """Only in a drawn schedule it may happen."""
    links.counts = dict.fromkeys(links.counts, Traffic(0, 0))
    assert healed(made(drawn=drawn)) == shown


def test_a_link_that_is_first_used_while_it_is_cut_is_used(made: Made, links: LinksInMemory) -> None:
    links.counts = dict.fromkeys(links.counts, Traffic(0, 0))
    fault = made()
    links.send((1, 2), 7)
    assert healed(fault) == (True, None)


@pytest.mark.parametrize("begun", ["before", "after"])
def test_a_connection_past_the_proxies_is_reported(made: Made, links: LinksInMemory, begun: str) -> None:
    if begun == "before":
        links.around = {(1, 2): "a connection of 1 and 2", (1, 3): "another one, of a link that is not cut"}
        fault = made()
        shown = fault.injected()
        assert (shown.confirmed, shown.evidence["error"]) == (False, "a connection of 1 and 2")
        links.around = {}
    else:
        fault = made()
        links.around = {(1, 2): "a connection of 1 and 2"}
    assert healed(fault) == (False, "a connection of 1 and 2")


def test_links_are_healed_even_if_nothing_can_be_counted(made: Made, links: LinksInMemory) -> None:
    fault = made()
    links.silent = True
    with pytest.raises(NetworkError):
        fault.heal()
    assert links.broken() == {}


@pytest.mark.parametrize(("sent", "shown"), [(0, (True, None)), (3, (False, None))])
def test_each_of_several_cuts_must_hold(made: Made, links: LinksInMemory, sent: int, shown: Any) -> None:
    flap = made(Flap)
    for turn, leak in enumerate((0, sent, 0)):
        flap.watch(10.0 * turn)
        links.leaks = bool(leak)
        links.send((1, 2), leak)
        flap.watch(10.0 * turn + 5)
    assert flap.cuts == 3
    assert healed(flap) == shown
