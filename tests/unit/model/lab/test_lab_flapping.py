"""Links that fail and heal violate total order or agreement in the lab, and the violation is found."""

import pytest

from zab_chaos.model.lab import LabArguments, LabNode, Txn, find_prefix_violation, lab_flapping
from zab_chaos.model.lab.flapping import judge_flapping
from zab_chaos.model.lab.shrink import outages, shrink_flapping
from zab_chaos.model.lab.timeline import timeline
from zab_chaos.node.core.zxid import Zxid, zxid

A, B, C = (Txn(zxid(1, counter), b"zab-%d" % counter) for counter in (1, 2, 3))


def node_with(node_id: int, history: list[Txn], last_committed: Zxid) -> LabNode:
    node = LabNode(node_id, 3, seed=0)
    node.history = history
    node.last_committed = last_committed
    return node


@pytest.mark.slow
def test_a_violation_is_found_within_20_seeds_and_is_real() -> None:
    found = {seed: violation for seed in range(20) if (violation := judge_flapping(lab_flapping(seed))) is not None}
    assert found
    for seed, violation in found.items():
        assert judge_flapping(lab_flapping(seed)) == violation
        assert violation.first != violation.second


def test_the_same_nodes_without_cuts_agree() -> None:
    """The control of the test above: the cuts cause the violation."""
    for seed in range(5):
        arguments = lab_flapping(seed)
        whole = type(arguments)(
            seed=arguments.seed, nodes=arguments.nodes, rounds=arguments.rounds, proposals=arguments.proposals
        )
        assert judge_flapping(whole) is None


def test_a_schedule_is_drawn_from_the_seed_alone_and_ends_healed_or_in_the_run() -> None:
    drawn = [lab_flapping(seed) for seed in range(30)]
    assert drawn == [lab_flapping(seed) for seed in range(30)]
    assert {arguments.nodes for arguments in drawn} == {3, 5}
    assert len({arguments.schedule for arguments in drawn}) == 30
    assert all(links == frozenset() for arguments in drawn for _, links in arguments.schedule[1::2])
    assert any(links for arguments in drawn for _, links in arguments.schedule[::2])


def test_a_prefix_is_no_violation_and_neither_is_an_uncommitted_tail() -> None:
    nodes = [node_with(0, [A, B, C], C.zxid), node_with(1, [A, C], A.zxid), node_with(2, [], zxid(0, 0))]
    assert find_prefix_violation(nodes) is None


def test_a_gap_is_a_violation_with_a_description() -> None:
    violation = find_prefix_violation([node_with(0, [A, B, C], C.zxid), node_with(2, [A, C], C.zxid)])
    assert str(violation) == (
        "total order: node 1 and node 3 committed different transactions at position 1: 1:2 zab-2 and 1:3 zab-3"
    )


def test_a_fork_is_called_a_violation_of_agreement_since_neither_has_what_the_other_has() -> None:
    violation = find_prefix_violation([node_with(0, [A, B], B.zxid), node_with(2, [A, C], C.zxid)])
    assert str(violation).startswith("agreement: node 1 and node 3 committed")


def test_the_same_zxid_with_another_payload_is_a_violation() -> None:
    other = Txn(A.zxid, b"other")
    assert find_prefix_violation([node_with(0, [A], A.zxid), node_with(1, [other], A.zxid)]) is not None


def test_the_timeline_shows_both_proposals_of_a_zxid() -> None:
    """A late AckEpoch restarts the leader's counter after its first proposals."""
    lines = timeline(LabArguments(seed=80, nodes=3, rounds=60, proposals=30))
    assert [line for line in lines if " proposes 1:1 " in line] == [
        "tick    8: node 2 proposes 1:1 zab-0",
        "tick   10: node 2 proposes 1:1 zab-4",
    ]


def test_the_timeline_shows_when_links_are_cut_and_heal() -> None:
    """The second cut does not heal before the end."""
    cuts = (3, frozenset({(0, 1)})), (5, frozenset()), (7, frozenset({(2, 0)}))
    lines = timeline(LabArguments(seed=1, nodes=3, rounds=9, proposals=0, schedule=cuts))
    assert [line for line in lines if " link " in line] == [
        "tick    3: the link from node 1 to node 2 is cut",
        "tick    5: the link from node 1 to node 2 heals",
        "tick    7: the link from node 3 to node 1 is cut",
    ]


@pytest.mark.parametrize("least", [2, 4])
def test_shrinking_ends_with_as_few_nodes_proposals_and_cuts_as_still_fail(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a run fails with so many nodes, a proposal, and a cut of the link from node 0 to node 1."""

    def fails(arguments: LabArguments) -> bool:
        cut = any((0, 1) in links for _, links in arguments.schedule)
        return cut and arguments.nodes >= least and arguments.proposals > 0

    monkeypatch.setattr("zab_chaos.model.lab.shrink.judge_flapping", lambda run: "broken" if fails(run) else None)
    after, _ = shrink_flapping(lab_flapping(0))
    assert fails(after)
    assert (lab_flapping(0).nodes, after.nodes, after.proposals) == (5, least, 1)
    assert len(outages(after.schedule, after.rounds)) == 1


def test_a_commit_that_was_lost_was_not_heard() -> None:
    """Node 1 is cut off until tick 200."""
    cuts = (50, frozenset({(2, 0)})), (200, frozenset())
    lines = timeline(LabArguments(seed=3, nodes=3, rounds=300, proposals=2, schedule=cuts))
    assert [line for line in lines if " hears " in line] == [
        "tick  104: node 2 hears from node 3 that 1:1 is committed",
        "tick  204: node 1 hears from node 3 that 1:2 is committed",
        "tick  205: node 2 hears from node 3 that 1:2 is committed",
    ]
