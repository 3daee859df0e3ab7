"""Rules for the values of a scenario file. Each reads one value, or says what is wrong with it and what is allowed."""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, time
from typing import Any


class InvalidValueError(Exception):
    """A value is invalid. `wrong` says why, `allowed` what is allowed; `suggestion` is a whole sentence or empty."""

    def __init__(self, wrong: str, allowed: str = "", suggestion: str = "") -> None:
        super().__init__(wrong)
        self.wrong = wrong
        self.allowed = allowed
        self.suggestion = suggestion


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `read(value, nodes)` returns the typed value for an ensemble of so many nodes, or raises InvalidValueError."""

    allowed: str
    read: Callable[[Any, int], Any]


def suggest(word: object, known: Iterable[str]) -> str:
    """Return `Did you mean ...?`, or an empty text if no known word is similar. Small and capital letters are the same."""
    by_small_letters = {one.lower(): one for one in known}
    near = difflib.get_close_matches(str(word).lower(), by_small_letters, n=1, cutoff=0.65)
    return f"Did you mean {by_small_letters[near[0]]}?" if near else ""


def shown(value: object) -> str:
    """Return a value as a file has it, with texts in single quotes."""
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{ {', '.join(f'{name} = {shown(one)}' for name, one in value.items())} }}"
        case date() | time():
            return value.isoformat()
    return repr(value)


def number(low: float, high: float, unit: str = "") -> Rule:
    """Return the rule for a number within [low, high]; read as float."""
    allowed = f"a number from {low:g} to {high:g}{' ' + unit if unit else ''}"

    def read(value: Any, _nodes: int) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidValueError(f"{shown(value)} is not a number", allowed)
        if not low <= value <= high:  # also rejects NaN, and an integer that is too large for a float
            raise InvalidValueError(f"{shown(value)} is out of range", allowed)
        return float(value)

    return Rule(allowed, read)


def integer(low: int, high: int, unit: str = "") -> Rule:
    """Return the rule for an integer within [low, high]."""
    allowed = f"a whole number from {low} to {high}{' ' + unit if unit else ''}"

    def read(value: Any, _nodes: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidValueError(f"{shown(value)} is not a whole number", allowed)
        if not low <= value <= high:
            raise InvalidValueError(f"{shown(value)} is out of range", allowed)
        return value

    return Rule(allowed, read)


def choice(*words: str) -> Rule:
    """Return the rule for one of these words."""
    allowed = "one of " + ", ".join(words)

    def read(value: Any, _nodes: int) -> str:
        if value not in words:
            raise InvalidValueError(f"{shown(value)} is not known here", allowed, suggest(value, words))
        return str(value)

    return Rule(allowed, read)


def either(one: Rule, other: Rule) -> Rule:
    """Return the rule for a value that one of two rules allows. A text is read by the second."""
    allowed = f"{one.allowed}, or {other.allowed}"

    def read(value: Any, nodes: int) -> Any:
        try:
            return (other if isinstance(value, str) else one).read(value, nodes)
        except InvalidValueError as wrong:
            raise InvalidValueError(str(wrong), allowed, wrong.suggestion) from None

    return Rule(allowed, read)


def list_of(one: Rule, what: str, fewest: int = 0) -> Rule:
    """Return the rule for a list of different values, each by the rule `one`; read as a tuple. `what`: what the values are."""
    allowed = f"a list of {what}, each {one.allowed}"

    def read(value: Any, nodes: int) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < fewest:
            raise InvalidValueError(f"{shown(value)} is no such list", allowed)
        found = tuple(one.read(item, nodes) for item in value)
        if len(set(found)) < len(found):
            raise InvalidValueError(f"{shown(value)} names something twice", allowed)
        return found

    return Rule(allowed, read)


def weights(known: tuple[str, ...], what: str, others: float = 0) -> Rule:
    """Return the rule for a table of weights by name, at least one of them above 0.

    `what`: what the known names are. `others`: the weight of each name that is not in the table.
    """
    weight = number(0, 1_000_000)
    allowed = f"{{ name = weight, ... }}, each weight {weight.allowed}, with {', '.join(known)}"

    def read(value: Any, nodes: int) -> dict[str, float]:
        if not isinstance(value, dict):
            raise InvalidValueError(f"{shown(value)} is not a table of weights", allowed)
        unknown = [name for name in value if name not in known]
        wrong = [f"{name!r} is not {what}" for name in unknown]
        for name in [name for name in value if name in known]:
            try:
                weight.read(value[name], nodes)
            except InvalidValueError as error:
                wrong.append(f"{name}: {error.wrong}")
        if wrong:
            raise InvalidValueError("; ".join(wrong), allowed, suggest(unknown[0], known) if unknown else "")
        found = {name: float(one) for name, one in value.items()}
        if not sum(found.get(name, others) for name in known) > 0:
            raise InvalidValueError("all weights are 0", allowed)
        return found

    return Rule("", read)  # the documentation describes each such table in its own words


def matching(pattern: str, words: str) -> Rule:
    """Return the rule for a text that matches the pattern as a whole. `words` say what is allowed."""

    def read(value: Any, _nodes: int) -> str:
        if not isinstance(value, str):
            raise InvalidValueError(f"{shown(value)} is not a text", words)
        if not re.fullmatch(pattern, value):
            raise InvalidValueError(f"{shown(value)} is not allowed here", words)
        return value

    return Rule(words, read)


def text_table(words: str) -> Rule:
    """Return the rule for a table of texts or integers by name; read as texts. `words` say what is allowed."""

    def read(value: Any, _nodes: int) -> dict[str, str]:
        if not isinstance(value, dict) or any(
            not isinstance(one, str | int) or isinstance(one, bool) or "\n" in f"{name}{one}"
            for name, one in value.items()
        ):
            raise InvalidValueError(f"{shown(value)} is not a table of texts and whole numbers", words)
        return {name: str(one) for name, one in value.items()}

    return Rule(words, read)


def boolean() -> Rule:
    """Return the rule for true or false."""

    def read(value: Any, _nodes: int) -> bool:
        if not isinstance(value, bool):
            raise InvalidValueError(f"{shown(value)} is neither true nor false", "true or false (without quotes)")
        return value

    return Rule("true or false", read)


def text(longest: int = 2000, *, as_it_is: bool = False) -> Rule:
    """Return the rule for a text that is not empty; read without spaces around it, unless it is data (`as_it_is`)."""
    allowed = f"a text of 1 to {longest} characters"

    def read(value: Any, _nodes: int) -> str:
        if not isinstance(value, str):
            raise InvalidValueError(f"{shown(value)} is not a text", allowed)
        found = value if as_it_is else value.strip()
        if not 1 <= len(found) <= longest:
            wrong = f"the text has {len(found)} characters" if found else "the text is empty"
            raise InvalidValueError(wrong, allowed)
        return found

    return Rule(allowed, read)


def number_range(low: float, high: float, unit: str = "") -> Rule:
    """Return the rule for a number or [smallest, largest]; read as a pair."""
    single = number(low, high, unit)
    allowed = f"{single.allowed}, or [smallest, largest] of such"

    def read(value: Any, nodes: int) -> tuple[float, float]:
        ends = value if isinstance(value, list) else [value, value]
        if len(ends) != 2:
            raise InvalidValueError(f"{shown(value)} is not a range", allowed)
        smallest, largest = (single.read(end, nodes) for end in ends)
        if smallest > largest:
            raise InvalidValueError(f"in {shown(value)} the smallest comes after the largest", allowed)
        return smallest, largest

    return Rule(allowed, read)


def pairs() -> Rule:
    """Return the rule for ordered pairs of nodes, as the lab writes them: "1,2,2,1", [1, 2, 2, 1] or [[1, 2], [2, 1]]."""
    allowed = 'pairs of different nodes, each "from,to": "1,2,2,1" or [[1, 2], [2, 1]]'

    def read(value: Any, nodes: int) -> tuple[tuple[int, int], ...]:
        flat = _flat(value)
        if flat is None or not flat or len(flat) % 2:
            raise InvalidValueError(f"{shown(value)} is not a list of pairs", allowed)
        found = list(zip(flat[::2], flat[1::2], strict=True))
        for source, target in found:
            if source == target or not (1 <= source <= nodes and 1 <= target <= nodes):
                raise InvalidValueError(f"{source},{target} is no link of nodes 1 to {nodes}", allowed)
        return tuple(sorted(set(found)))

    return Rule(allowed, read)


def _flat(value: Any) -> list[int] | None:
    """Return all the numbers of a text or a nested list, in order; None if anything in it is not an integer."""
    if isinstance(value, str):
        words = [word.strip() for word in value.split(",")]
        return [int(word) for word in words] if all(word.isdecimal() and len(word) < 10 for word in words) else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return [value]
    if not isinstance(value, list):
        return None
    parts = [_flat(item) for item in value if not isinstance(item, str)]
    if len(parts) != len(value) or any(part is None for part in parts):
        return None
    return [number for part in parts if part for number in part]
