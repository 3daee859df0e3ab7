"""What a run has on the engine: two networks, a volume for each node, and its containers, all labelled with the run.

Nodes and toxiproxy reach each other on `links`, which leads nowhere else. `access` is where control and client ports are
published on 127.0.0.1, so a node that is taken off `links` can still be asked how it is.
"""

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker.errors
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool, Mount

from zab_chaos.harness.backends.containers.engine import EngineError, translated
from zab_chaos.harness.backends.containers.labels import RUN, of_this_run
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.net import keys

INSIDE = "/run/zab"  # where a container sees the run's folder
DATA = "/data"  # and its own disk
WRITTEN = ("trace", "record", "log")
REMOVE_SECONDS = 30.0
SUBNET_TRIES = 10  # another program may take the addresses that were free a moment ago
IMAGE_USER = (10001, 10001)  # as in Dockerfile


def user() -> tuple[int, int]:
    """Who a node is inside: whoever runs the harness, so that the run's files are theirs; but never root."""
    return (os.getuid(), os.getgid()) if os.getuid() else IMAGE_USER


class EngineResources:
    """One run's part of the engine. `remove` leaves nothing of it; see also `leftovers`."""

    links: Any
    access: Any

    def __init__(self, client: Any, image: str, folder: RunFolder) -> None:
        self.client = client
        self.token = secrets.token_hex(4)
        self._image = image
        self._folder = folder
        self._labels = of_this_run(self.token, folder.path)
        self._addresses: dict[str, str] = {}

    def open(self) -> None:
        """Make the networks, and let the containers' user into the parts of the folder that it needs."""
        config = self._folder.file("config")
        for path in (*map(self._folder.file, WRITTEN), config, *keys.files_in(config)):
            os.chown(path, *user())
        with translated("making the run's networks"):
            self.links = self._own_addresses("links")
            self.access = self._network("access", internal=False)

    def _own_addresses(self, name: str) -> Any:
        """A network on which we say who has which address.

        The engine wants to be told which addresses these are, but only knows itself which are free: so it chooses them
        for a network that is removed and made again with the same ones.
        """
        for _ in range(SUBNET_TRIES):
            chosen = self._network(name, internal=True)
            chosen.reload()
            subnet = chosen.attrs["IPAM"]["Config"][0]["Subnet"]
            chosen.remove()
            try:
                made = self._network(name, internal=True, ipam=IPAMConfig(pool_configs=[IPAMPool(subnet)]))
            except docker.errors.APIError as error:
                if "overlap" not in str(error.explanation).lower():
                    raise
                continue
            hosts = ipaddress.ip_network(subnet).hosts()
            next(hosts)  # the bridge's own
            self._free = map(str, hosts)
            return made
        raise EngineError("making the run's networks: others took each address range first that was free. Try again")

    def _network(self, name: str, internal: bool, ipam: IPAMConfig | None = None) -> Any:
        return self.client.networks.create(
            self._called(name), internal=internal, labels=self._labels, driver="bridge", ipam=ipam
        )

    def address(self, name: str) -> str:
        """Where `name` is on the links, in all of its lives.

        Addresses, because a name is asked for anew at every call, and a name server that does not answer holds up
        whoever asks: in ZeroMQ the thread that moves all of a node's messages, in toxiproxy a proxy.
        """
        if name not in self._addresses:
            self._addresses[name] = next(self._free)
        return self._addresses[name]

    def _called(self, name: str) -> str:
        return f"zab-{self.token}-{name}"

    def create(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        ports: Mapping[int, int],
        *,
        disk: str | None = None,
        sysctls: Mapping[str, str] | None = None,
    ) -> Any:
        """A container that is not started and on no links yet. `ports`: those inside, by those on 127.0.0.1. `sysctls`:
        the kernel's settings for its own network.

        Its output goes straight into a file of the run: what was written is there, whoever is killed.
        """
        mounts = [Mount(f"{INSIDE}/config", str(self._folder.file("config")), type="bind", read_only=True)]
        mounts += [Mount(f"{INSIDE}/{part}", str(self._folder.file(part)), type="bind") for part in WRITTEN]
        if disk is not None:
            mounts.append(Mount(DATA, self.volume(disk), type="volume"))
        with translated(f"creating the container of {name}"):
            return self.client.containers.create(
                self._image,
                ["sh", "-c", 'exec "$@" >"$0" 2>&1', f"{INSIDE}/log/{log.name}", *command],
                name=self._called(name),
                labels=self._labels,
                user="{}:{}".format(*user()),
                init=True,  # hands signals on: a first process would ignore the SIGKILL that it sends itself
                read_only=True,
                tmpfs={"/tmp": "size=16m"},
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                network=self.access.name,
                ports={f"{inside}/tcp": ("127.0.0.1", outside) for inside, outside in ports.items()},
                mounts=mounts,
                sysctls=dict(sysctls or {}),
            )

    def connect(self, container: Any, name: str) -> None:
        """Put it on the links, at its address."""
        with translated(f"connecting {name}"):
            self.links.connect(container, ipv4_address=self.address(name))

    def disconnect(self, container: Any, name: str) -> None:
        """Take it off the links: a pulled cable."""
        with translated(f"disconnecting {name}"):
            self.links.disconnect(container)

    def start(self, container: Any, name: str) -> None:
        with translated(f"starting the container of {name}"):
            container.start()
            container.reload()

    def volume(self, name: str) -> str:
        """The volume of this name, made if it is not there."""
        with translated(f"making the volume of {name}"):
            return str(self.client.volumes.create(self._called(name), labels=self._labels).name)

    def remove_volume(self, name: str) -> None:
        """Remove it, and what was on it. It may be gone already; no container may have it."""
        with translated(f"removing the volume of {name}"), contextlib.suppress(docker.errors.NotFound):
            self.client.volumes.get(self._called(name)).remove()

    def remove(self) -> None:
        """Everything with this run's label. Raises EngineError."""
        remove_all(self.client, f"{RUN}={self.token}")


def remove_all(client: Any, label: str) -> list[str]:
    """Remove every container, then every network and volume with this label; the names of what was there.

    Another harness may be removing the same: then it is waited for. Raises EngineError if something stays.
    """
    seen: dict[str, None] = {}

    def gone() -> bool:
        left = _labelled(client, label)
        seen.update(dict.fromkeys(thing.name for thing in left))
        for thing in left:
            try:
                thing.remove(**({"force": True} if isinstance(thing, Container) else {}))
            except docker.errors.APIError as error:
                if error.status_code not in (403, 404, 409):  # in use yet, gone, or being removed
                    raise
        return not left

    with translated("removing a run's containers, networks and volumes"):
        if not wait_until(gone, REMOVE_SECONDS, step=0.05):
            left = ", ".join(thing.name for thing in _labelled(client, label))
            raise EngineError(f"the container engine did not remove {left} within {REMOVE_SECONDS:.0f} s")
    return list(seen)


def _labelled(client: Any, label: str) -> list[Any]:
    """Containers first: the others are free only without them."""
    found = {"label": label}
    containers = client.containers.list(all=True, filters=found, ignore_removed=True)
    return [*containers, *client.networks.list(filters=found), *client.volumes.list(filters=found)]
