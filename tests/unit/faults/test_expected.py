"""What a run is judged by, beside what its scenario says: it depends on the world that the run is in."""

from typing import Any

import pytest

from tests.short_scenario import SHORT
from zab_chaos.faults.scenario import parse

STALLS = SHORT.replace("[workload]", "[workload]\nstalls = 1.0")
ERRATIC = SHORT.replace("record = false", "erratic_network = true")
TIGHT = SHORT + "[timing]\nheartbeat_ms = 10\ntimeout_ms = 25\nfinalize_ms = 5\n"
PROMPT = {"clients_are_kept", "clients_know_all_nodes", "answered_within"}


def demands(text: str, *, exact: bool) -> dict[str, Any]:
    """Return what run.json says, without what does not apply."""
    return {key: value for key, value in parse(text).expected(exact=exact).items() if value is not None}


def test_what_takes_time_on_a_machine_is_not_demanded_there() -> None:
    simulated, real = demands(SHORT, exact=True), demands(SHORT, exact=False)
    assert set(simulated) - set(real) == PROMPT | {"waiting", "noticed_within"}
    assert simulated["clients_are_kept"] is simulated["clients_know_all_nodes"] is True
    assert (simulated["progress_within"], real["progress_within"]) == (simulated["answered_within"], 15.0)
    assert simulated["progress_within"] < 15.0


def test_only_real_connections_lose_no_frames_without_a_fault() -> None:
    """Some simulated networks do, as drawn from the seed (`zab_chaos.model.world.chance`)."""
    assert [demands(SHORT, exact=exact)["links_are_reliable"] for exact in (True, False)] == [False, True]


def test_only_an_erratic_network_has_no_bound_on_delays() -> None:
    drawn = [demands(text, exact=exact)["delays_are_bounded"] for text in (SHORT, ERRATIC) for exact in (True, False)]
    assert drawn == [True, True, False, True]


def test_only_in_the_simulator_nodes_notice_at_once_that_a_process_is_gone() -> None:
    assert demands(SHORT, exact=True)["noticed_within"] < 1
    assert "noticed_within" not in demands(SHORT, exact=False)


@pytest.mark.parametrize("text", [ERRATIC, TIGHT])
def test_where_a_node_may_leave_its_leader_without_a_fault_clients_have_to_wait(text: str) -> None:
    simulated = demands(text, exact=True)
    assert set(simulated) >= PROMPT
    assert "waiting" not in simulated
    assert simulated["progress_within"] == 15.0


def test_clients_that_stand_still_are_promised_nothing() -> None:
    simulated = demands(STALLS, exact=True)
    assert not simulated.keys() & (PROMPT | {"waiting"})
    assert simulated["progress_within"] == 15.0
