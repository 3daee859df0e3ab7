"""The lab's simulator: delays, cut links, waiting proposals, illegal arguments."""

from collections import Counter

import pytest

from zab_chaos.model.lab import ArrivalObserver, BadLabArguments, LabArguments, LabNode, LabSimulator, Link, Message
from zab_chaos.model.lab.messages import LookForLeader, NewLeader, Propose, Role, Txn, Vote
from zab_chaos.model.lab.node import Outgoing
from zab_chaos.model.lab.splitmix import splitmix64
from zab_chaos.model.lab.transcript import transcript_line
from zab_chaos.node.core.zxid import ZERO, zxid

Arrival = tuple[int, Link, Message, bool]


def recording(into: list[Arrival]) -> ArrivalObserver:
    def observe(now: int, source: int, destination: int, message: Message, arrives: bool) -> None:
        into.append((now, (source, destination), message, arrives))

    return observe


def run(arguments: LabArguments) -> tuple[LabSimulator, list[Arrival]]:
    arrivals: list[Arrival] = []
    simulator = LabSimulator(arguments, recording(arrivals))
    simulator.run()
    return simulator, arrivals


def test_the_first_messages_take_the_seeded_delay_and_arrive_by_sender_then_in_order_of_sending() -> None:
    _, arrivals = run(LabArguments(seed=9, nodes=3, rounds=4, proposals=0))
    first = [
        (1 + splitmix64(9 ^ source ^ to ^ 0) % 3, source, kind, to)
        for source in range(3)
        for kind in (0, 1)  # all of LookForLeader goes out before the first Vote
        for to in range(3)
        if to != source
    ]
    sent_at_zero = [
        (now, link[0], int(type(message) is Vote), link[1])
        for now, link, message, _ in arrivals
        if type(message) is LookForLeader or (type(message) is Vote and message.leader_id == link[0])
    ]
    assert sent_at_zero == sorted(first)


def test_nothing_arrives_over_a_cut_link_and_everything_over_the_others() -> None:
    _, arrivals = run(LabArguments(seed=3, nodes=3, rounds=300, proposals=3, partition=frozenset({(0, 1), (2, 0)})))
    fate: dict[Link, set[bool]] = {}
    for _, link, _, arrives in arrivals:
        fate.setdefault(link, set()).add(arrives)
    assert fate == {link: {link not in {(0, 1), (2, 0)}} for link in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]}


