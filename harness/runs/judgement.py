"""Judges a run's folder: with the oracle and, if the nodes recorded their inputs, with the replay."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.harness.machine import environment
from zab_chaos.harness.report.progress import UNSHOWN, Steps
from zab_chaos.harness.report.recording import UnknownDefect, core_of
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.oracle import oracle
from zab_chaos.model.replay.replay import ReplayResult, equality_property, replay
from zab_chaos.model.verdict import Judgement, Property, Verdict
from zab_chaos.node.core.peer import Peer


def judge(folder: Path, *, stored: bool = True, steps: Steps = UNSHOWN) -> Verdict:
    """Return the verdict on all properties of the run in `folder`. Does not raise for damage in the folder.

    `stored`: whether the folder has a manifest.
    """
    verdict = oracle.judge(folder, stored=stored, on_read=steps.judging(folder))
    return with_replay(verdict, folder, steps)


def with_replay(verdict: Verdict, folder: Path, steps: Steps = UNSHOWN) -> Verdict:
    """Add the property "replay equality" to the oracle's verdict on the run in `folder`, if the run was recorded."""
    replayed = steps.replaying(folder)
    return including_replay(verdict, RunFolder(folder).read_run(), lambda core: replay(folder, core, replayed))


def including_replay(
    verdict: Verdict, facts: dict[str, Any], lives: Callable[[type[Peer]], Iterable[ReplayResult]]
) -> Verdict:
    """Add the property "replay equality" to a verdict, if the run was recorded.

    `facts`: the content of run.json. `lives`: replays all lives with the given core, and yields the result of each.
    """
    if not facts.get("record"):
        return verdict
    try:
        found = equality_property(lives(core_of(facts)))
    except (UnknownDefect, OSError) as error:
        return verdict.including(unknown(), [f"the recording cannot be replayed: {error}"])
    return verdict.including(found, _reasons(found, facts))


def unknown() -> Property:
    """Return the property "replay equality" with the judgement UNKNOWN."""
    return msgspec.structs.replace(equality_property([]), verdict=Judgement.UNKNOWN)


def other_version(facts: dict[str, Any]) -> str | None:
    """Return a sentence about it if the run was recorded by another commit than this one, else None."""
    then, now = facts.get("commit"), environment.commit()
    if then == now or then is None or now is None:
        return None
    return f"the run was recorded by commit {then}; this is {now}, whose core may be another one"


def _reasons(found: Property, facts: dict[str, Any]) -> list[str]:
    if not found.violations:
        return []
    more = f" (and {len(found.violations) - 1} more)" if len(found.violations) > 1 else ""
    certain = "is violated" if found.verdict is Judgement.VIOLATION else "is not certain"
    first = f"{found.name} {certain}: {found.violations[0].words}{more}"
    return [first, *filter(None, [other_version(facts)])]
