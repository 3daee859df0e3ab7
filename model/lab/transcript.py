"""One message as one line, for `zab lab --trace`: nodes count from 1, as everywhere that people read."""

from typing import Any

from zab_chaos.model.lab.messages import Message, Txn, shown
from zab_chaos.node.core.zxid import Zxid, show


def transcript_line(now: int, source: int, destination: int, message: Message, arrives: bool) -> str:
    """Tick, from->to, kind, fields; the tick is that of the arrival, and a message lost on a cut link says so."""
    fields = " ".join(f"{name}={_value(name, getattr(message, name))}" for name in message.__struct_fields__)
    lost = "" if arrives else "  (lost: the link is cut)"
    return f"{now:>6}  {shown(source)}->{shown(destination)}  {type(message).__name__:<13}  {fields}{lost}"


def _value(name: str, value: Any) -> str:
    if name.endswith("_id"):
        return str(shown(value))
    if name.endswith("zxid"):
        return show(Zxid(value))
    if isinstance(value, Txn):
        return f"[{value}]"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)
