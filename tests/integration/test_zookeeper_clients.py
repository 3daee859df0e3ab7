"""Clients of real ZooKeeper servers: their answers agree with the servers' logs, also when servers fail."""

import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from tests.integration.zookeeper import await_leader, deployed, eventually, start_ensemble
from zab_chaos.harness.backends.zookeeper import txnlog
from zab_chaos.harness.backends.zookeeper.client import ZooKeeperClient
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.log import OpsFile
from zab_chaos.model.events import Complete, Invoke, operation_from_json
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Unknown
from zab_chaos.node.tree.requests import Check, Children, Create, Delete, Exists, Get, Multi, Request, Set

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy]


def client_of(deployment: ZooKeeperDeployment, node: int, timeout: float = 10.0) -> ZooKeeperClient:
    addresses = {each: deployment.cluster.client_address(each) for each in deployment.cluster.nodes}
    return ZooKeeperClient(addresses, node, number=1, timeout=timeout)


def ask(client: ZooKeeperClient, request: Request) -> Outcome:
    return client.wait(client.submit(request))


def done(client: ZooKeeperClient, request: Request) -> Ok:
    outcome = ask(client, request)
    assert isinstance(outcome, Ok), outcome
    return outcome


@pytest.mark.parametrize("version", ["3.4.14", "3.8.4", "3.9.4"])
def test_every_answer_agrees_with_the_log_and_the_tree(tmp_path: Path, version: str) -> None:
    with deployed(tmp_path, version) as it:
        start_ensemble(it)
        with client_of(it, 2) as client:
            assert client.connect(20)
            told = [
                done(client, Create("/a", b"1")),
                done(client, Set("/a", b"2", 0)),
                done(client, Create("/a/s-", b"", sequential=True)),
                done(client, Multi([Check("/a", 1), Set("/a", b"3"), Create("/b")])),
                done(client, Delete("/b")),
                done(client, Check("/a", 2)),
            ]
            assert [one.version for one in told] == [0, 1, 0, None, None, 2]
            assert told[2].path == "/a/s-0000000000"
            assert [step.version for step in told[3].steps or ()] == [1, 2, 0]
            got = done(client, Get("/a"))
            assert (got.data, got.version, got.zxid) == (b"3", 2, told[-1].zxid)
            assert done(client, Children("/a")).children == ["s-0000000000"]
            assert done(client, Exists("/none")).version is None
            for request, error in (
                (Create("/a"), "node exists"), (Create("/x/y"), "no parent"), (Delete("/x"), "no node"),
                (Delete("/a"), "not empty"), (Set("/a", b"", 9), "bad version"), (Check("/a", 9), "bad version"),
                (Get("/x"), "no node"), (Multi([Set("/a", b"z"), Delete("/x")]), "no node"), (Create("x"), "bad request"),
            ):  # fmt: skip
                outcome = ask(client, request)
                assert isinstance(outcome, Failed), (request, outcome)
                assert outcome.error == error
            assert done(client, Get("/a")).data == b"3"
            sessions = client.sessions
        eventually(lambda: len({told.zxid for node in (1, 2, 3) if (told := it.cluster.srvr(node))}) == 1)
        it.cluster.kill_all(it.cluster.nodes)
        log = txnlog.read_disk(Path(it.cluster.disk_folder(2)))
        steps = {one.zxid: one.steps for one in log.transactions}
        assert steps[told[0].zxid] == (("create", "/a", 0, crc32(b"1")),)
        assert steps[told[1].zxid] == (("set", "/a", 1, crc32(b"2")),)
        assert [step[:3] for step in steps[told[3].zxid]] == [("check", "/a", 2), ("set", "/a", 2), ("create", "/b", 0)]
        assert steps[told[4].zxid] == (("delete", "/b", None, None),)
        assert {one.client for one in log.transactions} == set(sessions)


