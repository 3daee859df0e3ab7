import dataclasses

import pytest

from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.ensemble_state import disagreement, leader_of, leftovers


def member(node: int, **changes: object) -> Status:
    """A node of a healthy ensemble of three under node 2."""
    status = Status(
        node=node, life=1, role="LEADING" if node == 2 else "FOLLOWING", phase="BROADCAST", leader=2, epoch=3,
        accepted_epoch=3, last_zxid=(3, 9), delivered=(3, 9), digest="aa", tree="bb", established=True, amnesiac=False,
        frames={}, armed=[], unsynced_bytes=0,
    )  # fmt: skip
    return dataclasses.replace(status, **changes)  # type: ignore[arg-type]


def ensemble(*changed: Status) -> dict[int, Status]:
    return {node: member(node) for node in (1, 2, 3)} | {status.node: status for status in changed}


def test_the_leader_is_the_established_one_with_a_quorum_behind_it() -> None:
    assert leader_of(ensemble(), 3) == 2
    looking = {"role": "LOOKING", "established": False, "leader": None}
    assert leader_of(ensemble(member(1, **looking)), 3) == 2
    assert leader_of(ensemble(member(1, **looking), member(3, **looking)), 3) is None
    assert leader_of(ensemble(member(2, established=False)), 3) is None
    assert leader_of({}, 3) is None


def test_observers_do_not_make_a_leader() -> None:
    observing = {node: member(node, role="OBSERVING") for node in (4, 5)}
    looking = member(1, role="LOOKING", established=False, leader=None)
    assert leader_of(ensemble(looking) | observing, 3) == 2
    assert leader_of(ensemble(looking, dataclasses.replace(looking, node=3)) | observing, 3) is None


def test_a_zombie_of_an_older_epoch_is_not_the_leader() -> None:
    zombie = member(2, epoch=2)
    assert leader_of(ensemble(member(1, role="LEADING", leader=1), zombie, member(3, leader=1)), 3) == 1
    assert leader_of(ensemble(zombie), 3) is None  # its followers are in a newer epoch: nobody follows it


def test_a_healthy_ensemble_has_converged() -> None:
    assert disagreement(ensemble(), [1, 2, 3]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"amnesiac": True}, "still amnesiac: node-3"),
        ({"established": False}, "not in the broadcast phase of an established leader: node-3"),
        ({"delivered": (3, 8)}, "not everything delivered: node-3"),
        ({"waiting": 1}, "requests waiting: node-3"),
        ({"waiting": -1}, "requests waiting: node-3"),
        ({"in_flight_bytes": 20}, "transactions in flight: node-3"),
        ({"in_flight_bytes": -1}, "transactions in flight: node-3"),
        ({"delivered": (3, 8), "last_zxid": (3, 8)}, "different zxids: node-1 3:9, node-2 3:9, node-3 3:8"),
        ({"epoch": 4}, "different epochs"),
        ({"leader": 1}, "different leaders"),
        ({"digest": "ab"}, "different digests"),
        ({"tree": "cc"}, "different trees"),
    ],
)
def test_each_way_in_which_a_node_can_lag_or_differ_is_named(changes: dict[str, object], words: str) -> None:
    said = disagreement(ensemble(member(3, **changes)), [1, 2, 3])
    assert said is not None
    assert said.startswith(words)


def test_a_silent_node_is_a_disagreement() -> None:
    answers = ensemble()
    del answers[1]
    assert disagreement(answers, [1, 2, 3]) == "no answer from node-1"


def test_what_is_left_over_is_named_by_node() -> None:
    assert leftovers(ensemble()) is None
    held = ensemble(member(1, leftovers={"sessions": 2, "claims": 0}), member(3, leftovers={"bytes of requests": -4}))
    assert leftovers(held) == "node-1: 2 sessions, node-3: -4 bytes of requests"
