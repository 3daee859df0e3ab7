"""Which settings of the servers a scenario may choose, and what a server says of one that it refuses."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.faults.scenario import parse
from zab_chaos.harness.backends.processes.life import ProcessLife
from zab_chaos.harness.backends.zookeeper.backend import ZooKeeperBackend, require_release
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import SETTINGS, Plan, Ports, ZooKeeperServer
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.results.run_folder import RunFolder

REFUSED = """\
2026-01-31 12:00:00,342 [main] ERROR QuorumPeerMain - Invalid config, exiting abnormally
org.apache.zookeeper.server.quorum.QuorumPeerConfig$ConfigException: Error processing node-1.cfg
Caused by: java.lang.NumberFormatException: For input string: "abc"
\tat org.apache.zookeeper.server.quorum.QuorumPeerConfig.parseProperties(QuorumPeerConfig.java:310)
\t... 2 more
Invalid config, exiting abnormally
"""
SCENARIO = '[scenario]\nname = "mine"\n[zookeeper]\nsettings = {{ "{}" = "1" }}\n'


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dataDir", "the harness sets it"),
        ("clientPort", "the harness sets it"),
        ("server.4", "the harness sets it"),
        ("dataLogDir", "the transaction logs are read from dataDir"),
        ("weight.1", "the verdict takes all servers that vote for equal"),
        ("peerType", "the harness sets it"),
        ("syncEnabled", "the logs of observers are read"),
        ("4lw.commands.whitelist", "the harness asks the servers for their roles"),
        ("sslQuorum", "the harness supports neither TLS nor SASL"),
        ("ssl.quorum.keyStore.location", "the harness supports neither TLS nor SASL"),
        ("secureClientPort", "the harness supports neither TLS nor SASL"),
        ("client.portUnification", "the harness supports neither TLS nor SASL"),
        ("quorum.auth.enableSasl", "the harness supports neither TLS nor SASL"),
    ],
)
def test_a_setting_on_which_the_evidence_depends_is_refused(name: str, reason: str) -> None:
    assert ZooKeeperBackend().mistakes(parse(SCENARIO.format(name))) == [
        f"[zookeeper] settings can't have {name}: {reason}"
    ]


def test_the_last_servers_are_configured_as_observers(tmp_path: Path) -> None:
    ports = {node: Ports(10 + node, 20 + node, 30 + node, 40 + node) for node in (1, 2, 3)}
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports=ports, observers=1)
    tmp_path.joinpath("config").mkdir()
    cluster = ZooKeeperCluster(RunFolder(tmp_path), plan)
    configured = {node: tmp_path.joinpath("config", f"node-{node}.cfg").read_text().split() for node in cluster.nodes}
    for lines in configured.values():
        assert [line for line in lines if line.startswith("server.")] == [
            "server.1=zk-1:21:31", "server.2=zk-2:22:32", "server.3=zk-3:23:33:observer",
        ]  # fmt: skip
    assert [node for node, lines in configured.items() if "peerType=observer" in lines] == [3]
    assert (cluster.nodes, cluster.voters) == ([1, 2, 3], [1, 2])


def test_what_older_servers_can_not_do_is_refused() -> None:
    observed = parse(
        '[scenario]\nname = "mine"\nobservers = 1\n[[fault]]\nat = 1\ndo = "remove-member"\ntarget = "one"\n'
    )
    require_release(observed, "3.5.3")
    with pytest.raises(BadInput) as caught:
        require_release(observed, "3.4.5")
    assert str(caught.value).splitlines() == [
        "[scenario] observers: those of ZooKeeper 3.4.5 write no log, which the verdict needs. Allowed: 3.4.6 and "
        "later releases",
        "remove-member: ZooKeeper 3.4.5 can't change its members. Allowed: 3.5.3 and later releases",
    ]
    require_release(parse('[scenario]\nname = "mine"\n'), "3.4.5")


@pytest.mark.parametrize(
    "name", ["snapCount", "forceSync", "authProvider.1", "serverCnxnFactory", "quorum.cnxn.threads.size"]
)
def test_any_other_setting_is_allowed(name: str) -> None:
    assert ZooKeeperBackend().mistakes(parse(SCENARIO.format(name))) == []


def test_a_server_that_ends_gives_its_reason_or_else_the_end_of_its_log(tmp_path: Path) -> None:
    """The last lines of a Java program's log are the end of a stack trace."""
    nobody: Any = None
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports={})
    cluster = ZooKeeperCluster(RunFolder(tmp_path), plan)
    life = cluster._lives[1] = ProcessLife(1, 1, nobody, tmp_path / "node-1-1.log")
    warned = "[warning] a deprecated option\n"
    for text, words in (
        (REFUSED, 'java.lang.NumberFormatException: For input string: "abc"'),
        ("killed\n", "killed"),
        (f"java.io.IOException: no\n\tat A.B(C.java:1)\n{6 * warned}", "java.io.IOException: no"),
        (f"{6 * warned}Error of the VM\nToo small\n", f"{3 * warned}Error of the VM\nToo small"),
    ):
        life.log.write_text(text)
        assert cluster.last_words(1) == words


