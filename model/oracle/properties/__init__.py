"""The properties, one checker class each. `ALL` lists them in the order in which a verdict shows them."""

from zab_chaos.model.events import HISTORY, LOGS, RAFT_RECORDS, TRACES, ZAB_RECORDS
from zab_chaos.model.oracle.properties.abcast import Agreement, Integrity, TotalOrder
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.clients import ClientOrder
from zab_chaos.model.oracle.properties.disk import DiskContents
from zab_chaos.model.oracle.properties.durability import CommittedStays, Durability
from zab_chaos.model.oracle.properties.epoch_files import EpochFiles
from zab_chaos.model.oracle.properties.epochs import Epochs
from zab_chaos.model.oracle.properties.exactly_once import ExactlyOnce
from zab_chaos.model.oracle.properties.expected_state import ExpectedState
from zab_chaos.model.oracle.properties.experiment import FaultTookEffect, TraceIntegrity
from zab_chaos.model.oracle.properties.history import LinearizableKeys, ReadableInTheEnd, ServiceProgress
from zab_chaos.model.oracle.properties.isolation import Isolation
from zab_chaos.model.oracle.properties.ladis import CausalOrder, Prefix, ReliableDelivery
from zab_chaos.model.oracle.properties.links import Channels, Sanity
from zab_chaos.model.oracle.properties.logs import NOT_SHOWN
from zab_chaos.model.oracle.properties.primary import (
    GlobalPrimaryOrder,
    LocalPrimaryOrder,
    OneEstablished,
    OneLeader,
    PrimaryIntegrity,
)
from zab_chaos.model.oracle.properties.progress import Progress
from zab_chaos.model.oracle.properties.promises import Promises
from zab_chaos.model.oracle.properties.quorum import QuorumDurability
from zab_chaos.model.oracle.properties.recorded import (
    RaftCommittedStays,
    RecordedIntegrity,
    RecordedPrimaryIntegrity,
    RecordedQuorumDurability,
    RecordedStates,
    RecordedTotalOrder,
)
from zab_chaos.model.oracle.properties.recovery import Recovery
from zab_chaos.model.oracle.properties.sessions import Ephemerals, Sessions
from zab_chaos.model.oracle.properties.state import StateEquality
from zab_chaos.model.oracle.properties.sync import Sync
from zab_chaos.model.oracle.properties.synchronization import Synchronization
from zab_chaos.model.oracle.properties.values import ValuesAndVersions
from zab_chaos.model.oracle.properties.watches import Watches

ALL: tuple[type[Checker], ...] = (
    Integrity,
    TotalOrder,
    Agreement,
    LocalPrimaryOrder,
    GlobalPrimaryOrder,
    PrimaryIntegrity,
    Prefix,
    CausalOrder,
    ReliableDelivery,
    OneLeader,
    Epochs,
    Promises,
    Synchronization,
    Durability,
    CommittedStays,
    QuorumDurability,
    DiskContents,
    ClientOrder,
    ExactlyOnce,
    ValuesAndVersions,
    StateEquality,
    Recovery,
    Progress,
    Channels,
    Sanity,
    FaultTookEffect,
    TraceIntegrity,
    ExpectedState,
)
CLIENTS: tuple[type[Checker], ...] = (
    LinearizableKeys,
    Isolation,
    ReadableInTheEnd,
    Recovery,
    ServiceProgress,
    FaultTookEffect,
    TraceIntegrity,
    ExpectedState,
)
# The checkers for what the nodes of a foreign system record, besides `CLIENTS`.
RECORDED: tuple[type[Checker], ...] = (
    RecordedIntegrity,
    RecordedTotalOrder,
    Agreement,
    LocalPrimaryOrder,
    GlobalPrimaryOrder,
    RecordedPrimaryIntegrity,
    Prefix,
    CausalOrder,
    ReliableDelivery,
    OneLeader,
    CommittedStays,
    RecordedQuorumDurability,
    RecordedStates,
)
# A leader of Raft broadcasts before it has delivered what it found in its log.
OF_ZAB_ALONE = frozenset({RecordedPrimaryIntegrity})
IN_RAFT: dict[type[Checker], type[Checker]] = {CommittedStays: RaftCommittedStays}
# The checkers for ZooKeeper's servers. These do not show which links are open, so progress is judged by the clients' history.
# Logs do not show who broadcast a transaction. Epochs are read from the disks. Only ZooKeeper has sessions.
INSTEAD: dict[type[Checker], type[Checker]] = {Progress: ServiceProgress, OneLeader: OneEstablished, Epochs: EpochFiles}
SERVERS = (
    *(INSTEAD.get(checker, checker) for checker in ALL if checker.name not in NOT_SHOWN),
    Sessions,
    Ephemerals,
    Watches,
    Sync,
)
BY_EVIDENCE: dict[str, tuple[type[Checker], ...]] = {
    TRACES: ALL,
    LOGS: SERVERS,
    HISTORY: CLIENTS,
    ZAB_RECORDS: (*RECORDED, *CLIENTS),
    RAFT_RECORDS: (*(IN_RAFT.get(checker, checker) for checker in RECORDED if checker not in OF_ZAB_ALONE), *CLIENTS),
}
NO_TRACES = "it is judged from the nodes' own traces, and this system leaves none"
NOT_RECORDED = "what the nodes of this system record of themselves does not show it"
RAFT = "a leader of Raft broadcasts before it has delivered all that is in its log"


def why_not(evidence: str, name: str) -> str:
    """Return why the property can't be judged by this evidence."""
    if evidence in (ZAB_RECORDS, RAFT_RECORDS):
        return RAFT if any(checker.name == name for checker in OF_ZAB_ALONE) else NOT_RECORDED
    return NOT_SHOWN.get(name, NO_TRACES) if evidence == LOGS else NO_TRACES


def judged_by(evidence: str) -> list[str]:
    """Return the names of the properties that can be judged by this evidence (`zab_chaos.model.events.Run`)."""
    return [checker.name for checker in BY_EVIDENCE[evidence]]
