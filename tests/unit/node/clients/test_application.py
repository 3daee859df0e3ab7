"""What waits at a leader, without a core."""

from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.node.clients import application
from zab_chaos.node.clients.application import Application, Layers
from zab_chaos.node.core.digest import HASHES
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.tree.forwarding import Forward
from zab_chaos.node.tree.requests import Create, Delete, Fence

LIMITS: dict[str, Any] = {"clients_max": 10, "waiting": 100, "request_bytes": 500, "flight": 2**20, "patience": 1}


def application_of_leader() -> tuple[Application, Any]:
    """Return the application of node 1, which leads, and what it sees of its core."""
    primary = SimpleNamespace(room=2, submitted=2**32, initial_last=0)
    machine = SimpleNamespace(primary=primary, in_broadcast=True)
    return Application(1, 1, Layers(), hash_bytes=HASHES["blake2b"], **LIMITS), machine


def test_the_bytes_that_wait_at_the_leader_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves frees its bytes at its own node, but what was forwarded for it waits on at the leader."""
    monkeypatch.setattr(application, "WAITING_BYTES", 1000)
    leader, machine = application_of_leader()
    writes = [(7, seq, ZERO, Create(f"/{seq}", bytes(400))) for seq in range(5)]
    leader.on_forward(2, Forward(1, [*writes, (8, 1, ZERO, Fence())]), machine)
    assert leader.waiting == 4
    ((node, answer),) = leader.answers_for_nodes()
    assert node == 2
    assert [(client, seq, error) for client, seq, error, *_ in answer.refusals] == [
        (7, 3, "overloaded"),
        (7, 4, "overloaded"),
    ]
    assert len(leader.forward_writes(machine)[1]) == 2  # what is prepared makes room
    leader.on_forward(2, Forward(1, [(7, 5, ZERO, Create("/5"))]), machine)
    assert leader.answers_for_nodes() == []


def test_bytes_that_are_no_longer_waiting_are_not_left_over() -> None:
    """Neither those of a write that became a transaction, nor those of one that was refused."""
    leader, machine = application_of_leader()
    what = "bytes of requests that wait at the leader"
    writes = [(7, 1, ZERO, Create("/a", bytes(400))), (7, 2, ZERO, Delete("/missing"))]
    leader.on_forward(2, Forward(1, writes), machine)
    assert leader.leftovers()[what] == 2 + 400 + 8
    leader.forward_writes(machine)
    assert leader.waiting == 0
    assert leader.leftovers()[what] == 0
