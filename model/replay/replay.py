"""Re-executes every life of every node of a recorded run, and requires that every output is equal.

Equal outputs show that the core in the simulator is the core that ran in the real processes, and that it depends on nothing
but the recorded inputs. `zab_chaos.model.replay.life` says what is compared and what is not.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from zab_chaos.model import manifest
from zab_chaos.model.events import TRACE_FOLDER, trace_name
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.replay.difference import Difference, record_name
from zab_chaos.model.replay.life import Rerun
from zab_chaos.model.replay.trace import CoreTrace, UnreadableTrace
from zab_chaos.model.runfiles import OnRead, lives_in, unheard
from zab_chaos.model.verdict import Evidence, Judgement, Property, Violation
from zab_chaos.node.core.peer import Peer

NAME = "replay equality"
STATEMENT = "The recorded inputs, re-executed, give the same outputs, durable records, digests and events."


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one life: the number of its inputs, of compared answers of the core (`outputs`) and trace events, and the
    first difference, if there is one.

    `changed` says which files of a differing life were changed after the run. The difference then proves nothing.
    """

    node: int
    life: int
    inputs: int
    outputs: int
    events: int
    difference: Difference | None
    changed: list[str] = []


def recorded_lives(folder: Path) -> list[tuple[int, int]]:
    """Return (node, life) of each recording in a run's folder, ascending."""
    return lives_in(folder / "record", "bin")


def replay(folder: Path, peer_type: type[Peer] = Peer, on_read: OnRead = unheard) -> Iterator[ReplayResult]:
    """Replay every life of the run, one after the other. `peer_type`: the class of the nodes' core, which may be a defect's.

    A life whose trace has events of its core but which has no recording counts as a difference.
    """
    recorded = recorded_lives(folder)
    for node, life in sorted({*recorded, *lives_in(folder / TRACE_FOLDER, "jsonl")}):
        if (node, life) in recorded:
            yield replay_life(folder, node, life, peer_type, on_read)
        elif (missing := _unrecorded(folder, node, life)) is not None:
            yield missing


@seldom_collected()
def replay_life(
    folder: Path, node: int, life: int, peer_type: type[Peer] = Peer, on_read: OnRead = unheard
) -> ReplayResult:
    """Replay one life, to its end or its first difference. `on_read` hears of the bytes of its recording."""
    if not (folder / trace_name(node, life)).is_file():
        what = "there is a recording, and no trace"
        return _missing_file(folder, node, life, what, trace_name(node, life))
    rerun = Rerun(folder, node, life, peer_type, on_read)
    rerun.run()
    return ReplayResult(
        node=node,
        life=life,
        inputs=rerun.inputs,
        outputs=rerun.outputs,
        events=rerun.matcher.events,
        difference=rerun.difference,
        changed=changed_files(folder, node, life) if rerun.difference is not None else [],
    )


def changed_files(folder: Path, node: int, life: int) -> list[str]:
    """Say which of the files that the replay of a life rests on are not those that the run had when it ended."""
    names = (trace_name(node, life), record_name(node, life), "run.json")  # run.json names the core
    return [str(damage) for damage in manifest.changes(folder, names)]


def edited_files(folder: Path, lives: Collection[tuple[int, int]] | None = None) -> list[str]:
    """Say which files that a replay rests on are not those that the run had when it ended, or why that is not known.

    `lives`: the (node, life) that are replayed; None: all, so traces and recordings that were removed or added count too.
    """
    names = [name for life in lives or () for name in (trace_name(*life), record_name(*life))]
    places = ("run.json", manifest.NAME, *(("trace/", "record/") if lives is None else names))
    return [str(damage) for damage in manifest.check(folder)[1] if damage.file.startswith(places)]


def equality_property(lives: Iterable[ReplayResult]) -> Property:
    """Return the property `replay equality` of a run, given all its lives. `checked` counts inputs, answers and events.

    It is UNKNOWN if files of every differing life were changed after the run.
    """
    lives = sorted(lives, key=lambda one: bool(one.changed))  # what is certain comes first
    return Property(
        name=NAME,
        source="zab-chaos",
        verdict=_judgement(lives),
        statement=STATEMENT,
        checked=sum(one.inputs + one.outputs + one.events for one in lives),
        violations=[_violation(one.difference, one.changed) for one in lives if one.difference is not None],
    )


def _judgement(lives: list[ReplayResult]) -> Judgement:
    different = [one for one in lives if one.difference is not None]
    if different:
        return Judgement.UNKNOWN if all(one.changed for one in different) else Judgement.VIOLATION
    return Judgement.PASS if lives else Judgement.NOT_APPLICABLE


def _violation(difference: Difference, changed: list[str]) -> Violation:
    doubt = f"; this proves nothing, because {', and '.join(changed)}" if changed else ""
    event = msgspec.to_builtins(difference)
    return Violation(f"{difference}{doubt}", [Evidence(difference.file, difference.place, event)])


def _unrecorded(folder: Path, node: int, life: int) -> ReplayResult | None:
    """Return a difference for a life without a recording. Return None if it ended before its core was made."""
    trace = CoreTrace(folder / trace_name(node, life), node, life)
    try:
        if trace.next() is None:
            return None
    except UnreadableTrace:
        pass  # the trace is not empty, so there should be a recording
    what = "there are events of the core, and no recording"
    return _missing_file(folder, node, life, what, record_name(node, life))


def _missing_file(folder: Path, node: int, life: int, what: str, file: str) -> ReplayResult:
    """Return the result for a life whose recording or trace is missing."""
    difference = Difference(
        node=node, life=life, input=0, event=0, what=what, expected="", got="", file=file, place=0, inputs=[]
    )
    changed = changed_files(folder, node, life)
    return ReplayResult(node=node, life=life, inputs=0, outputs=0, events=0, difference=difference, changed=changed)