def test_a_schedule_cuts_and_heals_on_top_of_the_partition() -> None:
    arguments = LabArguments(
        seed=3,
        nodes=3,
        rounds=900,
        proposals=30,
        partition=frozenset({(0, 1)}),
        schedule=((300, frozenset({(2, 1), (1, 2)})), (600, frozenset())),
    )
    _, arrivals = run(arguments)
    lost = Counter((min(now // 300, 2), link) for now, link, _, arrives in arrivals if not arrives)
    whole = Counter((min(now // 300, 2), link) for now, link, _, arrives in arrivals if arrives)
    assert {stretch for stretch, link in lost if link == (2, 1)} == {1}
    assert {stretch for stretch, link in whole if link == (2, 1)} == {0, 2}
    assert not any(link == (0, 1) for _, link in whole)


def test_a_schedule_that_cuts_from_tick_0_equals_a_partition() -> None:
    links = frozenset({(0, 1), (2, 0)})
    partition = LabArguments(seed=5, nodes=3, rounds=700, proposals=9, partition=links)
    schedule = LabArguments(seed=5, nodes=3, rounds=700, proposals=9, schedule=((0, links),))
    assert LabSimulator(partition).run() == LabSimulator(schedule).run()


def test_proposals_wait_for_a_leader_and_keep_their_order() -> None:
    """Until tick 600 all links are cut, so four proposals have to wait."""
    everything = frozenset((a, b) for a in range(3) for b in range(3) if a != b)
    arguments = LabArguments(seed=1, nodes=3, rounds=900, proposals=8, schedule=((0, everything), (600, frozenset())))
    simulator, arrivals = run(arguments)
    assert not any(arrives for now, _, _, arrives in arrivals if now < 600)
    assert [[txn.payload for txn in node.committed()] for node in simulator.nodes] == [
        [b"zab-%d" % i for i in range(8)]
    ] * 3


def test_proposals_come_evenly_spread() -> None:
    """K = 4 over 100 ticks with one node: at 20, 40, 60, 80, so a run that stops at tick 60 has seen two."""
    for rounds, proposals, expected in [(100, 4, 4), (3, 10, 10), (0, 5, 0)]:
        simulator, _ = run(LabArguments(seed=0, nodes=1, rounds=rounds, proposals=proposals))
        assert [txn.payload for txn in simulator.nodes[0].history] == [b"zab-%d" % i for i in range(expected)]

    arrivals: list[Arrival] = []
    LabSimulator(LabArguments(seed=42, nodes=3, rounds=1000, proposals=3), recording(arrivals)).run()
    first_seen: dict[bytes, int] = {}
    for now, _, message, _ in arrivals:
        if isinstance(message, Propose):
            first_seen.setdefault(message.txn.payload, now)
    assert all(0 < first_seen[b"zab-%d" % i] - (i + 1) * 250 <= 3 for i in range(3))


def test_of_two_synced_leaders_the_one_with_the_lowest_id_gets_the_proposals() -> None:
    class Leader(LabNode):
        def start(self, now: int) -> Outgoing:
            self.current_epoch, self.role, self.synced = 1, Role.LEADING, self.id > 0
            return []

    simulator = LabSimulator(LabArguments(seed=1, nodes=3, rounds=9, proposals=2), make_node=Leader)
    simulator.run()
    assert [len(node.history) for node in simulator.nodes] == [0, 2, 0]


def test_all_mistakes_of_the_arguments_are_reported_at_once() -> None:
    with pytest.raises(BadLabArguments) as raised:
        LabArguments(
            seed=2**64,
            nodes=3,
            rounds=-1,
            proposals=2**32,
            partition=frozenset({(0, 3), (-1, 1)}),
            schedule=((5, frozenset({(7, 0)})), (5, frozenset())),
        )
    assert raised.value.mistakes == [
        "seed is 18446744073709551616; allowed is 0 to 18446744073709551615",
        "rounds is -1; allowed is 0 to 4294967295",
        "proposals is 4294967296; allowed is 0 to 4294967295",
        "partition names node -1; with 3 nodes the ids are 0 to 2",
        "partition names node 3; with 3 nodes the ids are 0 to 2",
        "schedule has the ticks [5, 5]; each must be later than the one before",
        "schedule at tick 5 names node 7; with 3 nodes the ids are 0 to 2",
    ]


@pytest.mark.parametrize("nodes", [0, -3, 65])
def test_an_impossible_number_of_nodes_is_one_mistake(nodes: int) -> None:
    with pytest.raises(BadLabArguments) as raised:
        LabArguments(seed=0, nodes=nodes, rounds=1, proposals=0, partition=frozenset({(0, 9)}))
    assert raised.value.mistakes == [f"nodes is {nodes}; allowed is 1 to 64"]


def test_a_transcript_line() -> None:
    history = (Txn(zxid(1, 1), b"zab-0"), Txn(zxid(1, 2), b"zab-1"))
    assert transcript_line(7, 0, 2, Vote(0, ZERO, 1, 2), True) == (
        "     7  1->3  Vote           voter_id=1 last_zxid=0:0 peer_epoch=1 leader_id=3"
    )
    assert transcript_line(1234, 2, 0, NewLeader(3, history), False) == (
        "  1234  3->1  NewLeader      new_epoch=3 history=[1:1 zab-0, 1:2 zab-1]  (lost: the link is cut)"
    )
    assert transcript_line(9, 2, 1, Propose(history[0]), True) == "     9  3->2  Propose        txn=[1:1 zab-0]"
