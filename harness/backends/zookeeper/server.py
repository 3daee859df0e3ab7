"""One ZooKeeper server: its configuration, and how its process is started.

All servers have the same list of members, `server.N=zk-N:...`. Each resolves the names for itself (`jdk.net.hosts.file`): its
own to a wildcard, any other to the loopback address on which its proxies to that server listen. So when a server passes a
peer's address on (of the leader, of a peer that has connected, of the members), the receiver still connects through its own
proxies. A wildcard as its own address has a second use: a server does not announce it, so nobody connects back past the
proxies. It listens on 127.0.0.1 all the same: a rule of Byteman sees to that (`links.btm`).
"""

import os
import re
import secrets
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

from zab_chaos.harness.backends.processes.life import ProcessLife, launch
from zab_chaos.harness.backends.zookeeper import points
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.machine.die_with_parent import tied
from zab_chaos.harness.results.run_folder import RunFolder, write_atomically

HOST = "127.0.0.1"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
RULES = Path(__file__).parent
MAX_SERVERS = 7
CRASHED = 255  # exit status of a server that a Byteman rule has ended

# A user that may read znodes whose ACL lets only their owner do that: at the end, the whole tree is read.
SUPERUSER = f"super:{secrets.token_hex(16)}"
SUPERUSER_DIGEST = f"super:{b64encode(sha1(SUPERUSER.encode(), usedforsecurity=False).digest()).decode()}"

HEAP = "Xmx"  # among the properties: the size of the heap
HEAP_SIZE = "256m"

# Settings for a small JVM that starts fast: an ensemble is up in two and a half seconds.
JVM = (
    "-XX:+ExitOnOutOfMemoryError",  # as ZooKeeper's own script has it: a server would go on without some of its threads
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # its files would be in /tmp
    "-Djava.net.preferIPv4Stack=true",
    "-Duser.timezone=UTC",  # in the logs, where local time would repeat an hour each year
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=4096",  # KiB; the default of 64 MiB means as many zeros to read in each log file
    "-Dzookeeper.cnxTimeout=1000",  # ms; for so long, connecting to a server that is cut off blocks an election
    f"-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPERUSER_DIGEST}",
)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one server, all on 127.0.0.1."""

    client: int
    quorum: int
    election: int
    agent: int  # where Byteman takes rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How an ensemble is built. The last `observers` of its servers do not vote. `dynamic`: its members can be changed.

    `release` is the one that all servers begin with, `settings` are lines of their configuration, by name (times are in ticks),
    and `properties` are Java system properties, and HEAP.
    """

    release: Release
    java: str
    ports: dict[int, Ports]
    observers: int = 0
    dynamic: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> list[int]:
        return sorted(self.ports)

    @property
    def voters(self) -> list[int]:
        return self.nodes[: len(self.ports) - self.observers]

    @property
    def heap(self) -> str:
        return self.properties.get(HEAP, HEAP_SIZE)

    def member(self, node: int) -> str:
        """Return the server as the list of members has it, after `server.N=`."""
        ports, role = self.ports[node], "" if node in self.voters else ":observer"
        client = f";{HOST}:{ports.client}" if self.dynamic else ""
        return f"zk-{node}:{ports.quorum}:{ports.election}{role}{client}"


SETTINGS = {
    "tickTime": "200",
    "initLimit": "50",  # ticks; also how long a server that alone takes itself for the leader waits for followers
    "syncLimit": "10",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
}


def proxy_host(source: int, target: int) -> str:
    """Return the loopback address at which the proxies listen through which `source` reaches `target`."""
    return f"127.101.{source}.{target}"


class ZooKeeperServer:
    """One server of an ensemble: writes its configuration, and starts its process once for each life."""

    def __init__(self, folder: RunFolder, plan: Plan, node: int) -> None:
        self.node = node
        self.data = folder.file("data", f"node-{node}")
        self._folder = folder
        self._plan = plan
        write_atomically(self._config, self._configuration())
        write_atomically(self._hosts, self._names())

    @property
    def client_address(self) -> str:
        return f"{HOST}:{self._plan.ports[self.node].client}"

    def spawn(self, release: Release, life: int, crash_at: str | None, log: Path) -> ProcessLife:
        """Start a process of this release. It dies with the harness's, whatever ends that. Raises ClusterError."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self.data / "myid", f"{self.node}\n")
        if self._is_removed():  # whoever adds a server gives it a list that has it
            write_atomically(self._config, self._configuration())
        if crash_at is not None:
            write_atomically(self._rule, points.rule(crash_at, "crash", release.numbers))
        process = launch(self.node, self._command(release, crash_at is not None), log, self.data, _environment())
        return ProcessLife(self.node, life, process, log, crash_at)

    @property
    def _config(self) -> Path:
        return self._folder.file("config", f"node-{self.node}.cfg")

    @property
    def _rule(self) -> Path:
        return self._folder.file("config", f"node-{self.node}.btm")

    @property
    def _hosts(self) -> Path:
        return self._folder.file("config", f"node-{self.node}.hosts")

    def _is_removed(self) -> bool:
        """Return whether the server keeps a list of members without itself, with which it would refuse to start."""
        kept = re.search(r"^dynamicConfigFile=(.+)$", self._config.read_text(), re.MULTILINE)
        return kept is not None and f"server.{self.node}=" not in Path(kept[1]).read_text()

    def _command(self, release: Release, with_rule: bool) -> list[str]:
        """Return the command line; with `with_rule`, the rule of a crash point is in force from the start."""
        scripts = [RULES / "links.btm", *([self._rule] if with_rule else [])]
        listener = ("listener:true", f"address:{HOST}", f"port:{self._plan.ports[self.node].agent}")
        agent = ",".join([*listener, *(f"script:{script}" for script in scripts), f"boot:{release.byteman}"])
        return tied(
            self._plan.java,
            *JVM,
            f"-Djava.io.tmpdir={self.data}",
            f"-Djdk.net.hosts.file={self._hosts}",
            f"-Xmx{self._plan.heap}",
            *(f"-D{name}={value}" for name, value in self._plan.properties.items() if name != HEAP),
            f"-javaagent:{release.byteman}={agent}",
            "-Dorg.jboss.byteman.transform.all",  # also the JDK's own classes, for `links.btm`
            "-cp",
            os.pathsep.join(map(str, release.classpath)),
            MAIN,
            str(self._config),
        )

    def _configuration(self) -> str:
        plan, own = self._plan, {"dataDir": str(self.data)}
        if not plan.dynamic:
            own |= {"clientPortAddress": HOST, "clientPort": str(plan.ports[self.node].client)}
        members = {f"server.{node}": plan.member(node) for node in plan.nodes}
        role = {} if self.node in plan.voters else {"peerType": "observer"}
        lines = SETTINGS | plan.settings | own | role | members
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _names(self) -> str:
        lines = [f"{HOST} localhost"]
        for node in self._plan.nodes:
            lines.append(f"{'0.0.0.0' if node == self.node else proxy_host(self.node, node)} zk-{node}")
        return "\n".join(lines) + "\n"


def _environment() -> dict[str, str]:
    """Return the harness's environment without the variables that add options to every JVM."""
    return {name: value for name, value in os.environ.items() if name not in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")}
