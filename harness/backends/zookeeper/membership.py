"""Changes the members of an ensemble: ZooKeeper's dynamic reconfiguration, by its incremental form."""

import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.registry import required_abilities
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.extras import extra

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

CONFIGURATION = "/zookeeper/config"
SETTINGS = {"reconfigEnabled": "true", "standaloneEnabled": "false"}  # of servers whose members can be changed
SINCE = (3, 5, 3)  # the first release with both settings
PAUSE = 0.2  # seconds between two attempts
SESSION_SECONDS = 6.0
_MEMBER = re.compile(rb"^server\.(\d+)=", re.MULTILINE)


def is_asked_for(scenario: Scenario) -> bool:
    """Return whether a fault of the scenario changes the members."""
    return Ability.MEMBERS in required_abilities(scenario)


def change(
    addresses: Callable[[], Iterable[str]], wanted: Callable[[list[int]], bool], seconds: float, **how: str
) -> list[int]:
    """Have the ensemble change its members, and return them when they are as `wanted`.

    `addresses` returns those of the servers that can be asked; `how` are the arguments `joining` or `leaving` of the request. A
    request without an answer may be carried out or not, and a leader refuses one while another is under way. So the request
    is repeated until the committed configuration is as wanted. Raises ClusterError if it is not in time.
    """
    deadline, why = time.monotonic() + seconds, "no server can be asked"
    while True:
        for address in addresses():
            try:
                members = _attempt(address, wanted, how)
            except (tree.TreeUnreadable, KazooException, KazooTimeoutError) as error:
                why = f"{address}: {type(error).__name__} {error}".strip()
                continue
            if wanted(members):
                return members
        if time.monotonic() > deadline:
            raise ClusterError(f"the members could not be changed within {seconds:g} s; the last answer was: {why}")
        time.sleep(PAUSE)


def _attempt(address: str, wanted: Callable[[list[int]], bool], how: dict[str, str]) -> list[int]:
    """Return the members, after a request to change them if they are not as wanted."""
    with tree.connected(address, SESSION_SECONDS) as client:
        client.sync_async(CONFIGURATION).get(timeout=SESSION_SECONDS)
        content, _ = client.get_async(CONFIGURATION).get(timeout=SESSION_SECONDS)
        if not wanted(_members(content)):
            content, _ = _reconfig(client, **how)
        return _members(content)


def _reconfig(client: Any, joining: str | None = None, leaving: str | None = None) -> Any:
    return client.reconfig_async(joining, leaving, None, -1).get(timeout=SESSION_SECONDS)


def _members(content: bytes) -> list[int]:
    """Return the servers in a configuration, ascending."""
    return sorted(int(number) for number in _MEMBER.findall(content))
