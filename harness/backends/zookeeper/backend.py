"""The `zookeeper` backend: a run's nodes are Apache ZooKeeper's own servers."""

import re
import sys
from collections.abc import Collection, Mapping

from zab_chaos.faults.abilities import NOT_OURS, Ability
from zab_chaos.faults.scenario import BAD_PATH, OPERATIONS, Scenario
from zab_chaos.harness.backends.backend import Backend, Deployment, RunOptions
from zab_chaos.harness.backends.processes import disks
from zab_chaos.harness.backends.run_releases import RunReleases, asked_for
from zab_chaos.harness.backends.zookeeper import known_settings, membership, releases
from zab_chaos.harness.backends.zookeeper.points import ACTIONS, LOCATIONS
from zab_chaos.harness.backends.zookeeper.server import HEAP, MAX_SERVERS
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import LOGS

DEFECTS = {"no-force-sync": "forceSync=no"}  # settings with which ZooKeeper itself breaks a promise

SIZE = re.compile(r"\d+[kKmMgG]?")  # as Java takes it
OBSERVERS_LOG = (3, 4, 6)  # the first release whose observers write a log
OWN, EQUAL = "the harness sets it", "the verdict takes all servers that vote for equal"
SECURITY = "the harness supports neither TLS nor SASL"
RESERVED = {  # by name, or by what is before one of its dots, as in server.1
    **dict.fromkeys(("dataDir", "clientPort", "clientPortAddress", "server", "peerType"), OWN),
    **dict.fromkeys(("group", "weight", "dynamicConfigFile"), EQUAL),
    **dict.fromkeys(("ssl", "sslQuorum", "sslQuorumReloadCertFiles", "secureClientPort"), SECURITY),
    **dict.fromkeys(("secureClientPortAddress", "portUnification", "client.portUnification"), SECURITY),
    **dict.fromkeys(("quorum.auth", "enforce.auth", "sessionRequireClientSASLAuth"), SECURITY),
    "syncEnabled": "the logs of observers are read",
    "dataLogDir": "the transaction logs are read from dataDir",
    "4lw.commands.whitelist": "the harness asks the servers for their roles",
}


class ZooKeeperBackend(Backend):
    """Runs scenarios on released ZooKeeper servers, as processes of this machine."""

    name = "zookeeper"
    abilities = disks.ABILITIES | NOT_OURS | {
        *(Ability.PAUSE, Ability.LINKS, Ability.LEADER, Ability.WIPE, Ability.FINAL_STATE),
        *(Ability.NODE_STATE, Ability.DISK_FILES, Ability.LOG_RECORDS, Ability.CRASH_POINTS),
    }  # fmt: skip
    evidence = LOGS
    mounts_extra = "zookeeper"  # which its clients need, too
    serves_with_majority = True
    operations = frozenset(OPERATIONS) - {BAD_PATH}  # kazoo refuses such a path itself, or changes it

    @property
    def defects(self) -> Mapping[str, str]:
        return DEFECTS

    def check(self) -> None:
        if sys.platform != "linux":
            raise HarnessError("ZooKeeper's servers are run on Linux only: it answers at every address of 127.0.0.0/8")
        from zab_chaos.harness.backends.zookeeper import client  # noqa: F401 - raises MissingExtra

        releases.find_java()

    def prepare(self, scenario: Scenario, options: RunOptions, display: Display) -> None:
        wrong, located = [], []
        for named in asked_for(scenario, self.run_releases(scenario, options)):
            try:
                found = releases.locate(named, lambda jar: display.say(f"fetching {jar}"))
                require_release(scenario, found.version)
                located.append(found)
            except BadInput as error:
                wrong.append(str(error))
        if located and scenario.zookeeper.settings:
            wrong += known_settings.mistakes(located, scenario.zookeeper.settings)
        if wrong:
            raise BadInput("\n".join(wrong))

    def run_releases(self, scenario: Scenario, options: RunOptions) -> RunReleases:
        """Return those of the command line, else of the scenario, else the newest one."""
        newest, given = releases.newest(), scenario.zookeeper
        return RunReleases(options.release or given.release or newest, options.to or given.to or newest)

    def release(self, named: str) -> str:
        return releases.resolved(named)

    def disk(self, scenario: Scenario) -> str:
        return disks.disk_for(scenario)

    def points(self, action: str) -> Collection[str]:
        return LOCATIONS.keys() if action in ACTIONS else ()

    def mistakes(self, scenario: Scenario) -> list[str]:
        found = [
            f"[zookeeper] settings can't have {name}: {reason}"
            for name in scenario.zookeeper.settings
            if (reason := _why_reserved(name))
        ]
        found += [
            f"[zookeeper] java can't have {name}: it has system properties, and {HEAP}, the size of the heap"
            for name in scenario.zookeeper.java
            if name.startswith(("X", "-")) and name != HEAP
        ]
        heap = scenario.zookeeper.java.get(HEAP)
        if heap is not None and not SIZE.fullmatch(heap):
            found.append(f"[zookeeper] java has {HEAP} = {heap!r}. Allowed: a size of the heap, such as 512m or 2g")
        if scenario.nodes > MAX_SERVERS:
            found.append(f"{scenario.nodes} ZooKeeper servers are asked for; an ensemble has 1 to {MAX_SERVERS}")
        return found

    def salvage(self, folder: RunFolder) -> str | None:
        from zab_chaos.harness.backends.zookeeper.salvage import salvage

        return salvage(folder)

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment

        setting = [options.defect_path.split("=")] if options.defect_path is not None else []
        return ZooKeeperDeployment(folder, scenario, self.run_releases(scenario, options), display, dict(setting))


def _why_reserved(name: str) -> str | None:
    """Return why a scenario can't have this setting; None if it can."""
    parts = name.split(".")
    beginnings = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((RESERVED[beginning] for beginning in beginnings if beginning in RESERVED), None)


def require_release(scenario: Scenario, version: str) -> None:
    """Raise BadInput if servers of this release can't do what the scenario asks for."""
    asked = (
        (
            scenario.observers,
            OBSERVERS_LOG,
            "[scenario] observers: those of ZooKeeper {} write no log, which the verdict needs",
        ),
        (membership.is_asked_for(scenario), membership.SINCE, "remove-member: ZooKeeper {} can't change its members"),
    )
    found = [
        f"{why.format(version)}. Allowed: {'.'.join(map(str, since))} and later releases"
        for needed, since, why in asked
        if needed and releases.numbers(version) < since
    ]
    if found:
        raise BadInput("\n".join(found))