class Writer:
    """A client that always has a few writes outstanding, and records them in ops.jsonl."""

    def __init__(self, client: ZooKeeperClient, path: Path) -> None:
        self.client = client
        self.outcomes: list[tuple[str, Outcome]] = []
        self._ops = OpsFile(path)
        self._count = 0

    def write_until(self, until: Callable[[], bool], seconds: float = 40) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, self.outcomes[-3:]
            while self.client.outstanding < 5:
                self._write()
            self._ops.flush()
            self.client.poll(0.01)

    def close(self) -> None:
        self.client.close()
        self._ops.close()

    def _write(self) -> None:
        self._count += 1
        path = f"/w-{self._count}"

        def known(operation: Operation, outcome: Outcome) -> None:
            self._ops.complete(self.client, operation, outcome)  # type: ignore[arg-type]
            self.outcomes.append((path, outcome))

        operation = self.client.submit(Create(path, path.encode()), known)
        self._ops.invoke(self.client, operation, operation.submitted_ns)  # type: ignore[arg-type]

    @property
    def acknowledged(self) -> list[tuple[str, Ok]]:
        return [(path, outcome) for path, outcome in self.outcomes if isinstance(outcome, Ok)]


def test_a_client_loses_no_acknowledged_write_when_its_server_dies_or_hangs_or_when_it_moves(
    tmp_path: Path,
) -> None:
    with deployed(tmp_path) as it:
        leader = start_ensemble(it)
        first, second = (node for node in it.cluster.nodes if node != leader)
        writer = Writer(client_of(it, first, timeout=3.0), tmp_path / "ops.jsonl")
        writer.write_until(lambda: len(writer.acknowledged) > 50)
        assert writer.client.node == first
        it.cluster.kill(first)
        seen = len(writer.acknowledged)
        writer.write_until(lambda: len(writer.acknowledged) > seen + 50)
        assert writer.client.node != first
        it.cluster.start(first)
        await_leader(it)
        hung = writer.client.node
        it.cluster.pause(hung)
        seen = len(writer.acknowledged)
        writer.write_until(lambda: writer.client.node != hung and len(writer.acknowledged) > seen + 50)
        it.cluster.resume(hung)
        await_leader(it)
        writer.client.move(first)
        writer.write_until(lambda: writer.client.connected)
        assert writer.client.node == first
        unknown = [outcome for _, outcome in writer.outcomes if isinstance(outcome, Unknown)]
        assert unknown
        assert not [outcome for _, outcome in writer.outcomes if isinstance(outcome, Failed)]
        with client_of(it, second) as reader:
            for path, outcome in writer.acknowledged:
                assert done(reader, Get(path)).data == path.encode()
                assert outcome.zxid
        writer.close()
        lines = [operation_from_json(line) for line in (tmp_path / "ops.jsonl").read_bytes().splitlines()]
        invoked = {line.seq for line in lines if isinstance(line, Invoke)}
        completed = {line.seq for line in lines if isinstance(line, Complete)}
        assert invoked == completed
        assert len(lines) == 2 * len(invoked)


def test_an_expired_session_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        start_ensemble(it)
        addresses = {node: it.cluster.client_address(node) for node in it.cluster.nodes}
        with ZooKeeperClient(addresses, 1, number=1, session=1.0) as client:
            assert client.connect(20)
            assert done(client, Create("/a")).version == 0
            for node in it.cluster.nodes:
                it.cluster.pause(node)
            lost = client.submit(Create("/b"))
            end = time.monotonic() + 2
            while time.monotonic() < end:
                client.poll(0.05)
            it.cluster.kill_all(it.cluster.nodes)
            it.cluster.start_all(it.cluster.nodes)
            await_leader(it)
            assert isinstance(client.wait(lost), Unknown)
            time_up = time.monotonic() + 30
            while len(client.sessions) < 2 and time.monotonic() < time_up:
                ask(client, Exists("/a"))
            assert done(client, Exists("/a")).version == 0


def test_requests_of_one_session_have_different_numbers_also_after_it_has_moved(tmp_path: Path) -> None:
    """A server takes a session and a number for the request: it may answer a new one with an old one's result."""
    with deployed(tmp_path, "3.9.4") as it:
        start_ensemble(it)
        with client_of(it, 1) as client:
            assert client.connect(20)
            for node in (1, 2, 3):
                client.move(node)
                done(client, Create(f"/from-{node}"))
            (session,) = client.sessions
        it.cluster.kill_all(it.cluster.nodes)
        log = txnlog.read_disk(Path(it.cluster.disk_folder(1)))
        numbers = [one.cxid for one in log.transactions if one.client == session and one.steps]
        assert len(set(numbers)) == 3, numbers
