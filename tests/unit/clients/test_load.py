"""What the workload asks for is drawn from the seed, and each write can be told from every other."""

import collections
import re
from typing import Any

import pytest

from harness.load import OPERATIONS, Draw, Load
from node.core.zxid import Zxid
from node.tree.outcomes import Failed, Ok
from node.tree.requests import ANY, Check, Create, Delete, Multi, Request, Set

EVERYTHING = dict.fromkeys(OPERATIONS, 1.0)


def draw(load: Load, seed: int = 1, client: int = 1, count: int = 400) -> list[Request]:
    drawn = Draw(load, seed, client)
    return [drawn.request() for _ in range(count)]


def test_one_seed_one_sequence_for_each_client() -> None:
    load = Load(mix=EVERYTHING)
    assert draw(load) == draw(load)
    assert draw(load) == draw(Load(mix=dict(reversed(EVERYTHING.items()))))
    assert draw(load) != draw(load, seed=2)
    assert draw(load) != draw(load, client=2)


def test_the_mix_is_what_is_asked_for() -> None:
    counts = collections.Counter(
        type(request).__name__.lower() for request in draw(Load(mix={"set": 3, "get": 1}), count=4000)
    )
    assert set(counts) == {"set", "get"}
    assert 2800 < counts["set"] < 3200
    assert {type(request).__name__.lower() for request in draw(Load(mix=EVERYTHING))} == set(OPERATIONS)


@pytest.mark.parametrize("size", [0, 3, 100])
def test_every_payload_is_unique_and_padded(size: int) -> None:
    load = Load(payload_bytes=size)
    payloads = [d.payload() for d in (Draw(load, 1, 1), Draw(load, 1, 2), Draw(load, 1, 11)) for _ in range(200)]
    assert len(set(payloads)) == 600
    assert all(len(payload) == 100 for payload in payloads) or size < 100
    assert all(re.match(rb"(1|2|11)\.\d+\.", payload) for payload in payloads)


def test_deletes_take_the_clients_own_children_oldest_first() -> None:
    requests = draw(Load(mix={"create": 1, "delete": 1}))
    created = [request.path for request in requests if isinstance(request, Create)]
    deleted = [request.path for request in requests if isinstance(request, Delete)]
    assert deleted
    assert deleted == created[: len(deleted)]
    assert len(set(created)) == len(created)


def test_a_check_asks_for_the_version_that_was_seen() -> None:
    drawn = Draw(Load(mix={"check": 1}, keys=1), 1, 1)
    assert drawn.request() == Check("/key-0", ANY)
    drawn.learn(Set("/key-0", b""), Ok(Zxid(1), 4))
    drawn.learn(Multi([Set("/key-0", b"")]), Ok(Zxid(2)))
    drawn.learn(Set("/key-0", b""), Failed("bad version", ""))
    assert drawn.request() == Check("/key-0", 4)


def test_all_mistakes_are_told_at_once() -> None:
    wrong: dict[str, Any] = {"clients": 0, "rate": 0, "payload_bytes": -1, "mix": {"sett": 1}}
    with pytest.raises(
        ValueError, match=r"clients is 0.*rate is 0.*payload_bytes is -1.*'sett'; allowed are create, set"
    ):
        Load(**wrong)
    with pytest.raises(ValueError, match="one above 0"):
        Load(mix={"set": 0})
