"""What stands between a node and its core and trace if the life is recorded (`zab_chaos.node.recording`).

The recording gets exactly the core's inputs, and is written before the trace. Without one, the core and the trace are called
directly.
"""

from typing import Any, Protocol

from zlib_ng.zlib_ng import crc32

from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Ready
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.recording import (
    Heard,
    LinkClosed,
    LinkOpened,
    ReadyTaken,
    Recording,
    SnapshotTaken,
    Started,
    Stepped,
    Submitted,
    Synced,
    Ticked,
    encode_ready,
)


class TraceSink(Protocol):
    """The trace, as a node uses it."""

    def add(self, event: str, fields: dict[str, Any]) -> None: ...
    def flush(self) -> None: ...


class RecordedTrace:
    """A trace that writes the recording first."""

    def __init__(self, trace: TraceSink, recording: Recording) -> None:
        self.add = trace.add
        self._trace = trace
        self._recording = recording

    def flush(self) -> None:
        self._recording.flush()
        self._trace.flush()


class RecordedCore:
    """Records the calls of a core (`zab_chaos.node.core.peer.Peer`) that change it, and makes them."""

    def __init__(self, core: Peer, recording: Recording) -> None:
        self._core = core
        self._add = recording.add

    def start(self, now: int) -> None:
        self._add(Started(now))
        self._core.start(now)

    def link_up(self, peer: int) -> None:
        self._add(LinkOpened(peer))
        self._core.link_up(peer)

    def link_down(self, peer: int, why: str) -> None:
        self._add(LinkClosed(peer, why))
        self._core.link_down(peer, why)

    def step(self, source: int, message: Message) -> None:
        self._add(Stepped(source, message))
        self._core.step(source, message)

    def heard(self, source: int) -> None:
        self._add(Heard(source))
        self._core.heard(source)

    def tick(self, now: int) -> None:
        self._add(Ticked(now))
        self._core.tick(now)

    def submit(self, txns: list[bytes]) -> None:
        self._add(Submitted(txns))
        self._core.submit(txns)

    def synced(self, upto: int) -> None:
        self._add(Synced(upto))
        self._core.synced(upto)

    def snapshot_taken(self, zxid: Zxid, digest: int, state: bytes) -> None:
        self._add(SnapshotTaken(zxid, digest, crc32(state)))
        self._core.snapshot_taken(zxid, digest, state)

    def ready(self) -> Ready | None:
        ready = self._core.ready()
        self._add(ReadyTaken(encode_ready(ready)))
        return ready
