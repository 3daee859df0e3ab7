"""Zab's properties, one checker class each. `ALL` lists them in the order in which a verdict shows them."""

from zab_chaos.model.properties.abcast import Agreement, Integrity, TotalOrder
from zab_chaos.model.properties.checker import Checker
from zab_chaos.model.properties.clients import ClientOrder
from zab_chaos.model.properties.disk import DiskKeeps
from zab_chaos.model.properties.durability import CommittedStays, Durability
from zab_chaos.model.properties.epochs import Epochs
from zab_chaos.model.properties.experiment import FaultTookEffect, TraceIntegrity
from zab_chaos.model.properties.ladis import CausalOrder, Prefix, ReliableDelivery
from zab_chaos.model.properties.links import Channels, Sanity
from zab_chaos.model.properties.once import ExactlyOnce
from zab_chaos.model.properties.primary import GlobalPrimaryOrder, LocalPrimaryOrder, OneLeader, PrimaryIntegrity
from zab_chaos.model.properties.progress import Progress
from zab_chaos.model.properties.promises import Promises
from zab_chaos.model.properties.quorum import QuorumDurability
from zab_chaos.model.properties.recovery import Recovery
from zab_chaos.model.properties.state import StateEquality
from zab_chaos.model.properties.values import ValuesAndVersions

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
    Durability,
    CommittedStays,
    QuorumDurability,
    DiskKeeps,
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
)
