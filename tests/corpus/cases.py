"""The register of known-bad runs and of near misses that are legal."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.corpus.story import Story


@dataclass(frozen=True)
class Case:
    """A run, and what a judge must say of it.

    `judgement` is that of `property`; `violated` are all the properties that are violated. Empty: the run is legal.
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
    """A known-bad run: it violates the property, and `others` as well."""
    return _case(property_, "VIOLATION", "VIOLATION", {property_, *others})


def leaves_unknown(property_: str, judgement: str = "UNKNOWN") -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """A run of which it can't be said whether all is well."""
    return _case(property_, "UNKNOWN", judgement, set())


def legal(property_: str) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """A near miss: it looks as if it violated the property, and does not."""
    return _case(property_, "PASS", "PASS", set())


def ends(
    verdict: str, property_: str, judgement: str, *violated: str
) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """A run whose verdict is not decided by one property alone."""
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
