"""Base of backends whose nodes are somebody else's: a command starts one, a small class asks it, its history is judged."""

import inspect
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.backend import Backend, Deployment, RunOptions
from zab_chaos.harness.backends.processes import disks
from zab_chaos.harness.backends.system.clients import Client
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import HISTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node is to live. Addresses are `host:port`.

    `listen`: for the other nodes; `client`: for clients; `peers`: where it reaches each other node, which is a proxy and not
    that node's own `listen`; `data`: its folder, which stays from one life to the next and is gone after a wipe. A power cut
    takes what was not synced there.
    """

    node: int
    listen: str
    client: str
    peers: Mapping[int, str]
    data: Path


class SystemBackend(Backend):
    """Derive from it, give it a `name`, its `operations`, a `command` and a `client`.

    `abilities` beyond PAUSE, WIPE and those of its disk are found out: LINKS takes `received`. `leader`, if it has one, is
    added by whoever overrides it.
    """

    operations = frozenset({"get", "set"})
    evidence = HISTORY

    @property
    def abilities(self) -> frozenset[Ability]:  # type: ignore[override]
        own = {Ability.LINKS: "received", Ability.LEADER: "leader"}
        able = {need for need, name in own.items() if _overrides(type(self), name)}
        refusing = {Ability.ONE_WAY_REFUSAL} if Ability.LINKS in able else set()
        return frozenset({Ability.PAUSE, Ability.WIPE, *disks.ABILITIES, *able, *refusing})

    @abstractmethod
    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        """What starts this node, in the foreground: the process itself must be the node (a script ends with `exec`).

        It ends with exit code 0 at SIGTERM. `defect`: as `defects` knows it.
        """

    @abstractmethod
    def client(self, place: Place, timeout: float) -> Client:
        """A new client of this node, made and used by one thread. Raises OSError if nobody is there."""

    def received(self, place: Place) -> Mapping[int, int]:
        """How many messages the node's present life has taken from each peer. Raises OSError if it does not answer.

        Without it no link can be cut: that a cut lets nothing through is said by those who would have received it.
        """
        raise NotImplementedError

    def leader(self, places: Sequence[Place]) -> int | None:
        """Who leads now, of those that are up and not paused; None if nobody does."""
        return None

    def disk(self, scenario: Scenario) -> str:
        return disks.disk_for(scenario)

    def environment(self) -> dict[str, str]:
        """What its nodes find in their environment."""
        return dict(os.environ)

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        from zab_chaos.harness.backends.system.deployment import SystemDeployment

        return SystemDeployment(self, scenario, options, folder, display)


def _overrides(kind: type[SystemBackend], name: str) -> bool:
    return inspect.getattr_static(kind, name) is not inspect.getattr_static(SystemBackend, name)
