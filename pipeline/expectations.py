"""What a scenario expects of its run, in numbers."""

import json
import re
from dataclasses import dataclass

MIN_ACKED = 1  # a run without a single acknowledged write shows nothing
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}


@dataclass(frozen=True, slots=True)
class Expected:
    """Times in seconds; None where nothing is expected. `unreadable`: why a bound can't be used."""

    converges_within: float | None
    unavailable_at_most: float | None
    min_acked: int
    unreadable: tuple[str, ...] = ()

    def wrong(self, property_: str) -> list[str]:
        """Why this property can't be judged by what is expected."""
        return list(self.unreadable) if property_ == "recovery" else []


def expected(text: str | None) -> Expected:
    """The `expect` of a run.json. Does not raise: a bound that is no time is named."""
    said = json.loads(text or "{}")
    bounds: dict[str, float | None] = {}
    unreadable = []
    for name in ("converges_within", "unavailable_at_most"):
        try:
            bounds[name] = None if said.get(name) is None else seconds(said[name])
        except ValueError as error:
            bounds[name] = None
            unreadable.append(f"run.json, expect.{name}: {error}")
    least = said.get("min_acked", MIN_ACKED)
    least = least if isinstance(least, int) else 0
    return Expected(bounds["converges_within"], bounds["unavailable_at_most"], least, tuple(unreadable))


def seconds(value: object) -> float:
    """A scenario's time in seconds: 5, 2.5, "5s", "800ms", "2min". Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{value!r} is no time; write seconds as a number, or for instance 5s, 800ms, 2min")
    return float(match[1]) * _UNITS[match[2]]
