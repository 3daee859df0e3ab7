"""The client library: sessions with an ensemble for one thread, and for asyncio. docs/client.md explains it.

    with connect({1: "127.0.0.1:20001", 2: "127.0.0.1:20002"}, "config/clients.json") as client:
        client.create("/a", b"hello")

    async with connect_async(addresses, "config/clients.json") as client:
        await asyncio.gather(*(client.set("/a", b"%d" % n) for n in range(1000)))

An operation that was executed returns `Done`. One that certainly had no effect raises `Failed`, and one whose outcome is not
known raises `Unknown`. A session moves to another node when its own goes away, and never reads an older state than before.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio

from zab_chaos.harness.client.async_session import AsyncSession
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.log import SharedOpsFile
from zab_chaos.harness.client.session import ANY, Done, Failed, Pending, Session, Unknown
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.node.net import keys
from zab_chaos.node.net.keys import KeyFileError, Keys
from zab_chaos.node.tree.requests import Check, Children, Create, Delete, Exists, Get, Multi, Set

TIMEOUT = 10.0  # seconds after which an operation is unknown

Addresses = Mapping[int, str]  # host:port, by the node's id

__all__ = [
    "ANY",
    "AsyncSession",
    "Check",
    "Children",
    "Create",
    "Delete",
    "Done",
    "Exists",
    "Failed",
    "Get",
    "KeyFileError",
    "Keys",
    "Multi",
    "Pending",
    "Session",
    "Set",
    "Unknown",
    "connect",
    "connect_async",
]


def connect(
    addresses: Addresses, secret: str | Path | Keys, *, node: int | None = None, timeout: float = TIMEOUT,
    record: Path | None = None,
) -> Session:  # fmt: skip
    """Return a session for one thread, which connects to `node` first (default: to the first one).

    `secret`: the ensemble's client key file, or its content. `timeout`: seconds after which an operation is unknown; it may
    be infinite.
    `record`: a run's ops.jsonl, to which the operations are appended. The call does not wait for the connection; the first
    operation does. Raises TypeError (the addresses are no mapping), ValueError (no such node, an address that is not
    host:port, a negative timeout), KeyFileError, and OSError (the record).
    """
    return Session(_line(addresses, secret, node, timeout, record))


def connect_async(
    addresses: Addresses, secret: str | Path | Keys, *, node: int | None = None, timeout: float = TIMEOUT,
    record: Path | None = None,
) -> AsyncSession:  # fmt: skip
    """Return a session for asyncio: use it with `async with`, in one event loop. Arguments and errors as for `connect`."""
    poller = zmq.asyncio.Poller()
    return AsyncSession(_line(addresses, secret, node, timeout, record, poller), poller)


def _line(
    addresses: Addresses, secret: str | Path | Keys, node: int | None, timeout: float, record: Path | None,
    poller: Any = None,
) -> SocketLine:  # fmt: skip
    if not isinstance(addresses, Mapping):
        raise TypeError(f"the addresses are a mapping, such as {{1: '127.0.0.1:27035'}}, not {addresses!r}")
    pair = secret if isinstance(secret, Keys) else keys.load(secret)
    client = Client(dict(addresses), pair, node, timeout=timeout, poller=poller)
    try:
        ops = SharedOpsFile(record) if record is not None else None
    except OSError:
        client.close()
        raise
    return SocketLine(client, ops, owns_ops=True)
