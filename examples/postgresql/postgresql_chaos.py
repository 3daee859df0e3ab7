"""The backend `--on postgresql`: runs PostgreSQL's own servers, and sends them transactions on lists."""

import os
import shlex
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg.errors import DeadlockDetected, OperationalError, SerializationFailure

from zab_chaos.harness.backends.system import (
    Append,
    AsyncClient,
    Failed,
    ListTransaction,
    Outcome,
    Place,
    ReadList,
    SystemBackend,
    committed,
)

PRIMARY = 1  # for ever: there is no failover
SETUP_SECONDS = 20.0
DEBIAN = Path("/usr/lib/postgresql")  # with the programs of each version in VERSION/bin
USER = "postgres"
# Root's processes that take themselves for that user's: the server refuses to run as root, and the run folder is root's.
AS_USER = ["unshare", "--user", f"--map-user={USER}", f"--map-group={USER}"]
# Without the templates there are a third as many files to copy, and to sync after a power cut.
CREATE = """initdb --username {user} --auth trust --no-sync --wal-segsize 1 --pgdata {new} \
    && printf 'UPDATE pg_database SET datistemplate = false\\nDROP DATABASE template0\\nDROP DATABASE template1\\n' \
    | postgres --single -D {new} || exit"""
COPY = "pg_basebackup --username {user} --host {host} --port {port} --checkpoint fast --no-sync -R --pgdata {new}"
START = """
if [ ! -e {data}.complete ]; then
    until rm -rf {new} && {begin}; do sleep 0.1; done
    cp -a {new} {data} && rm -r {new} && touch {data}.complete
fi
rm -f {data}/postmaster.pid  # it may name a process that was killed, and not yet waited for
exec setpriv --pdeathsig KILL postgres -D {data} {settings}  # a change of the user forgets that of the harness
"""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "synchronous_standby_names": "ANY 1 (*)",  # a commit waits until one of the standbys has it
    "wal_sender_timeout": "2s",
    "wal_receiver_timeout": "2s",
    "wal_retrieve_retry_interval": "200ms",
    "wal_keep_size": "1GB",  # what a standby that is cut off will ask for
    "deadlock_timeout": "50ms",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a server that is killed leaves nothing elsewhere
}
TABLE = "CREATE TABLE lists (path text PRIMARY KEY, elements int[] NOT NULL)"
APPEND = """INSERT INTO lists VALUES (%s, ARRAY[%s::int])
    ON CONFLICT (path) DO UPDATE SET elements = lists.elements || excluded.elements"""
READ = "SELECT elements FROM lists WHERE path = %s"
SERIALIZABLE, SNAPSHOT, COMMITTED = "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"
LEVELS = {  # of the server, by what is promised; SERIALIZABLE for all others
    "strong-snapshot-isolation": SNAPSHOT,
    "strong-session-snapshot-isolation": SNAPSHOT,
    "snapshot-isolation": SNAPSHOT,
    "read-committed": COMMITTED,
}
ROLLED_BACK = (SerializationFailure, DeadlockDetected)  # SQLSTATE 40001 and 40P01
READ_STANDBYS, NO_FSYNC = "read-standbys", "off"


