"""A node's configuration: one JSON file, written by whoever starts the node. Times are milliseconds, sizes bytes."""

import msgspec

from zab_chaos.node.core.digest import Algorithm


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts. They decide how fast failures are noticed, never what is safe."""

    heartbeat_ms: int = 100
    timeout_ms: int = (
        800  # silence after which a peer counts as gone; several heartbeats, so that a busy machine is no failure
    )
    finalize_ms: int = 40  # how long a quorum's vote waits for a better one
    sync_timeout_ms: int = 5000  # discovery and synchronization must be over by then


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit on everything."""

    outstanding: int = 1000  # proposals in flight; beyond it requests wait at the leader
    waiting: int = 20000  # requests that wait at the leader; beyond it they are refused
    # Transactions' bytes between two snapshots. With what the log adds to 1 KiB, and with a batch, less than a segment: each
    # snapshot begins a segment, and one that is full before would be another one.
    snapshot_bytes: int = 14 * 2**20
    segment_bytes: int = 16 * 2**20  # preallocated size of a log segment
    request_bytes: int = 2**20  # one client request
    frame_bytes: int = 128 * 2**20  # one frame on a link
    counter_max: int = 2**32 - 1  # transactions of one epoch; then the leader resigns and the next epoch begins
    queue_frames: int = 1000  # frames queued towards one peer; a full queue closes the session


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything one server must know. Addresses are `host:port`."""

    id: int
    cluster: str  # the ensemble's name; frames of another ensemble are refused
    listen: str  # where peers' frames arrive
    peers: dict[int, str]  # where to connect to each other node (its proxy, when there is one)
    client: str
    control: str
    link_keys: str  # files with the run's key pairs, one for each purpose (`zab_chaos.node.net.keys`)
    control_keys: str
    client_keys: str
    data: str  # the disk's folder
    trace: str  # folder of traces
    digest: Algorithm = "blake2b"  # one for the whole ensemble, as it was made; absent: before there was a choice
    record: str | None = None  # folder of recordings, or None
    faithful: bool = True  # unsynced bytes are lost with the process
    defect: str | None = None  # `module:name`: the one of the module's DEFECTS to be built with
    parent: int | None = None  # end with this process
    silence_ms: int | None = None  # end when nothing has come to the control port for so long
    timing: Timing = Timing()
    limits: Limits = Limits()

    @property
    def ensemble(self) -> str:
        """What frames name, so that nodes with different digests refuse each other: they would take the other for wrong.

        With BLAKE2b it is the cluster's name alone, as nodes say that know nothing else.
        """
        return self.cluster if self.digest == "blake2b" else f"{self.cluster} {self.digest}"

    @property
    def members(self) -> list[int]:
        """All node ids, ascending."""
        return sorted([self.id, *self.peers])
