"""`zab inject`: inject a fault into the ensemble of `zab up`, with the keys that a scenario uses."""

import contextlib
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.faults.kind import REQUIRED, Key
from zab_chaos.faults.registry import KINDS
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, HarnessError, did_you_mean
from zab_chaos.harness.live.address_file import AddressFile, chosen_ensemble
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError

ANSWER_SECONDS = 60.0  # a fault may wait for a leader, and for its own effect
ASK_SECONDS = 0.1  # between two questions whether a state has come
HEAL = "heal"
DIGITS_MAX = 9  # of the number of a fault


def inject_command(words: Sequence[str], *, folder: Path | None, kinds: bool, results: Path, json: bool) -> int:
    """Inject, heal or list faults, and print what was done. Raises BadInput, HarnessError."""
    if kinds:
        return _list_kinds(json=json)
    command, arguments = _parse(words)
    answer = _answer(chosen_ensemble(results, folder), command, arguments)
    if json:
        print_json(answer)
    elif "said" in answer:
        say(console_for(json=False), answer["said"])
    else:
        _show_faults(answer["faults"])
    return Exit.PASS


def _parse(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the control command and its arguments that the words stand for. Raises BadInput."""
    if not words:
        return "faults", {}
    if words[0] == HEAL:
        if len(words) > 2 or not all(word.isdecimal() and len(word) <= DIGITS_MAX for word in words[1:]):
            raise BadInput("heal takes no argument, or the number of one fault: zab inject heal 2")
        return HEAL, {"number": int(words[1])} if words[1:] else {}
    return "inject", {"fault": parse_fault(words)}


def parse_fault(words: Sequence[str]) -> dict[str, Any]:
    """Parse `partition shape=isolate for=5` into a scenario's [[fault]] table. Raises BadInput with all mistakes."""
    kind, mistakes = words[0], []
    if kind not in KINDS:
        mistakes.append(f"there is no fault {kind!r}. {did_you_mean(kind, [*KINDS, HEAL])}")
    table: dict[str, Any] = {"do": kind}
    for word in words[1:]:
        key, separator, value = word.partition("=")
        if not separator or not key:
            mistakes.append(f"{word!r} is not KEY=VALUE, such as target=leader")
        elif key in table:
            mistakes.append(f"{key} is given twice")
        elif not _can_be_sent(key, table.setdefault(key, _value(value))):
            mistakes.append(f"{word!r} can't be sent: a number must fit into 64 bits, and text must be UTF-8")
    if mistakes:
        raise BadInput("\n".join(mistakes))
    return table


def _can_be_sent(key: str, value: Any) -> bool:
    """Return whether a request can hold the key and the value."""
    try:
        msgspec.msgpack.encode({key: value})
    except (ValueError, OverflowError, RecursionError):
        return False
    return True


def _value(text: str) -> Any:
    """Parse a value as TOML. What is not TOML is text, which needs no quotes here."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or a number with too many digits
        return text


def _answer(ensemble: AddressFile, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Send a command to the process of `zab up` and return its answer. If it waits for a state, ask until that has come.

    Raises BadInput, HarnessError.
    """
    try:
        control = ControlClient(ensemble.control, keys.load(ensemble.control_secret))
    except keys.KeyFileError as error:
        raise HarnessError(f"the ensemble has just ended: {error}") from None
    with contextlib.closing(control):
        answer = _send(control, ensemble, command, arguments)
        while "waits" in answer:
            time.sleep(ASK_SECONDS)
            answer = _send(control, ensemble, "waited", {"number": answer["waits"]})
    return answer


def _send(control: ControlClient, ensemble: AddressFile, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = control.call(command, ANSWER_SECONDS, lambda: ensemble.open, **arguments)
    except ControlError as error:
        raise HarnessError(str(error)) from None
    if "wrong" in answer:
        raise BadInput(answer["wrong"])
    return answer


def _show_faults(faults: Sequence[dict[str, Any]]) -> None:
    console = console_for(json=False)
    if not faults:
        say(console, "no fault was injected yet; `zab inject --list` lists the faults")
        return
    table = wrapping_table("number", "fault", "nodes", "state")
    for fault in faults:
        nodes = " ".join(map(str, fault["nodes"]))
        table.add_row(str(fault["number"]), fault["fault"], nodes, "over" if fault["over"] else "active")
    show_table(console, table)


def _key_usage(key: Key) -> str:
    """Return a key as it is typed, with its default: `for=5`.

    A key that must be given is `key=...`; one without default is `key`.
    """
    if key.default is None:
        return key.name
    shown = str(key.default).lower() if isinstance(key.default, bool) else key.default
    return f"{key.name}={'...' if key.default is REQUIRED else shown}"


def _list_kinds(*, json: bool) -> int:
    if json:
        print_json({name: {"about": kind.doc, "keys": [key.name for key in kind.keys]} for name, kind in KINDS.items()})
        return Exit.PASS
    table = wrapping_table("fault", "what it does", "keys")
    for kind in KINDS.values():
        table.add_row(kind.name, kind.doc, " ".join(_key_usage(key) for key in kind.keys))
    show_table(console_for(json=False), table)
    return Exit.PASS
