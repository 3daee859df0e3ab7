"""The client for asyncio and the one for a thread, against real nodes: order, three outcomes, another node, cancellation."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from zab_chaos.harness.client import AsyncSession, Done, Failed, Get, Set, Unknown, connect, connect_async
from zab_chaos.harness.live import Ensemble
from zab_chaos.model.verdict import Outcome

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One ensemble for all tests here; each leaves it whole. What they did must be right in the end."""
    with Ensemble(results=tmp_path_factory.mktemp("aio")) as ensemble:
        yield ensemble
        verdict = ensemble.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def session(cluster: Ensemble, node: int | None = None, timeout: float = 20.0) -> AsyncSession:
    return connect_async(cluster.addresses, secret(cluster), node=node, timeout=timeout, record=ops(cluster))


def secret(cluster: Ensemble) -> Path:
    assert cluster.folder is not None
    return cluster.folder.file("config", "clients.json")


def ops(cluster: Ensemble) -> Path:
    assert cluster.folder is not None
    return cluster.folder.file("ops.jsonl")


def test_many_outstanding_take_effect_in_their_order(cluster: Ensemble) -> None:
    async def many() -> None:
        async with session(cluster) as client:
            await client.create("/many", b"")
            futures = [client.submit(Set("/many", b"%d" % n)) for n in range(2000)]
            assert client.outstanding == 2000
            done = await asyncio.gather(*futures)
            assert [each.version for each in done] == list(range(1, 2001))
            zxids = [each.zxid for each in done]
            assert zxids == sorted(set(zxids))
            assert (await client.get("/many")).value == b"1999"
            assert await client.exists("/many")
            assert not await client.exists("/few")
            assert "many" in await client.children("/")

    asyncio.run(many())


def test_what_was_refused_is_failed_and_nothing_else_is(cluster: Ensemble) -> None:
    async def refused() -> None:
        async with session(cluster) as client:
            await client.create("/refused")
            with pytest.raises(Failed, match="node exists") as error:
                await client.create("/refused")
            assert error.value.error == "node exists"
            with pytest.raises(Failed, match="bad version"):
                await client.set("/refused", b"", version=9)
            outcomes = await asyncio.gather(
                client.submit(Get("/nothing")), client.submit(Get("/refused")), return_exceptions=True
            )
            assert isinstance(outcomes[0], Failed)
            assert isinstance(outcomes[1], Done)

    asyncio.run(refused())


def test_a_node_that_dies_leaves_what_was_on_its_way_unknown_and_the_client_goes_on_elsewhere(
    cluster: Ensemble,
) -> None:
    leader = cluster.until_established()
    node = leader % 3 + 1  # a follower: nobody else stands still

    async def dies() -> None:
        async with session(cluster, node) as client:
            await client.create("/dies")
            assert client.node == node
            number = client.number
            cluster.pause(node)  # so that what is asked now is certainly on its way when it dies
            lost = [client.submit(Set("/dies", b"%d" % n)) for n in range(10)]
            await asyncio.sleep(0)
            cluster.crash(node)
            results = await asyncio.gather(*lost, return_exceptions=True)
            assert {type(result) for result in results} == {Unknown}
            assert (await client.set("/dies", b"after")).version is not None
            assert client.node != node
            assert client.number == number

    try:
        asyncio.run(dies())
    finally:
        cluster.heal()
        cluster.until_converged()


def test_who_waits_no_longer_has_not_undone_anything(cluster: Ensemble) -> None:
    async def cancelled() -> None:
        async with session(cluster) as client:
            await client.create("/cancelled")
            future = client.submit(Set("/cancelled", b"all the same"))
            future.cancel()
            with pytest.raises(asyncio.CancelledError):
                await future
            assert (await client.get("/cancelled")).value == b"all the same"  # behind it, in the session's order

    asyncio.run(cancelled())


def test_what_is_outstanding_when_it_is_closed_is_unknown(cluster: Ensemble) -> None:
    node = cluster.until_established() % 3 + 1  # a follower: nobody else stands still

    async def closed() -> None:
        async with session(cluster, node) as client:
            await client.create("/closed")
            cluster.pause(node)  # else it may answer before the session is closed
            future = client.submit(Set("/closed", b"1"))
        with pytest.raises(Unknown, match="closed"):
            await future
        with pytest.raises(ValueError, match="closed"):
            client.submit(Get("/closed"))

    try:
        asyncio.run(closed())
    finally:
        cluster.heal()
        cluster.until_converged()


def test_nobody_there_is_unknown_when_time_is_up(cluster: Ensemble) -> None:
    async def nobody() -> None:
        async with connect_async({1: "127.0.0.1:9"}, secret(cluster), timeout=0.3) as client:
            with pytest.raises(Unknown, match=r"no answer within 0\.3 s"):
                await client.get("/")

    asyncio.run(nobody())


def test_two_sessions_in_one_loop_see_each_others_writes(cluster: Ensemble) -> None:
    async def two() -> None:
        async with session(cluster, 1) as one, session(cluster, 2) as other:
            written = await one.create("/two", b"1")
            seen = await other.set("/two", b"2", version=0)
            assert seen.zxid > written.zxid

    asyncio.run(two())


def test_the_form_for_one_thread_does_the_same(cluster: Ensemble) -> None:
    with connect(cluster.addresses, secret(cluster), record=ops(cluster)) as client:
        client.create("/thread", b"1")
        pending = [client.submit(Set("/thread", b"%d" % n)) for n in range(100)]
        assert [each.result().version for each in pending] == list(range(1, 101))
        with pytest.raises(Failed):
            client.create("/thread")
