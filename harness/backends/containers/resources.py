"""A run's resources on the engine: two networks, a volume for each node, and its containers, all labelled with the run.

Nodes and toxiproxy reach each other on the network `links`, which is isolated. The network `access` publishes control and
client ports on 127.0.0.1, so that a node that is disconnected from `links` still answers the harness.
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

from zab_chaos.harness.backends.containers.engine import EngineError, translate_errors
from zab_chaos.harness.backends.containers.labels import RUN, labels_of_run
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.net import keys

INSIDE = "/run/zab"  # path of the run's folder in a container
DATA = "/data"  # path of the node's disk in a container
WRITTEN = ("trace", "record", "log")  # folders that a container writes to
REMOVE_SECONDS = 30.0
SUBNET_TRIES = 10  # another program may take a subnet that was free a moment ago
IMAGE_USER = (10001, 10001)  # as in Dockerfile


def user() -> tuple[int, int]:
    """Return the uid and gid of nodes in containers: those of the harness, which then owns the run's files, but never root."""
    return (os.getuid(), os.getgid()) if os.getuid() else IMAGE_USER


class EngineResources:
    """The networks, volumes and containers of one run. `remove` removes all of them; see also `leftovers`."""

    links: Any
    access: Any

    def __init__(self, client: Any, image: str, folder: RunFolder) -> None:
        self.client = client
        self.token = secrets.token_hex(4)
        self._image = image
        self._folder = folder
        self._labels = labels_of_run(self.token, folder.path)
        self._addresses: dict[str, str] = {}

    def prepare(self) -> None:
        """Create the networks, and give the containers' user access to its parts of the run's folder."""
        config = self._folder.file("config")
        for path in (*map(self._folder.file, WRITTEN), config, *keys.files_in(config)):
            os.chown(path, *user())
        with translate_errors("making the run's networks"):
            self.links = self._create_network_with_fixed_addresses("links")
            self.access = self._create_network("access", internal=False)

    def _create_network_with_fixed_addresses(self, name: str) -> Any:
        """Create a network on which we assign the addresses.

        For that, the engine demands an explicit subnet, but only the engine knows which subnets are free. So it first creates a
        network with a subnet that it chooses; that one is removed, and created again with the same subnet.
        """
        for _ in range(SUBNET_TRIES):
            probe = self._create_network(name, internal=True)
            probe.reload()
            subnet = probe.attrs["IPAM"]["Config"][0]["Subnet"]
            probe.remove()
            try:
                network = self._create_network(name, internal=True, ipam=IPAMConfig(pool_configs=[IPAMPool(subnet)]))
            except docker.errors.APIError as error:
                if "overlap" not in str(error.explanation).lower():
                    raise
                continue
            hosts = ipaddress.ip_network(subnet).hosts()
            next(hosts)  # the bridge has this one
            self._free_addresses = map(str, hosts)
            return network
        raise EngineError("making the run's networks: other programs took each free subnet first. Try again")

    def _create_network(self, name: str, internal: bool, ipam: IPAMConfig | None = None) -> Any:
        return self.client.networks.create(
            self._full_name(name), internal=internal, labels=self._labels, driver="bridge", ipam=ipam
        )

    def address(self, name: str) -> str:
        """Return the address of `name` on the network `links`, the same in all of its lives.

        Addresses are used instead of names because a name is looked up for every connection, and a name server that does not
        answer blocks the caller: in ZeroMQ the thread that moves all of a node's messages, in toxiproxy a proxy.
        """
        if name not in self._addresses:
            self._addresses[name] = next(self._free_addresses)
        return self._addresses[name]

    def _full_name(self, name: str) -> str:
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
        """Create a container. It is not started, and not connected to `links`.

        `ports` has the port on 127.0.0.1 for each port inside. `sysctls` are kernel settings of the container's network. The
        container's output goes directly to a file of the run, so that a SIGKILL loses nothing of it.
        """
        mounts = [Mount(f"{INSIDE}/config", str(self._folder.file("config")), type="bind", read_only=True)]
        mounts += [Mount(f"{INSIDE}/{part}", str(self._folder.file(part)), type="bind") for part in WRITTEN]
        if disk is not None:
            mounts.append(Mount(DATA, self.volume(disk), type="volume"))
        with translate_errors(f"creating the container of {name}"):
            return self.client.containers.create(
                self._image,
                ["sh", "-c", 'exec "$@" >"$0" 2>&1', f"{INSIDE}/log/{log.name}", *command],
                name=self._full_name(name),
                labels=self._labels,
                user="{}:{}".format(*user()),
                init=True,  # because a process with pid 1 ignores a SIGKILL that it sends itself
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
        """Connect a container to the network `links`, at its address."""
        with translate_errors(f"connecting {name}"):
            self.links.connect(container, ipv4_address=self.address(name))

    def disconnect(self, container: Any, name: str) -> None:
        """Disconnect a container from the network `links`, like a pulled cable."""
        with translate_errors(f"disconnecting {name}"):
            self.links.disconnect(container)

    def start(self, container: Any, name: str) -> None:
        with translate_errors(f"starting the container of {name}"):
            container.start()
            container.reload()

    def volume(self, name: str) -> str:
        """Return the full name of a volume; create the volume if there is none."""
        with translate_errors(f"making the volume of {name}"):
            return str(self.client.volumes.create(self._full_name(name), labels=self._labels).name)

    def remove_volume(self, name: str) -> None:
        """Remove a volume with its contents, if it exists. No container may use it."""
        with translate_errors(f"removing the volume of {name}"), contextlib.suppress(docker.errors.NotFound):
            self.client.volumes.get(self._full_name(name)).remove()

    def remove(self) -> None:
        """Remove all resources of this run. Raises EngineError."""
        remove_all(self.client, f"{RUN}={self.token}")


def remove_all(client: Any, label: str) -> list[str]:
    """Remove every container, then every network and volume with this label, and return their names.

    Another harness may be removing the same ones; then wait for it. Raises EngineError if something remains.
    """
    seen: dict[str, None] = {}

    def gone() -> bool:
        left = _labelled(client, label)
        seen.update(dict.fromkeys(resource.name for resource in left))
        for resource in left:
            try:
                resource.remove(**({"force": True} if isinstance(resource, Container) else {}))
            except docker.errors.APIError as error:
                if error.status_code not in (403, 404, 409):  # still in use, gone, or being removed
                    raise
        return not left

    with translate_errors("removing a run's containers, networks and volumes"):
        if not wait_until(gone, REMOVE_SECONDS, step=0.05):
            left = ", ".join(resource.name for resource in _labelled(client, label))
            raise EngineError(f"the container engine did not remove {left} within {REMOVE_SECONDS:.0f} s")
    return list(seen)


def _labelled(client: Any, label: str) -> list[Any]:
    """Return all resources with a label, containers first: the others can be removed only after them."""
    filters = {"label": label}
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return [*containers, *client.networks.list(filters=filters), *client.volumes.list(filters=filters)]
