"""The public API for testing a system of your own, which a command starts node by node. docs/backends.md explains how."""

from zab_chaos.harness.backends.system.backend import PeerPort, Place, SystemBackend
from zab_chaos.harness.backends.system.clients import AsyncClient, BlockingClient, Client, committed, done
from zab_chaos.harness.client.transaction import Append, ListTransaction, Outcome, ReadList, Request, Transaction
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.requests import Check, Create, Delete, Exists, Get, Set

__all__ = [
    "Append",
    "AsyncClient",
    "BlockingClient",
    "Check",
    "Client",
    "Create",
    "Delete",
    "Exists",
    "Failed",
    "Get",
    "ListTransaction",
    "Ok",
    "Outcome",
    "PeerPort",
    "Place",
    "ReadList",
    "Request",
    "Set",
    "SystemBackend",
    "Transaction",
    "Unknown",
    "committed",
    "done",
]
