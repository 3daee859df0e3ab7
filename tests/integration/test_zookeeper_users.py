"""Users of ZooKeeper connect their own clients, in tests and to an ensemble that they started by hand."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from tests.integration.test_up import PATIENCE, end
from tests.integration.test_up import Up as Running
from tests.integration.zookeeper import release
from zab_chaos.harness.client import Unknown
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.live.address_file import running_ensembles
from zab_chaos.harness.machine.waiting import wait_until

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy, pytest.mark.timeout(300)]

SERVICE = """
import json, pytest
from pathlib import Path
from kazoo.client import KazooClient

@pytest.mark.zab(zookeeper="3.9.4")
def test_it(zab_cluster):
    client = KazooClient(zab_cluster.hosts, timeout=2.0)
    client.start()
    try:
        client.create("/a", b"1")
        client.create("/members/one-", b"", ephemeral=True, sequence=True, makepath=True)
        with zab_cluster.partitioned("leader"):
            client.retry(client.set, "/a", b"2")
        zab_cluster.crash("leader")
        assert client.retry(client.get, "/a")[0] == b"2"
    finally:
        client.stop()
        client.close()
    verdict = zab_cluster.finish()
    found = {each.name: each for each in verdict.properties}
    assert found["agreement"].checked > 3, found["agreement"]
    assert found["state equality"].checked >= 3, found["state equality"]
"""


def test_a_pytest_test_uses_its_own_client_and_the_servers_are_judged(pytester: pytest.Pytester) -> None:
    release("3.9.4")
    pytester.makepyfile(SERVICE)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize("version", ["3.4.14", "3.9.4"])
def test_znodes_that_only_their_owner_may_read_and_those_of_zookeeper_itself_are_no_violation(
    version: str, tmp_path: Path
) -> None:
    release(version)
    with Ensemble(zookeeper=version, results=tmp_path) as cluster:
        owner = KazooClient(cluster.hosts, timeout=5.0, auth_data=[("digest", "owner:secret")])
        owner.start()
        owner.create("/private/part", b"1", makepath=True, acl=[make_digest_acl("owner", "secret", all=True)])
        owner.create("/zookeeper/quota/private", b"")
        owner.stop()
        owner.close()
        with cluster.client() as client:
            client.create("/a", b"1")
            assert set(client.children("/")) == {"a", "private", "zookeeper"}
            with pytest.raises(Unknown, match="NoAuth"):
                client.get("/private/part")
    assert cluster.verdict is not None
    assert cluster.verdict.verdict == "PASS", cluster.verdict.reasons


def test_zab_up_prints_the_connection_string(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release("3.9.4")
    process = subprocess.Popen(
        [sys.executable, "-m", "zab_chaos.harness", "up", "--zookeeper", "3.9.4", "--results", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert wait_until(lambda: bool(running_ensembles(tmp_path)) or process.poll() is not None, PATIENCE)
        assert process.poll() is None, process.communicate()
        up = Running(process, tmp_path, running_ensembles(tmp_path)[0])
        client = KazooClient(",".join(up.ensemble.nodes.values()), timeout=5.0)
        client.start()
        client.create("/a", b"by kazoo")
        client.stop()
        client.close()
        assert up.say("client", "2", "get", "/a") == 0
        assert "by kazoo" in capsys.readouterr().out
        assert up.say("client", "1", "set", "/a", "by zab client") == 0
        assert up.say("inject", "crash", "target=leader") == 0
        assert up.say("inject", "heal") == 0
        code, said = end(up)
        assert code == 0, said
        assert f"connect       {','.join(up.ensemble.nodes.values())}" in said
        assert re.search(r"^PASS", said, re.MULTILINE), said
        assert list(Path(up.ensemble.folder, "config").glob("*.json")) == []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE)