class PostgreSQL(SystemBackend):
    """Runs the `postgres` that is on the PATH, or Debian's newest. Node 1 is the primary, the others are hot standbys."""

    name = "postgresql"
    operations = frozenset({"list-append", "list-read"})
    one_port = True
    stop_signal = signal.SIGINT  # at SIGTERM the server would wait until its clients are gone
    survives_wipe = False  # the primary could not copy from anybody
    isolation = "serializable"
    # Less than was promised: a weaker level, reads at standbys, or no sync before the answer.
    defects: ClassVar = {
        "repeatable-read": SNAPSHOT,
        "read-committed": COMMITTED,
        READ_STANDBYS: READ_STANDBYS,
        "no-fsync": NO_FSYNC,
    }

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        self._places[place.node] = place
        data = shlex.quote(str(place.data / "server"))
        new = shlex.quote(str(place.data.with_name(f"node-{place.node}.new")))  # not on a mounted disk, which is slower
        begin = CREATE if place.node == PRIMARY else COPY
        begin = begin.format(new=new, **server_at(place.peers.get(PRIMARY, place.listen)))
        fsync = NO_FSYNC if defect == NO_FSYNC else "on"
        settings = SETTINGS | {"port": server_at(place.listen)["port"], "fsync": fsync}
        flags = shlex.join(f"--{name}={value}" for name, value in settings.items())
        start = ["sh", "-c", START.format(data=data, new=new, begin=begin, settings=flags)]
        return [*AS_USER, *start] if os.geteuid() == 0 else start

    def environment(self) -> dict[str, str]:
        path, found = os.environ["PATH"], sorted(DEBIAN.glob("*/bin"), key=lambda folder: float(folder.parent.name))
        return {**os.environ, "PATH": path if shutil.which("postgres") or not found else f"{found[-1]}:{path}"}

    def client(self, place: Place, timeout: float) -> "PostgresClient":
        return PostgresClient(place, self._places[PRIMARY], timeout)

    def leader(self, places: Sequence[Place]) -> int | None:
        return PRIMARY if PRIMARY in (place.node for place in places) else None

    def set_up(self, places: Sequence[Place]) -> None:
        """Create the table, when all servers take clients."""
        for place in places:
            connected(place.client).close()
        with connected(self._places[PRIMARY].client) as primary:
            primary.execute(TABLE)


def server_at(address: str) -> dict[str, str]:
    """Return how libpq names a server, and as whom."""
    host, _, port = address.rpartition(":")
    return {"host": host, "port": port, "user": USER}


def connected(address: str) -> psycopg.Connection[Any]:
    """Connect to a server that is still starting. Raises OperationalError."""
    end = time.monotonic() + SETUP_SECONDS
    while True:
        try:
            return psycopg.connect(**server_at(address), autocommit=True)
        except OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class PostgresClient(AsyncClient):
    """Is connected to its node's server and to the primary, which does everything. With the defect `read-standbys`, the
    node's own server does the transactions that only read."""

    def __init__(self, place: Place, primary: Place, timeout: float) -> None:
        self._addresses = (place.client, primary.client)
        self._connections: list[psycopg.AsyncConnection[Any]] = []
        self._reads_standby = place.defect == READ_STANDBYS and place.node != PRIMARY
        self._level = place.defect if place.defect in LEVELS.values() else LEVELS.get(place.isolation, SERIALIZABLE)
        super().__init__(timeout)

    async def connect(self) -> None:
        for address in self._addresses:
            server = server_at(address)
            self._connections.append(await psycopg.AsyncConnection.connect(**server, autocommit=True))

    async def ask(self, request: ListTransaction) -> Outcome:
        connection, level = self._connections[-1], self._level
        if self._reads_standby and all(isinstance(step, ReadList) for step in request.steps):
            connection, level = self._connections[0], SNAPSHOT  # the strongest that a standby has
        try:
            await connection.execute(f"BEGIN ISOLATION LEVEL {level}")
            found = [await run(connection, step) for step in request.steps]
            await connection.execute("COMMIT")
        except ROLLED_BACK as error:
            await connection.execute("ROLLBACK")
            return Failed("conflict", str(error))
        return committed([elements for elements in found if elements is not None])

    async def hang_up(self) -> None:
        for connection in self._connections:
            await connection.close()


async def run(connection: psycopg.AsyncConnection[Any], step: ReadList | Append) -> list[int] | None:
    """Carry out a step of a transaction, and return the list that was read, or None for an append."""
    if isinstance(step, Append):
        await connection.execute(APPEND, (step.path, step.element))
        return None
    row = await (await connection.execute(READ, (step.path,))).fetchone()
    return row[0] if row else []
