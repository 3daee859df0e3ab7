"""The db-19 lab: a small Zab and its deterministic simulator. For the same arguments its canonical dump has the same bytes
as the dumps of the Rust, Go and C++ implementations (db-19, CONCEPTS).

Its protocol is its own (nine messages, nothing durable, votes that compare only zxids), not the one that the nodes of this
project run. `LabNode` is the protocol: inputs in, messages out. `LabSimulator` has the ticks, the heap of messages in flight
and the cut links. `lab_flapping` makes runs with links that fail and heal, which the protocol does not survive.
"""

from zab_chaos.model.lab.arguments import BadLabArguments, Cut, LabArguments, Link
from zab_chaos.model.lab.flapping import FLAPPING_PROPERTIES, PrefixViolation, find_prefix_violation, lab_flapping
from zab_chaos.model.lab.messages import Message, Role, Txn
from zab_chaos.model.lab.node import LabNode
from zab_chaos.model.lab.simulator import ArrivalObserver, LabSimulator

__all__ = [
    "FLAPPING_PROPERTIES",
    "ArrivalObserver",
    "BadLabArguments",
    "Cut",
    "LabArguments",
    "LabNode",
    "LabSimulator",
    "Link",
    "Message",
    "PrefixViolation",
    "Role",
    "Txn",
    "find_prefix_violation",
    "lab_flapping",
]
