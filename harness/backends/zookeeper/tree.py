"""Reads a server's whole tree of znodes with a kazoo client, after a `sync`, and compares trees."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from zab_chaos.harness.backends.zookeeper.client import end_session
from zab_chaos.harness.backends.zookeeper.connection import check_answers, silent
from zab_chaos.harness.backends.zookeeper.server import SUPERUSER
from zab_chaos.harness.extras import extra
from zab_chaos.node.core.zxid import Zxid, pair, show

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

RESERVED = "/zookeeper"  # the root of ZooKeeper's own znodes, which differ between servers
CONNECT_SECONDS = 15.0
ANSWER_SECONDS = 30.0
BATCH = 500  # znodes requested at once


class TreeUnreadable(Exception):
    """A server's tree could not be read. The text says why."""


@dataclass(frozen=True, slots=True)
class ServerZnode:
    """A znode's state, without its data.

    `value` is the CRC-32 of the data. `created` and `changed` are the zxids of its creation and last set. `owner` is the
    session of an ephemeral znode, else 0. `children_version` is the number of creations and deletions of children, and
    `children_changed` the zxid of the last one.
    """

    value: int
    version: int
    created: int
    changed: int
    owner: int
    children_version: int
    children_changed: int


@dataclass(frozen=True, slots=True)
class ServerTree:
    """A server's znodes by path. `since` is the last zxid that the server had processed when the reading began, and `zxid` when
    it ended."""

    znodes: dict[str, ServerZnode]
    zxid: int
    since: int

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that are the same for equal trees."""
        found = blake2b(digest_size=8)
        for path, znode in sorted(self.znodes.items()):
            found.update(f"{path}\0{znode}\n".encode())
        return found.hexdigest()


def read(address: str, session_seconds: float = 10.0) -> ServerTree:
    """Return all znodes of a server but ZooKeeper's own. Raises Unreadable."""
    with connected(address, session_seconds) as client:
        try:
            client.sync_async("/").get(timeout=ANSWER_SECONDS)
            since = client.last_zxid
            znodes = dict(_walk(client))
        except (KazooException, KazooTimeoutError) as error:
            raise TreeUnreadable(f"{address} did not show its tree: {type(error).__name__} {error}".strip()) from error
        return ServerTree(znodes, client.last_zxid, since)


def write(tree: ServerTree, file: Path) -> None:
    """Write a tree as tree.jsonl; write nothing if it changed while it was read, because it then belongs to no single zxid."""
    if tree.since != tree.zxid:
        return
    t, at = time.monotonic_ns(), pair(Zxid(tree.zxid))
    with file.open("wb") as lines:
        for path, znode in tree.znodes.items():
            lines.write(msgspec.json.encode({"t": t, "zxid": at, "path": path, **_line(znode)}) + b"\n")


def _line(znode: ServerZnode) -> dict[str, Any]:
    return {
        "value": znode.value, "version": znode.version, "created": pair(Zxid(znode.created)),
        "changed": pair(Zxid(znode.changed)), "children_version": znode.children_version,
        "children_changed": pair(Zxid(znode.children_changed)), "owner": znode.owner,
    }  # fmt: skip


@contextmanager
def connected(address: str, session_seconds: float) -> Iterator[Any]:
    """Connect a kazoo client to one server, and close it at the end, without waiting for a server that does not answer. Raises
    TreeUnreadable if the server does not accept it."""
    client = KazooClient(address, timeout=session_seconds, logger=silent, auth_data=[("digest", SUPERUSER)])
    check_answers(client)
    try:
        if not client.start_async().wait(CONNECT_SECONDS):
            raise TreeUnreadable(f"{address} accepts no client")
        yield client
    finally:
        end_session(client)
        client.close()


def _walk(client: Any) -> Iterator[tuple[str, ServerZnode]]:
    waiting = ["/"]
    while waiting:
        paths, waiting = waiting[:BATCH], waiting[BATCH:]
        requests = [(path, client.get_async(path), client.get_children_async(path)) for path in paths]
        for path, content, children in requests:
            try:
                data, stat = content.get(timeout=ANSWER_SECONDS)
                names = children.get(timeout=ANSWER_SECONDS)
            except NoNodeError:
                continue  # it was deleted in the meantime
            znode = ServerZnode(
                crc32(data), stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.cversion, stat.pzxid
            )
            yield path, znode
            waiting += [child for name in names if (child := f"{path.rstrip('/')}/{name}") != RESERVED]


def common(trees: dict[int, ServerTree]) -> ServerTree | None:
    """Return the tree that all these servers showed; None if their trees differ, or there are none."""
    return max(trees.values(), key=lambda it: it.zxid) if trees and not differences(trees) else None


def differences(trees: dict[int, ServerTree]) -> list[str]:
    """Return, in words and by path, the znodes in which servers differ. Each server is compared with the first one."""
    (first, reference), *others = sorted(trees.items())
    found = []
    for node, tree in others:
        for path in sorted(reference.znodes.keys() | tree.znodes.keys()):
            here, there = reference.znodes.get(path), tree.znodes.get(path)
            if here != there:
                found.append(f"{path}: node-{first} has {_describe(here)}, node-{node} has {_describe(there)}")
    return found


def _describe(znode: ServerZnode | None) -> str:
    if znode is None:
        return "none"
    own = f"version {znode.version} of {show(Zxid(znode.changed))}"
    return f"{own}, children version {znode.children_version} of {show(Zxid(znode.children_changed))}"
