"""The backend `--on redis`: runs Redis's own servers, with a Sentinel beside each, and speaks their protocol."""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar

from zab_chaos.harness.backends.system import (
    Append,
    BlockingClient,
    Create,
    Delete,
    Failed,
    Get,
    ListTransaction,
    Outcome,
    Place,
    ReadList,
    Request,
    Set,
    SystemBackend,
    Transaction,
    committed,
    done,
)

SETUP_SECONDS = 20.0
START = "redis-server {0}/sentinel.conf --sentinel & exec redis-server {0}/redis.conf"
SERVER = """
bind 127.0.0.1
port {port}
dir {place.data}
replica-announce-ip 127.0.0.1
replica-announce-port {own}
repl-diskless-sync-delay 0
appendonly yes
appendfsync {fsync}
"""
SENTINEL = """
bind 127.0.0.1
port {port}
dir {place.data}
sentinel announce-ip 127.0.0.1
sentinel announce-port {own}
sentinel myid {place.node:040x}
sentinel monitor zab 127.0.0.1 {master} {majority}
sentinel down-after-milliseconds zab 2000
sentinel failover-timeout zab 4000
"""
KNOWN_REPLICA = "sentinel known-replica zab 127.0.0.1 {port}\n"
KNOWN_SENTINEL = "sentinel known-sentinel zab 127.0.0.1 {port} {node:040x}\n"


class Redis(SystemBackend):
    """Runs the `redis-server` that is on the PATH, as a server and as a Sentinel for each node. The first master is node 1."""

    name = "redis"
    operations = frozenset({"get", "set", "create", "delete", "transaction", "multi-get", "list-append", "list-read"})
    one_address = True
    one_port = True
    more_peer_ports = 1  # that of Sentinel
    survives_wipe = False  # a master that comes back empty empties its replicas
    defects: ClassVar = {"sync-each-second": "everysec"}  # what Redis does by default

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        self._places[place.node] = place
        if not place.data.joinpath("redis.conf").exists():  # from then on the files are Sentinel's
            (sentinel,), servers = place.more_peer_ports, ports(place)
            server = SERVER.format(
                place=place, port=port(place.listen), own=port(place.address), fsync=defect or "always"
            )
            follows = f"replicaof 127.0.0.1 {servers[1]}" if place.node != 1 else ""
            where = {"port": port(sentinel.listen), "own": port(sentinel.address)}
            watch = SENTINEL.format(place=place, **where, master=servers[1], majority=len(servers) // 2 + 1)
            replicas = [KNOWN_REPLICA.format(port=it) for node, it in servers.items() if node != 1]
            others = [KNOWN_SENTINEL.format(node=node, port=port(it)) for node, it in sentinel.peers.items()]
            place.data.joinpath("redis.conf").write_text(server + follows)
            place.data.joinpath("sentinel.conf").write_text("".join([watch, *replicas, *others]))
        return ["sh", "-c", START.format(place.data)]

    def client(self, place: Place, timeout: float) -> "RedisClient":
        return RedisClient(place, self._places, timeout)

    def leader(self, places: Sequence[Place]) -> int | None:
        """Return the master that a majority of the Sentinels names."""
        named = []
        for place in places:
            with suppress(OSError), closing(Connection(place.more_peer_ports[0].listen, 0.5)) as sentinel:
                _, master = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "zab")
                named += [node for node, own in ports(place).items() if own == int(master)]
        return next((node for node in named if 2 * named.count(node) > len(self._places)), None)

    def set_up(self, places: Sequence[Place]) -> None:
        """Wait until all follow the master, and each Sentinel sees all servers and Sentinels."""
        others = len(places) - 1
        with closing(Connection(places[0].client, SETUP_SECONDS)) as master:
            wait_for(lambda: len(master.ask("ROLE")[2]) == others)
        for place in places:
            with closing(Connection(place.more_peer_ports[0].listen, SETUP_SECONDS)) as sentinel:
                wait_for(lambda: seen(sentinel.ask("SENTINEL", "REPLICAS", "zab"), "slave") == others)
                wait_for(lambda: seen(sentinel.ask("SENTINEL", "SENTINELS", "zab"), "sentinel") == others)


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def ports(place: Place) -> dict[int, int]:
    """Return the ports at which the servers reach each other, by node."""
    return {place.node: port(place.address)} | {node: port(address) for node, address in place.peers.items()}


