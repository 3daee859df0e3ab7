"""Prints messages for `zab lab --trace`. Nodes are numbered from 1, as in all texts for people."""

from typing import Any

from zab_chaos.model.lab.messages import Message, Txn, display_number
from zab_chaos.node.core.zxid import Zxid, show


def transcript_line(now: int, source: int, destination: int, message: Message, arrives: bool) -> str:
    """Return one line for the arrival of a message: tick, from->to, kind, fields, and whether a cut link lost it."""
    fields = " ".join(f"{name}={_value(name, getattr(message, name))}" for name in message.__struct_fields__)
    lost = "" if arrives else "  (lost: the link is cut)"
    return f"{now:>6}  {display_number(source)}->{display_number(destination)}  {type(message).__name__:<13}  {fields}{lost}"


def _value(name: str, value: Any) -> str:
    if name.endswith("_id"):
        return str(display_number(value))
    if name.endswith("zxid"):
        return show(Zxid(value))
    if isinstance(value, Txn):
        return f"[{value}]"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)
