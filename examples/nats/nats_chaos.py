"""The backend `--on nats`: runs NATS servers with JetStream, and uses a key-value bucket of three replicas."""

import asyncio
import http.client
import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import nats
from nats.errors import Error
from nats.js.api import KeyValueConfig
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError

from zab_chaos.harness.backends.system import (
    AsyncClient,
    Create,
    Failed,
    Get,
    Outcome,
    Place,
    Request,
    Set,
    SystemBackend,
    Unknown,
    done,
)

BUCKET = "zab"
LAZY_SYNC = "lazy-sync"
SETUP_SECONDS = 20.0
CONFIG = """
server_name: node-{place.node}
listen: "{place.client}"
http: "{place.others[0]}"
jetstream {{
    store_dir: "{place.data}"
    {sync}
}}
cluster {{
    name: zab
    listen: "{place.listen}"
    advertise: "{place.address}"
    no_advertise: true
    routes: [{routes}]
}}
"""


class Nats(SystemBackend):
    """Runs the `nats-server` that is on the PATH, one process for each node."""

    name = "nats"
    operations = frozenset({"get", "set", "cas", "create"})  # a deletion succeeds whether or not there is such a key
    one_address = True
    other_ports = 1  # for monitoring
    opaque_versions = True  # a key's revision, which counts the writes of all keys
    data_files: ClassVar = {"log": "jetstream/$G/streams/KV_zab/msgs/*.blk"}
    defects: ClassVar = {LAZY_SYNC: LAZY_SYNC}  # what NATS does by default: it syncs its files every two minutes

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        config = place.data.with_name(f"node-{place.node}.conf")
        routes = ", ".join(f'"nats-route://{address}"' for address in place.peers.values())
        sync = "" if defect == LAZY_SYNC else "sync_interval: always"
        config.write_text(CONFIG.format(place=place, routes=routes, sync=sync))
        return ["nats-server", "--config", str(config)]

    def client(self, place: Place, timeout: float) -> "NatsClient":
        return NatsClient(place.client, timeout)

    def leader(self, places: Sequence[Place]) -> int | None:
        """Return the leader of the bucket's stream; before there is one, that of the cluster."""
        for place in places:
            try:
                found = monitoring(place.others[0])
            except OSError:
                continue
            streams = [
                stream for account in found.get("account_details", ()) for stream in account.get("stream_detail", ())
            ]
            group = streams[0]["cluster"] if streams else found.get("meta_cluster", {})
            if group.get("leader"):
                return int(group["leader"].removeprefix("node-"))
        return None

    def set_up(self, places: Sequence[Place]) -> None:
        """Create the bucket, as soon as all servers are known to each other. Reads go to the leader, not to any replica."""
        bucket = KeyValueConfig(BUCKET, replicas=len(places), direct=False)

        async def create() -> None:
            connection = await nats.connect(f"nats://{places[0].client}")
            end = time.monotonic() + SETUP_SECONDS
            while True:
                try:
                    await connection.jetstream(timeout=2).create_key_value(bucket)
                    break
                except (Error, APIError):  # no suitable peers yet, or no answer
                    if time.monotonic() > end:
                        raise
            await connection.close()

        asyncio.run(create())


def monitoring(address: str) -> dict[str, Any]:
    """Return what a server tells of JetStream. Raises OSError."""
    connection = http.client.HTTPConnection(address, timeout=0.5)
    try:
        connection.request("GET", "/jsz?streams=1&accounts=1")
        return json.loads(connection.getresponse().read())
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionError(repr(error)) from error
    finally:
        connection.close()


async def ignore(_: Exception) -> None:
    """Do not log errors of a connection: whoever asked gets them, too."""


class NatsClient(AsyncClient):
    """A connection to one server, and the bucket behind it."""

    def __init__(self, address: str, timeout: float) -> None:
        self._address, self._timeout = address, timeout
        super().__init__(timeout)

    async def connect(self) -> None:
        options = {"allow_reconnect": False, "error_cb": ignore}
        self._connection = await nats.connect(f"nats://{self._address}", **options)
        self._bucket = await self._connection.jetstream(timeout=self._timeout).key_value(BUCKET)

    async def ask(self, request: Request) -> Outcome:
        key, bucket = request.path.strip("/"), self._bucket
        try:
            match request:
                case Get():
                    entry = await bucket.get(key)
                    return done(entry.value, entry.revision)
                case Create():
                    return done(version=await bucket.create(key, request.data))
                case Set(version=-1):
                    return done(version=await bucket.put(key, request.data))
                case Set():
                    return done(version=await bucket.update(key, request.data, last=request.version))
        except KeyNotFoundError:
            return Failed("no node", f"there is no key {request.path}")
        except KeyWrongLastSequenceError:
            why = "node exists" if isinstance(request, Create) else "bad version"
            return Failed(why, f"{request.path} has another revision")
        except (Error, APIError) as error:
            return Unknown(repr(error))
        raise NotImplementedError(request)

    async def hang_up(self) -> None:
        await self._connection.close()
