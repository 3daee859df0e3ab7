"""One ZooKeeper server: what it is told, and how its process is started.

All servers are told the same: `server.N=zk-N:...`. What a name means is each server's own affair (`jdk.net.hosts.file`):
its own is a wildcard, any other the loopback address on which its proxies to that server listen. So whatever a server
tells another one of its peers (who leads, who has called, the members of the ensemble), the other goes its own way there.
A wildcard as its own address has a second use: it is not announced, and nobody calls back past the proxies. The server
listens on 127.0.0.1 all the same: a rule of Byteman sees to that (`links.btm`).
"""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from zab_chaos.harness.backends.processes.life import ProcessLife, launch
from zab_chaos.harness.backends.zookeeper import points
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.machine import die_with_parent
from zab_chaos.harness.results.run_folder import RunFolder, write_atomically

HOST = "127.0.0.1"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
RULES = Path(__file__).parent
LARGEST = 7
CRASHED = 255  # the exit status of a server that a rule has ended

# Small and quick: such an ensemble starts in two seconds and a half.
JVM = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # which would lie in /tmp
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=4096",  # KiB; 64 MiB for each log file of each epoch are zeros to be read over
    "-Dzookeeper.cnxTimeout=1000",  # ms; connecting to a server that is cut off blocks an election for so long
)


@dataclass(frozen=True, slots=True)
class Ports:
    """Of one server, all on 127.0.0.1."""

    client: int
    quorum: int
    election: int
    agent: int  # of Byteman


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an ensemble is built of. `settings` are lines of the servers' configuration, by name (times are in ticks), and
    `properties` those of their Java."""

    release: Release
    java: str
    ports: dict[int, Ports]
    proxied: bool = True  # between the servers are proxies; else they reach each other directly
    settings: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> list[int]:
        return sorted(self.ports)


SETTINGS = {
    "tickTime": "200",
    "initLimit": "50",  # ticks; so long one that alone takes itself for the leader waits for followers, too
    "syncLimit": "10",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
}


def way(source: int, target: int) -> str:
    """The loopback address at which `source` reaches `target`, through its proxies."""
    return f"127.101.{source}.{target}"


class Server:
    """What a server finds on the machine: its configuration, its disk, its logs."""

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

    def epochs(self) -> tuple[int, int]:
        """(acceptedEpoch, currentEpoch), as they stand on the disk; 0 where there is none."""
        return self._epoch("acceptedEpoch"), self._epoch("currentEpoch")

    def spawn(self, life: int, crash_at: str | None, log: Path) -> ProcessLife:
        """Start it. It dies with this process, whatever ends it. Raises ClusterError."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self.data / "myid", f"{self.node}\n")
        if crash_at is not None:
            write_atomically(self._rule, points.rule(crash_at, "crash", self._plan.release.numbers))
        process = launch(self.node, self._command(crash_at is not None), log, self.data, _environment())
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

    def _command(self, ruled: bool) -> list[str]:
        """`ruled`: its rule is in force from the start."""
        release = self._plan.release
        scripts = [RULES / "links.btm", *([self._rule] if ruled else [])]
        listens = ("listener:true", f"address:{HOST}", f"port:{self._plan.ports[self.node].agent}")
        agent = ",".join([*listens, *(f"script:{script}" for script in scripts), f"boot:{release.byteman}"])
        tied = [sys.executable, "-P", die_with_parent.__file__, "--parent", str(os.getpid())]
        return [
            *tied,
            self._plan.java,
            *JVM,
            f"-Djava.io.tmpdir={self.data}",
            f"-Djdk.net.hosts.file={self._hosts}",
            *(f"-D{name}={value}" for name, value in self._plan.properties.items()),
            f"-javaagent:{release.byteman}={agent}",
            "-Dorg.jboss.byteman.transform.all",  # also what Java itself listens with
            "-cp",
            os.pathsep.join(map(str, release.classpath)),
            MAIN,
            str(self._config),
        ]

    def _configuration(self) -> str:
        ports = self._plan.ports
        own = {"dataDir": str(self.data), "clientPortAddress": HOST, "clientPort": str(ports[self.node].client)}
        members = {f"server.{node}": f"zk-{node}:{at.quorum}:{at.election}" for node, at in sorted(ports.items())}
        lines = SETTINGS | self._plan.settings | own | members
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _names(self) -> str:
        lines = [f"{HOST} localhost"]
        for node in self._plan.nodes:
            other = way(self.node, node) if self._plan.proxied else HOST
            lines.append(f"{'0.0.0.0' if node == self.node else other} zk-{node}")
        return "\n".join(lines) + "\n"

    def _epoch(self, name: str) -> int:
        try:
            return int((self.data / "version-2" / name).read_text())
        except (OSError, ValueError):
            return 0


def _environment() -> dict[str, str]:
    """Ours, without what would change every Java."""
    return {name: value for name, value in os.environ.items() if name not in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")}
