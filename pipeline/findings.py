"""What a property's queries hand back."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from pipeline.facts import Facts
from pipeline.ledger import Ledger
from pipeline.words import Violated


@dataclass(frozen=True, slots=True)
class Counted:
    """Facts that were held against a statement: rows with `run`, and in SQL how many facts each of them stands for."""

    rows: DataFrame
    number: str = "1"


@dataclass(frozen=True, slots=True)
class Found:
    """`violations`: what broke the statement. `checked`: what was held against it; a run without a row has nothing that could be.
    `unknown` and `spared`: frames with `run` and `words`: why the property can't be judged there, or does not have to hold."""

    violations: list[Violated]
    checked: list[Counted]
    unknown: list[DataFrame] = field(default_factory=list)
    spared: list[DataFrame] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Property:
    """A property, by the name that all judges use for it.

    `rests_on_absence`: a violation means that something is missing from the trace. In a damaged trace that proves nothing, and the
    judgement is UNKNOWN instead. `if_broken`: what a finding makes of the property; UNKNOWN where it is the experiment that
    failed, not the protocol.
    """

    name: str
    source: str
    statement: str
    find: Callable[[Facts, Ledger], Found]
    rests_on_absence: bool = True
    if_broken: str = "VIOLATION"