def seen(instances: Sequence[Sequence[bytes]], flags: str) -> int:
    """Count the servers or Sentinels that a Sentinel reaches: those that it describes by these flags and no others."""
    return sum(described[described.index(b"flags") + 1] == flags.encode() for described in instances)


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + SETUP_SECONDS
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the Sentinels and the replicas do not find each other")
        time.sleep(0.1)


class RedisError(Exception):
    """The server's answer is an error."""


class Connection:
    """A connection to a server or a Sentinel. Methods raise OSError; `ask` and `at_once` also RedisError."""

    def __init__(self, address: str, timeout: float) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout)
        self._lines = self._socket.makefile("rb")

    def ask(self, *words: str | bytes) -> Any:
        parts = [word if isinstance(word, bytes) else word.encode() for word in words]
        lengths = [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]
        self._socket.sendall(b"*%d\r\n" % len(parts) + b"".join(lengths))
        return self._read()

    def at_once(self, commands: Sequence[Sequence[str | bytes]]) -> list[Any]:
        for command in (["MULTI"], *commands):
            self.ask(*command)
        try:
            return self.ask("EXEC")
        except RedisError as error:  # perhaps of one of several commands
            raise ConnectionError(str(error)) from error

    def _read(self) -> Any:
        line = self._lines.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"-":
                raise RedisError(rest.decode())
            case b"$":
                return None if rest == b"-1" else self._lines.read(int(rest) + 2)[:-2]
            case b"*":
                return [self._read() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class RedisClient(BlockingClient):
    """Asks a node's server, or the master that this follows."""

    def __init__(self, place: Place, places: Mapping[int, Place], timeout: float) -> None:
        self._place, self._places, self._timeout = place, places, timeout
        self._connection = Connection(place.client, timeout)
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        try:
            role, *rest = self._connection.ask("ROLE")
            if role != b"master":
                (master,) = (node for node, own in ports(self._place).items() if own == rest[1])
                self._connection.close()
                self._connection = Connection(self._places[master].client, self._timeout)
        except (OSError, RedisError) as error:
            return Failed("no leader", repr(error))
        steps = request.steps if isinstance(request, Transaction | ListTransaction) else [request]
        try:
            (role, *_), *results = self._connection.at_once([["ROLE"], *map(command, steps)])
        except RedisError as error:  # so nothing was executed
            return Failed("no leader", str(error))
        if role != b"master":
            return Failed("no leader", "a replica may be behind")
        if isinstance(request, Transaction):
            return committed([result for step, result in zip(steps, results, strict=True) if isinstance(step, Get)])
        if isinstance(request, ListTransaction):
            return committed(
                [[*map(int, it)] for step, it in zip(steps, results, strict=True) if isinstance(step, ReadList)]
            )
        return outcome(request, results[0])

    def hang_up(self) -> None:
        self._connection.close()


def command(request: Request | ReadList | Append) -> Sequence[str | bytes]:
    match request:
        case ReadList(path):
            return ["LRANGE", path, "0", "-1"]
        case Append(path, element):
            return ["RPUSH", path, str(element)]
        case Get(path):
            return ["GET", path]
        case Delete(path):
            return ["DEL", path]
        case Create(path, data):
            return ["SET", path, data, "NX"]
        case Set(path, data):
            return ["SET", path, data]
    raise NotImplementedError(request)


def outcome(request: Request, result: Any) -> Outcome:
    match request, result:
        case Create(), None:
            return Failed("node exists", f"there is a key {request.path}")
        case (Get(), None) | (Delete(), 0):
            return Failed("no node", f"there is no key {request.path}")
    return done(result if isinstance(request, Get) else None)
