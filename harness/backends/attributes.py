"""What the attributes of a backend must be. Other packages' authors set them, and nothing but this checks their types."""

from collections.abc import Callable, Collection, Mapping, Set
from signal import Signals
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.scenario import LISTS, OPERATIONS, TRANSACTIONS

Form = tuple[Callable[[Any], bool], str]  # whether a value is right, and in words what it must be

_KNOWN = (*OPERATIONS, *TRANSACTIONS, *LISTS)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _are_texts(value: object) -> bool:
    return (
        isinstance(value, list | tuple) and all(isinstance(one, str) for one in value) and len({*value}) == len(value)
    )


def _asks_to_end(value: object) -> bool:
    return isinstance(value, Signals) and value not in (Signals.SIGKILL, Signals.SIGSTOP, Signals.SIGCONT)


def _are_operations(value: object) -> bool:
    return isinstance(value, Set) and bool(value) and all(one in _KNOWN for one in value)


def _are_abilities(value: object) -> bool:
    return isinstance(value, Collection) and all(isinstance(one, Ability) for one in value)


TEXT: Form = (lambda value: isinstance(value, str), "a text")
FLAG: Form = (lambda value: isinstance(value, bool), "True or False")
COUNT: Form = (lambda value: type(value) is int and value >= 0, "a whole number from 0 on")
SECONDS: Form = (lambda value: type(value) in (int, float) and value > 0, "a number of seconds above 0")
METHOD: Form = (callable, "a method")
STOP_SIGNAL: Form = (_asks_to_end, "a signal that asks a process to end, such as signal.SIGTERM or signal.SIGINT")
NAMED_TEXTS: Form = (_is_table, "a dict of texts, such as {'name': 'text'}")
TEXTS: Form = (_are_texts, "a list of different texts, such as ('1.0', '2.0')")
OPERATION_NAMES: Form = (_are_operations, f"a set of names out of {', '.join(_KNOWN)}")
ABILITIES: Form = (_are_abilities, "a set of members of zab_chaos.faults.abilities.Ability")


def wrong_attributes(backend: object, forms: Mapping[str, Form]) -> list[str]:
    """Return, in words, the attributes of a backend that are not what these forms say. One that is missing counts as None."""
    values = {name: getattr(backend, name, None) for name in forms}
    return [
        f"`{name}` must be {words}, not {values[name]!r}"
        for name, (fits, words) in forms.items()
        if not fits(values[name])
    ]
