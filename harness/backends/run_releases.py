"""The releases of a run's nodes: the one that all of them begin with, and the one that they may be upgraded to."""

from collections.abc import Iterator
from dataclasses import dataclass

from zab_chaos.faults.process import NEW, OLD
from zab_chaos.faults.scenario import FaultStep, Scenario


@dataclass(frozen=True, slots=True)
class RunReleases:
    """The releases by their names: a version, or the folder of a build."""

    old: str
    new: str

    def named(self, word: str) -> str:
        """Return the release that a fault means with `old`, `new` or a name."""
        return {OLD: self.old, NEW: self.new}.get(word, word)


def release_of(step: FaultStep) -> str | None:
    """Return what a fault has nodes started with: `old`, `new` or a release's name; None if they keep theirs."""
    return step.params.get("release")


def asked_for(scenario: Scenario, releases: RunReleases) -> list[str]:
    """Return all releases that the run needs, each once: the one that it begins with first."""
    words = [OLD, *_words(scenario)]
    return list(dict.fromkeys(releases.named(word) for word in words))


def facts_about(scenario: Scenario, releases: RunReleases) -> dict[str, str]:
    """Return the fields of `releases` in run.json: `old`, and `new` if a fault asks for it."""
    return {OLD: releases.old, **({NEW: releases.new} if NEW in _words(scenario) else {})}


def _words(scenario: Scenario) -> Iterator[str]:
    if scenario.nemesis is not None and "upgrade" in scenario.nemesis.faults:
        yield NEW
    yield from (word for step in scenario.faults if (word := release_of(step)) is not None)
