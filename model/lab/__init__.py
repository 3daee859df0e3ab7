"""The db-19 lab: a small Zab and its deterministic simulator, whose canonical dump is the same byte for byte as the
Rust, Go and C++ implementations' for the same arguments (db-19, CONCEPTS).

It is a protocol of its own (nine messages, nothing durable, votes that compare zxids only) and not what the nodes of
this project run. `LabNode` is the protocol: inputs in, messages out. `LabSimulator` is the world around it: ticks, the
heap of messages in flight, cut links. `lab_flapping` shows what the protocol does not survive.
"""

from zab_chaos.model.lab.arguments import BadLabArguments, Cut, LabArguments, Link
from zab_chaos.model.lab.flapping import FLAPPING_PROPERTY, PrefixViolation, find_prefix_violation, lab_flapping
from zab_chaos.model.lab.messages import Message, Role, Txn
from zab_chaos.model.lab.node import LabNode
from zab_chaos.model.lab.simulator import LabSimulator, Observer

__all__ = [
    "FLAPPING_PROPERTY",
    "BadLabArguments",
    "Cut",
    "LabArguments",
    "LabNode",
    "LabSimulator",
    "Link",
    "Message",
    "Observer",
    "PrefixViolation",
    "Role",
    "Txn",
    "find_prefix_violation",
    "lab_flapping",
]
