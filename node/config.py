"""A node's configuration: one JSON file, written by the harness. Times are milliseconds, sizes bytes."""

import msgspec

from zab_chaos.node.core.digest import Algorithm
from zab_chaos.node.core.settings import CLIENTS_MAX

# Shares of a frame. One eighth may be in flight, and as much may be logged between two snapshots. A follower may lack twice
# each of it, and a state as well, and a NEWLEADER with all of it must fit into one frame. A path may need four bytes for each
# character that a limit counts.
FRAME_SHARE = 8
REQUEST_SHARE = 16


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts. They determine how fast failures are noticed; safety does not depend on them."""

    heartbeat_ms: int = 100
    timeout_ms: int = 800  # silence after which a peer counts as gone: several heartbeats, for busy machines
    finalize_ms: int = 40  # how long an election with a quorum waits for a better vote
    sync_timeout_ms: int = 5000  # time limit for discovery and synchronization


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on everything that could grow."""

    outstanding: int = 1000  # proposals in flight; further requests wait at the leader
    waiting: int = 20000  # requests that wait at the leader; further ones are refused
    # Bytes of transactions between two snapshots. With the log's overhead for 1 KiB and one batch this is less than a segment:
    # each snapshot begins a segment, and a segment that is full before that would cost another one.
    snapshot_bytes: int = 14 * 2**20
    segment_bytes: int = 16 * 2**20  # preallocated size of a log segment
    request_bytes: int = 2**20  # one client request
    frame_bytes: int = 128 * 2**20  # one frame on a link
    counter_max: int = 2**32 - 1  # transactions in one epoch; then the leader resigns and the next epoch begins
    queue_frames: int = 1000  # frames queued for one peer; a full queue closes the session
    # Clients whose highest seq the tree remembers; equal in the whole ensemble, because it is part of the digest. A request of
    # a client that may have been forgotten since its session began is refused.
    clients_max: int = CLIENTS_MAX

    @property
    def bytes_in_flight(self) -> int:
        """How many bytes are forwarded to a leader at once, and how many a leader may have proposed and not delivered."""
        return self.frame_bytes // FRAME_SHARE

    @property
    def largest_request(self) -> int:
        """`request_bytes`, or less: a larger transaction could be logged by the leader, and never passed on."""
        return min(self.request_bytes, self.frame_bytes // REQUEST_SHARE)

    @property
    def snapshot_interval(self) -> int:
        """`snapshot_bytes`, or less: a node that lacks what is logged between two snapshots must be able to get it."""
        return min(self.snapshot_bytes, self.frame_bytes // FRAME_SHARE)


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one server. Addresses are `host:port`."""

    id: int
    cluster: str  # the ensemble's name; frames of another ensemble are refused
    listen: str  # where peers' frames arrive
    peers: dict[int, str]  # where to connect to each other node (its proxy, when there is one)
    client: str
    control: str
    link_keys: str  # files with the run's key pairs (`zab_chaos.node.net.keys`)
    control_keys: str
    client_keys: str
    data: str  # the disk's folder
    trace: str  # folder of traces
    digest: Algorithm = "blake2b"  # of the whole ensemble; absent in ensembles that are older than the setting
    record: str | None = None  # folder of recordings, or None
    faithful: bool = True  # unsynced bytes are lost with the process
    defect: str | None = None  # `module:name`: a defect in the module's DEFECTS
    parent: int | None = None  # process id: end when this process ends
    silence_ms: int | None = None  # end when the control port has had no request for this long
    timing: Timing = Timing()
    limits: Limits = Limits()

    @property
    def ensemble(self) -> str:
        """The ensemble's name in frames. It includes the digest, so that nodes with different digests refuse each other:
        their digest checks would fail.

        With BLAKE2b it is the cluster's name alone, as in nodes that know no other digest.
        """
        return self.cluster if self.digest == "blake2b" else f"{self.cluster} {self.digest}"

    @property
    def members(self) -> list[int]:
        """All node ids, ascending."""
        return sorted([self.id, *self.peers])
