"""Cuts of links whose proxies count bytes: confirmed by what was sent into the proxies and has not passed them."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.network import NetworkError, Pair, Traffic
from zab_chaos.faults.partition import UNFELT, Flap, Partition
from zab_chaos.faults.registry import KINDS


class Links:
    """The links between two nodes, and their proxies. `leaks`: what is sent passes them although they are cut."""

    def __init__(self) -> None:
        self.counts = {(1, 2): Traffic(100, 100, 1), (2, 1): Traffic(100, 100, 1)}
        self.is_cut = False
        self.leaks = False
        self.around: dict[Pair, str] = {}
        self.silent = False

    def cut(self, *_: Any) -> None:
        self.is_cut = True

    def heal(self, *_: Any, release: bool) -> None:
        self.is_cut = False

    def send(self, pair: Pair, count: int) -> None:
        one = self.counts[pair]
        passed = one.passed + count * (self.leaks or not self.is_cut)
        self.counts[pair] = Traffic(one.sent + count, passed, one.open)

    def close(self) -> None:
        self.counts = {pair: Traffic(one.sent, one.passed, 0) for pair, one in self.counts.items()}

    def traffic(self) -> dict[Pair, Traffic]:
        if self.silent:
            raise NetworkError("toxiproxy does not answer")
        return dict(self.counts)

    def detours(self) -> dict[Pair, str]:
        return self.around


@pytest.fixture
def links() -> Links:
    return Links()


Made = Callable[..., Any]


@pytest.fixture
def made(sleepers: Callable[..., Any], patient: Any, links: Links) -> Made:
    """Return `made(kind, drawn)`, which injects a cut of both links."""

    def make(kind: type[Any] = Partition, drawn: bool = False) -> Any:
        params = {key.name: key.default for key in KINDS[kind.__name__.lower()].keys}
        context: Any = FaultContext(sleepers(2), links, Random(1), patience=5.0, host=patient, drawn=drawn)  # type: ignore[arg-type]
        fault = kind(context, [1], params)
        fault.inject()
        return fault

    return make


def healed(fault: Any) -> tuple[bool, Any]:
    fault.heal()
    shown = fault.recovered()
    return shown.confirmed, shown.evidence.get("error")


def test_a_cut_is_confirmed_by_what_was_sent_and_did_not_pass(made: Made, links: Links) -> None:
    fault = made()
    assert fault.injected().confirmed
    links.send((1, 2), 7)
    assert healed(fault) == (True, None)
    assert not links.is_cut
    assert fault.recovered().evidence["links"] == [
        {"from": 1, "to": 2, "at_inject": 100, "at_heal": 100, "sent": 7, "closed": 0},
        {"from": 2, "to": 1, "at_inject": 100, "at_heal": 100, "sent": 0, "closed": 0},
    ]


def test_a_proxy_that_does_not_cut_is_found_out(made: Made, links: Links) -> None:
    fault = made()
    links.leaks = True
    links.send((2, 1), 1)
    assert healed(fault) == (False, None)


@pytest.mark.parametrize(("drawn", "shown"), [(False, (False, UNFELT)), (True, (True, None))])
def test_a_cut_over_which_nothing_is_sent_shows_nothing(made: Made, drawn: bool, shown: tuple[bool, Any]) -> None:
    """Only in a drawn schedule it may happen."""
    assert healed(made(drawn=drawn)) == shown


def test_a_connection_that_is_gone_shows_that_it_was_cut(made: Made, links: Links) -> None:
    fault = made()
    links.close()
    assert healed(fault) == (True, None)


def test_nothing_need_be_sent_to_a_node_that_is_down(made: Made) -> None:
    fault = made()
    fault.cluster.kill(2)
    assert healed(fault) == (True, None)


@pytest.mark.parametrize("begun", ["before", "after"])
def test_a_connection_past_the_proxies_is_reported(made: Made, links: Links, begun: str) -> None:
    if begun == "before":
        links.around = {(1, 2): "a connection of 1 and 2", (1, 3): "another one, of a link that is not cut"}
        fault = made()
        shown = fault.injected()
        assert (shown.confirmed, shown.evidence["error"]) == (False, "a connection of 1 and 2")
        links.around = {}
    else:
        fault = made()
        links.around = {(1, 2): "a connection of 1 and 2"}
    links.send((1, 2), 7)
    assert healed(fault) == (False, "a connection of 1 and 2")


def test_links_are_healed_even_if_nothing_can_be_counted(made: Made, links: Links) -> None:
    fault = made()
    links.silent = True
    with pytest.raises(NetworkError):
        fault.heal()
    assert not links.is_cut


@pytest.mark.parametrize(("sent", "shown"), [((0, 3, 0), (True, None)), ((0, 0, 0), (False, UNFELT))])
def test_one_of_several_cuts_must_be_felt(made: Made, links: Links, sent: Any, shown: Any) -> None:
    flap = made(Flap)
    for turn, count in enumerate(sent):
        flap.watch(10.0 * turn)
        links.send((1, 2), count)
        flap.watch(10.0 * turn + 5)
    assert flap.cuts == 3
    assert healed(flap) == shown
