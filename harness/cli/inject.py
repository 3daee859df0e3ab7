"""`zab inject`: faults by hand, for the ensemble of `zab up`, in the words of a scenario."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from zab_chaos.faults.kind import REQUIRED
from zab_chaos.faults.registry import KINDS
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, HarnessError
from zab_chaos.harness.live.address_file import AddressFile, the_door
from zab_chaos.harness.runs import catalogue
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError

ANSWER_SECONDS = 60.0  # a fault may wait for a leader, and for its own effect
HEAL = "heal"


def inject_command(words: Sequence[str], *, folder: Path | None, kinds: bool, results: Path, json: bool) -> int:
    """Do it now, and say what was done. Raises BadInput, HarnessError."""
    if kinds:
        return _kinds(json=json)
    order, arguments = _order(words)
    answer = _ask(the_door(results, folder), order, arguments)
    if json:
        print_json(answer)
    elif "said" in answer:
        console_for(json=False).print(answer["said"], markup=False, highlight=False, soft_wrap=True)
    else:
        _show(answer["faults"])
    return Exit.PASS


def _order(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """What is to be done. Raises BadInput for what can be told from the words alone."""
    if not words:
        return "faults", {}
    if words[0] == HEAL:
        if len(words) > 2 or not all(word.isdecimal() for word in words[1:]):
            raise BadInput("heal takes nothing, or the number of one fault: zab inject heal 2")
        return HEAL, {"number": int(words[1])} if words[1:] else {}
    return "inject", {"fault": read(words)}


def read(words: Sequence[str]) -> dict[str, Any]:
    """`partition shape=isolate target=leader for=5` as a scenario's [[fault]] table. Raises BadInput: all mistakes."""
    kind, wrong = words[0], []
    if kind not in KINDS:
        wrong.append(f"no kind of fault is called {kind!r}. {catalogue.did_you_mean(kind, [*KINDS, HEAL])}")
    table: dict[str, Any] = {"do": kind}
    for word in words[1:]:
        key, separator, value = word.partition("=")
        if not separator or not key:
            wrong.append(f"{word!r} is no KEY=VALUE; for example target=leader")
        elif key in table:
            wrong.append(f"{key} is said twice")
        else:
            table[key] = _value(value)
    if wrong:
        raise BadInput("\n".join(wrong))
    return table


def _value(said: str) -> Any:
    """As TOML has it, but that text needs no quotes."""
    try:
        return tomllib.loads(f"value = {said}")["value"]
    except (ValueError, RecursionError):  # not TOML, or more digits than anybody reads
        return said


def _ask(door: AddressFile, order: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        control = ControlClient(door.control, keys.load(door.control_secret))
    except keys.KeyFileError as error:
        raise HarnessError(f"the ensemble has just ended: {error}") from None
    try:
        answer = control.call(order, ANSWER_SECONDS, lambda: door.open, **arguments)
    except ControlError as error:
        raise HarnessError(str(error)) from None
    finally:
        control.close()
    if "wrong" in answer:
        raise BadInput(answer["wrong"])
    return answer


def _show(faults: Sequence[dict[str, Any]]) -> None:
    console = console_for(json=False)
    if not faults:
        console.print("nothing was injected yet; `zab inject --list` says what there is", highlight=False)
        return
    table = Table(box=None, pad_edge=False)
    for name in ("number", "fault", "nodes", "now"):
        table.add_column(name)
    for fault in faults:
        nodes = " ".join(map(str, fault["nodes"]))
        table.add_row(str(fault["number"]), fault["fault"], nodes, "over" if fault["over"] else "broken")
    console.print(table, highlight=False)


def _kinds(*, json: bool) -> int:
    if json:
        print_json({name: {"about": kind.doc, "keys": [key.name for key in kind.keys]} for name, kind in KINDS.items()})
        return Exit.PASS
    table = Table(box=None, pad_edge=False)
    for name in ("fault", "what it does", "its keys"):
        table.add_column(name)
    for kind in KINDS.values():
        own = [f"{key.name}={'...' if key.default is REQUIRED else key.default}" for key in kind.keys]
        table.add_row(kind.name, kind.doc, " ".join(own))
    console_for(json=False).print(table, highlight=False)
    return Exit.PASS
