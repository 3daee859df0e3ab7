"""Zab's properties, one checker class each. `ALL` lists them in the order in which a verdict shows them."""

from model.properties.abcast import Agreement, Integrity, TotalOrder
from model.properties.checker import Checker
from model.properties.clients import ClientOrder
from model.properties.disk import DiskKeeps
from model.properties.durability import CommittedStays, Durability
from model.properties.epochs import Epochs
from model.properties.experiment import FaultTookEffect, TraceIntegrity
from model.properties.ladis import CausalOrder, Prefix, ReliableDelivery
from model.properties.links import Channels, Sanity
from model.properties.once import ExactlyOnce
from model.properties.primary import GlobalPrimaryOrder, LocalPrimaryOrder, OneLeader, PrimaryIntegrity
from model.properties.progress import Progress
from model.properties.promises import Promises
from model.properties.quorum import QuorumDurability
from model.properties.recovery import Recovery
from model.properties.state import StateEquality
from model.properties.values import ValuesAndVersions

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
