"""A server's whole tree, read through the server itself by a kazoo client of its own, after `sync`."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from zab_chaos.harness.backends.zookeeper.txnlog import show
from zab_chaos.harness.extras import extra
from zab_chaos.node.core.zxid import Zxid, pair

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

OWN = "/zookeeper"  # ZooKeeper's own znodes, which are not the same on all servers
CONNECT_SECONDS = 15.0
ANSWER_SECONDS = 30.0
WINDOW = 500  # znodes asked for at once

silent = logging.getLogger("zab-chaos.kazoo")  # kazoo's own would talk to the terminal
silent.addHandler(logging.NullHandler())
silent.propagate = False


class Unreadable(Exception):
    """The server did not show its tree; why."""


@dataclass(frozen=True, slots=True)
class Znode:
    """`value`: the CRC-32 of its data; `owner`: the session of an ephemeral one, else 0; zxids of creation and last change;
    the number of creations and deletions of its children, and the zxid of the last one."""

    value: int
    version: int
    created: int
    changed: int
    owner: int
    children_version: int
    children_changed: int


@dataclass(frozen=True, slots=True)
class Tree:
    """`zxid`: the last one that the server had processed when it had answered; `since`: before the first answer."""

    znodes: dict[str, Znode]
    zxid: int
    since: int

    @property
    def digest(self) -> str:
        """16 hexadecimal digits; equal trees have the same."""
        found = blake2b(digest_size=8)
        for path, znode in sorted(self.znodes.items()):
            found.update(f"{path}\0{znode}\n".encode())
        return found.hexdigest()


def read(address: str, session_seconds: float = 10.0) -> Tree:
    """All znodes but ZooKeeper's own. Raises Unreadable."""
    with connected(address, session_seconds) as client:
        try:
            client.sync_async("/").get(timeout=ANSWER_SECONDS)
            since = client.last_zxid
            znodes = dict(_walk(client))
        except (KazooException, KazooTimeoutError) as error:
            raise Unreadable(f"{address} did not show its tree: {type(error).__name__} {error}".strip()) from error
        return Tree(znodes, client.last_zxid, since)


def write(tree: Tree, file: Path) -> None:
    """As tree.jsonl. Of a tree that has changed while it was read nothing is written: it is that of no zxid."""
    if tree.since != tree.zxid:
        return
    t, at = time.monotonic_ns(), pair(Zxid(tree.zxid))
    with file.open("wb") as lines:
        for path, znode in tree.znodes.items():
            lines.write(msgspec.json.encode({"t": t, "zxid": at, "path": path, **_line(znode)}) + b"\n")


def _line(znode: Znode) -> dict[str, Any]:
    return {
        "value": znode.value, "version": znode.version, "created": pair(Zxid(znode.created)),
        "changed": pair(Zxid(znode.changed)), "children_version": znode.children_version,
        "children_changed": pair(Zxid(znode.children_changed)), "owner": znode.owner,
    }  # fmt: skip


@contextmanager
def connected(address: str, session_seconds: float) -> Iterator[Any]:
    """A client of one server. Raises Unreadable if it does not take one."""
    client = KazooClient(address, timeout=session_seconds, logger=silent)
    try:
        client.start(CONNECT_SECONDS)
        yield client
    except KazooTimeoutError as error:
        raise Unreadable(f"{address} takes no client: {error}") from error
    finally:
        client.stop()
        client.close()


def _walk(client: Any) -> Iterator[tuple[str, Znode]]:
    waiting = ["/"]
    while waiting:
        paths, waiting = waiting[:WINDOW], waiting[WINDOW:]
        asked = [(path, client.get_async(path), client.get_children_async(path)) for path in paths]
        for path, content, children in asked:
            try:
                data, stat = content.get(timeout=ANSWER_SECONDS)
                below = children.get(timeout=ANSWER_SECONDS)
            except NoNodeError:
                continue  # it has gone meanwhile
            znode = Znode(
                crc32(data), stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.cversion, stat.pzxid
            )
            yield path, znode
            waiting += [child for name in below if (child := f"{path.rstrip('/')}/{name}") != OWN]


def differences(trees: dict[int, Tree]) -> list[str]:
    """In words: the znodes in which servers differ, by path; each server is held against the first one."""
    (first, reference), *others = sorted(trees.items())
    found = []
    for node, tree in others:
        for path in sorted(reference.znodes.keys() | tree.znodes.keys()):
            here, there = reference.znodes.get(path), tree.znodes.get(path)
            if here != there:
                found.append(f"{path}: node-{first} has {_told(here)}, node-{node} has {_told(there)}")
    return found


def _told(znode: Znode | None) -> str:
    if znode is None:
        return "none"
    told = f"version {znode.version} of {show(znode.changed)}"
    return f"{told}, children version {znode.children_version} of {show(znode.children_changed)}"
