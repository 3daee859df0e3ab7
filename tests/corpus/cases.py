"""The register of all cases: known-bad runs, and near misses that are legal. Decorators add the cases to it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.corpus.story import Story


@dataclass(frozen=True)
class Case:
    """A run and its expected verdict.

    `judgement` is that of `property`. `violated` are all violated properties; it is empty for a legal run.
    """

    name: str
    property: str
    verdict: str
    judgement: str
    about: str
    tell: Callable[[], Story]
    violated: frozenset[str] = field(default=frozenset())


CASES: list[Case] = []


def violates(property_: str, *others: str) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """Register a known-bad run: it violates the property, and `others` as well."""
    return _case(property_, "VIOLATION", "VIOLATION", {property_, *others})


def leaves_unknown(property_: str, judgement: str = "UNKNOWN") -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """Register a run whose verdict must be UNKNOWN."""
    return _case(property_, "UNKNOWN", judgement, set())


def legal(property_: str) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """Register a near miss: it looks as if it violated the property, and does not."""
    return _case(property_, "PASS", "PASS", set())


def ends(
    verdict: str, property_: str, judgement: str, *violated: str
) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """Register a run whose verdict does not follow from the judgement of one property."""
    return _case(property_, verdict, judgement, set(violated))


def _case(
    property_: str, verdict: str, judgement: str, violated: set[str]
) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    def register(tell: Callable[[], Story]) -> Callable[[], Story]:
        about = " ".join((tell.__doc__ or "").split())
        name = tell.__name__.replace("_", "-")
        CASES.append(Case(name, property_, verdict, judgement, about, tell, frozenset(violated)))
        return tell

    return register
