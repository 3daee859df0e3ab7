"""A test client that watches all znodes below a path, as a cache does: ZooKeeper's persistent recursive watches."""

import struct
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from zab_chaos.harness.backends.zookeeper.sessions import ROOT, SessionClient
from zab_chaos.harness.extras import extra
from zab_chaos.node.core.zxid import Zxid, pair

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooState
    from kazoo.protocol.serialization import Exists, write_string

HEARD_EVERY = 0.2  # seconds from one answer, by which the client must have been told of each change, to the next
MOVES_EVERY = 7.0  # seconds from one change of the server to the next
RECURSIVE = 1  # mode of a persistent watch


class SubtreeWatcher(SessionClient):
    """A client that is told of every change below `ROOT` while it is connected. At each server it sets the watch anew: of what
    happens in between it is not told. Releases before 3.6 refuse such a watch."""

    _heard = _moved = 0.0

    def act(self) -> None:
        """Ask something, so that an answer comes, or go to another server, when it is time to. Called often."""
        now = time.monotonic()
        if not self.ready or now < self._heard + HEARD_EVERY:
            return
        self._heard = now
        self._moved = self._moved or now
        if now < self._moved + MOVES_EVERY:
            self._send(Exists(ROOT, None), self._on_answer)
        else:
            self._moved = now
            self.reconnect()

    # The following methods run in kazoo's thread.

    def _on_answer(self, _result: Any, zxid: Zxid, node: int) -> None:
        self._record("heard", node=node, zxid=pair(zxid))

    def _on_watching(self, _result: Any, zxid: Zxid, node: int) -> None:
        self._record("watching", path=ROOT, node=node, zxid=pair(zxid))

    def _told_of_change(self, path: str, change: str) -> None:
        self._record("told", path=path, what=change)

    def _state_changed(self, state: Any) -> None:
        super()._state_changed(state)
        if state == KazooState.CONNECTED:
            self._send(AddWatch(ROOT, RECURSIVE), self._on_watching)


@dataclass(frozen=True, slots=True)
class AddWatch:
    """ZooKeeper's AddWatch request, which kazoo does not have."""

    type: ClassVar[int] = 106

    path: str
    mode: int

    def serialize(self) -> bytes:
        return bytes(write_string(self.path)) + struct.pack("!i", self.mode)

    @staticmethod
    def deserialize(_data: bytes, _offset: int) -> None:
        """Return None: the answer has no content that matters."""
