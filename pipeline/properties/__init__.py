"""Zab's properties as Spark queries. `ALL` lists them in the order in which a verdict shows them."""

from pipeline.findings import Property
from pipeline.properties import (
    clients,
    delivery,
    durability,
    epochs,
    experiment,
    ladis,
    links,
    primary,
    recovery,
    state,
)

ALL: tuple[Property, ...] = (
    delivery.INTEGRITY,
    delivery.TOTAL_ORDER,
    delivery.AGREEMENT,
    primary.LOCAL_ORDER,
    primary.GLOBAL_ORDER,
    primary.INTEGRITY,
    ladis.PREFIX,
    ladis.CAUSAL_ORDER,
    ladis.RELIABLE_DELIVERY,
    primary.ONE_LEADER,
    epochs.EPOCHS,
    durability.DURABILITY,
    durability.COMMITTED_STAYS,
    clients.CLIENT_ORDER,
    state.STATE_EQUALITY,
    recovery.RECOVERY,
    links.CHANNELS,
    links.SANITY,
    experiment.FAULT_TOOK_EFFECT,
    experiment.TRACE_INTEGRITY,
)