def test_a_setting_of_a_scenario_replaces_a_default_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    asked = {"syncLimit": "99", "snapCount": "7", "clientPort": "1"}
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports={1: Ports(11, 12, 13, 14)}, settings=asked)
    ZooKeeperCluster(RunFolder(tmp_path), plan)
    lines = (tmp_path / "config" / "node-1.cfg").read_text().splitlines()
    written = dict(line.split("=", 1) for line in lines)
    assert len(written) == len(lines)
    assert {name: written[name] for name in asked} == {"syncLimit": "99", "snapCount": "7", "clientPort": "11"}
    assert SETTINGS.items() - written.items() == {("syncLimit", SETTINGS["syncLimit"])}


def test_a_defect_is_there_whatever_the_scenario_sets(tmp_path: Path) -> None:
    scenario = parse('[scenario]\nname = "mine"\n[zookeeper]\nsettings = { forceSync = "yes", snapCount = "7" }\n')
    defective = ZooKeeperDeployment(RunFolder(tmp_path), scenario, "3.9.5", settings={"forceSync": "no"})
    assert defective._settings == {"forceSync": "no", "snapCount": "7"}


@pytest.mark.parametrize(("java", "options"), [({}, ["-Xmx256m"]), ({"Xmx": "1g", "a": "b"}, ["-Xmx1g", "-Da=b"])])
def test_a_scenario_may_choose_the_heap(java: dict[str, str], options: list[str], tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    release = Release("3.9.5", (), tmp_path)
    plan = Plan(release=release, java="java", ports={1: Ports(11, 12, 13, 14)}, properties=java)
    command = ZooKeeperServer(RunFolder(tmp_path), plan, 1)._command(release, with_rule=False)
    assert [option for option in command if "Xmx" in option or option.startswith("-Da")] == options


@pytest.mark.parametrize(
    ("java", "words"),
    [
        ('Xms = "1g"', "java can't have Xms: it has system properties, and Xmx, the size of the heap"),
        ('"-Xmx1g" = ""', "java can't have -Xmx1g: it has system properties, and Xmx, the size of the heap"),
        ('Xmx = "1 GB"', "java has Xmx = '1 GB'. Allowed: a size of the heap, such as 512m or 2g"),
    ],
)
def test_other_options_of_java_are_refused(java: str, words: str) -> None:
    scenario = parse(f'[scenario]\nname = "mine"\n[zookeeper]\njava = {{ {java} }}\n')
    assert ZooKeeperBackend().mistakes(scenario) == [f"[zookeeper] {words}"]


def test_an_ensemble_without_a_leader_shows_where_the_logs_are(tmp_path: Path) -> None:
    deployment: Any = ZooKeeperDeployment(RunFolder(tmp_path), parse('[scenario]\nname = "mine"\n'), "3.9.5")
    deployment.cluster = SimpleNamespace(
        nodes=[1, 2], leader=lambda: None, log=lambda node, life: tmp_path / f"{node}-{life}"
    )
    logs = "no leader was established (the servers' logs are log/node-*.log in the run's folder"
    assert deployment.missing() == f"{logs})"
    (tmp_path / "2-1").write_text("a WARN\njava.net.ConnectException: refused\n\tat A.getException(A.java:1)\n")
    assert deployment.missing() == f"{logs}; node-2: java.net.ConnectException: refused)"
