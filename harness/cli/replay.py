"""`zab replay`: re-execute a recorded run and compare every output.

On a terminal it opens the stepper; with --until and --show it stops at an event of one life.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, HarnessError
from zab_chaos.harness.extras import MissingExtra, extra
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.harness.report.headline import first_violation
from zab_chaos.harness.report.html.run_data import have_own_clocks
from zab_chaos.harness.report.progress import Steps, display
from zab_chaos.harness.report.recording import UnknownDefect, core_of, how_to_record
from zab_chaos.harness.report.steps import read_steps
from zab_chaos.harness.results import run_folder as stored
from zab_chaos.harness.results.fault_spans import read_spans
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.harness.runs.judgement import other_version
from zab_chaos.model.events import trace_name
from zab_chaos.model.replay.difference import Difference
from zab_chaos.model.replay.life import ReplayStop, Rerun
from zab_chaos.model.replay.replay import (
    ReplayResult,
    changed_files,
    edited_files,
    recorded_lives,
    replay,
    replay_life,
)
from zab_chaos.model.replay.state import describe_state
from zab_chaos.node.core.peer import Peer

INPUTS_AHEAD = 5  # inputs that are shown beyond the one where the replay stopped
_UNTIL = re.compile(r"(i?)([1-9][0-9]{0,17})")


def replay_command(
    run: str, *, node: int | None, life: int | None, until: str | None, show: bool, step: bool | None, results: Path,
    json: bool,
) -> int:  # fmt: skip
    """Replay a run and show the result. Raises BadInput, HarnessError.

    `step`: open the stepper; None: open it on a terminal, unless an option was given that the stepper does not support.
    Exit codes: 0 equal; 1 different; 2 nothing is recorded, the nodes had an unknown defect, or the replayed files were changed
    after the run.
    """
    without_options = node is None and life is None and until is None and not show and not json
    if step and not without_options:
        raise BadInput("--step shows all nodes; leave out --node, --life, --until, --show and --json")
    if step and not _on_terminal():
        raise BadInput("--step needs a terminal. Without --step, every output is compared with the recorded one.")
    folder = stored.find(results, run)
    console = console_for(json=json)
    facts = folder.read_run()
    recorded = recorded_lives(folder.path)
    stop_at, chosen = _parse_options(recorded, node, life, until, show=show)
    if not recorded:
        return _report_unknown(_why_nothing_is_recorded(facts), console, json=json)
    try:
        peer_type = core_of(facts)
    except UnknownDefect as error:
        return _report_unknown(str(error), console, json=json)
    try:
        if step or (step is None and without_options and _on_terminal()):
            try:
                return step_through(folder, peer_type, console)
            except MissingExtra as error:
                if step:
                    raise
                say(console, f"{error}. Without it, every output is compared with the recorded one:")
        return _replay(
            folder, stop_at, chosen, peer_type, console,
            show=show, json=json, all_lives=node is None and life is None,
        )  # fmt: skip
    except OSError as error:
        raise HarnessError(f"{error.filename} cannot be read: {error.strerror}") from error


def _replay(
    folder: RunFolder, stop_at: ReplayStop | None, chosen: list[tuple[int, int]], peer_type: type[Peer], console: Console,
    *, show: bool, json: bool, all_lives: bool,
) -> int:  # fmt: skip
    """Replay the chosen lives, or stop within one. `all_lives`: replay all of them, also those whose recording is missing."""
    if stop_at is not None or show:
        return _replay_until(folder, chosen[0], stop_at, peer_type, console, show=show, json=json)
    lives = _replayed(folder.path, None if all_lives else chosen, peer_type, console)
    edited = edited_files(folder.path, None if all_lives else chosen)
    return _show_lives(folder, lives, edited, console, json=json)


def _replayed(
    folder: Path, chosen: list[tuple[int, int]] | None, peer_type: type[Peer], console: Console
) -> Iterator[ReplayResult]:
    """Replay the chosen lives, or all, and show how far that is."""
    with display(console, quiet=False) as screen:
        steps = Steps(screen)
        if chosen is None:
            yield from replay(folder, peer_type, steps.replaying(folder))
        for node, life in chosen or ():
            yield replay_life(folder, node, life, peer_type, steps.replaying(folder, f"node-{node}-{life}.bin"))


def _why_nothing_is_recorded(facts: dict[str, Any]) -> str:
    if facts.get("record"):
        return f"the run has no recordings, although its nodes were to make some; it ended like this: {facts.get('outcome')}"
    how = how_to_record(facts)
    none = "the run has no recordings (`zab run --no-record`, record = false, or nodes that can't be replayed)"
    return f"{none}. {how}" if how is not None else none


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _parse_options(
    recorded: list[tuple[int, int]], node: int | None, life: int | None, until: str | None, *, show: bool
) -> tuple[ReplayStop | None, list[tuple[int, int]]]:
    """Return where to stop, and which lives to replay. Raises BadInput with all mistakes."""
    mistakes = []
    match = _UNTIL.fullmatch(until) if until is not None else None
    if until is not None and match is None:
        mistakes.append(
            f"--until {until}: give the number of a trace event (its `n`), such as 120, or of an input, such as i120"
        )
    chosen = [one for one in recorded if node in (None, one[0]) and life in (None, one[1])]
    if recorded and not chosen:
        mistakes.append(f"there is no recording of that life. Recorded: {_lives(recorded)}")
    elif len(chosen) > 1 and (until is not None or show):
        mistakes.append(f"--until and --show need a single life; choose it with --node and --life: {_lives(chosen)}")
    if mistakes:
        raise BadInput("\n".join(mistakes))
    return (ReplayStop(int(match[2]), input=bool(match[1])) if match else None), chosen


def _lives(lives: Iterable[tuple[int, int]]) -> str:
    """Format lives as `node 1 life 1, 2; node 2 life 1`."""
    numbers: dict[int, list[str]] = {}
    for node, life in lives:
        numbers.setdefault(node, []).append(str(life))
    return "; ".join(f"node {node} life {', '.join(own)}" for node, own in numbers.items())


def _report_unknown(why: str, console: Console, *, json: bool) -> int:
    say(console, f"UNKNOWN: {why}")
    if json:
        print_json({"exit": int(Exit.UNKNOWN), "equal": None, "why": why, "lives": []})
    return Exit.UNKNOWN


# ---- all nodes, step by step ----


def step_through(folder: RunFolder, peer_type: type[Peer], console: Console) -> int:
    """Open the stepper on all nodes of the run. Raises MissingExtra."""
    with extra("shell", "the stepper of zab replay"):
        from zab_chaos.harness.cli.stepper import Stepper
    own_clocks = have_own_clocks(folder.read_run(), read_spans(Source(folder.path)))
    with console.status("re-executing the run") as status:
        steps = read_steps(folder.path, peer_type, own_clocks=own_clocks, say=status.update)
    verdict = folder.read_verdict()
    violation = first_violation(verdict) if verdict is not None else None
    evidence = violation[1].evidence if violation is not None else []
    title = f"{folder.read_run().get('scenario', folder.name)}  {verdict.verdict if verdict else 'not judged'}"
    Stepper(steps, title, folder.origin(), evidence).run()
    for gap in steps.gaps.values():
        say(console, gap)
    changed = [changed_files(folder.path, *life) for life in steps.gaps]
    return _conclude(changed, edited_files(folder.path), console)


# ---- whole lives ----


def _show_lives(
    folder: RunFolder, lives: Iterable[ReplayResult], edited: list[str], console: Console, *, json: bool
) -> int:
    """Replay the lives and show the results. Return the exit code. `edited`: how their files were changed after the run."""
    done: list[ReplayResult] = []
    interrupted = False
    try:
        done.extend(lives)
    except Stopped:
        interrupted = True
    equal = all(one.difference is None for one in done)
    show_table(console, _table(done))
    for one in done:
        if one.difference is not None:
            _show_difference(one.difference, console)
    if equal and interrupted:
        say(console, "interrupted: EQUAL so far")
    else:
        say(console, Text("EQUAL", "green") if equal else Text("DIFFERENT", "bold red"))
    _show_version_difference(folder, console, equal=equal)
    code = _conclude([one.changed for one in done if one.difference is not None], edited, console)
    if equal and interrupted:
        code = Exit.UNKNOWN
    if json:
        all_equal = equal if not equal or code is Exit.PASS else None
        print_json({"exit": int(code), "equal": all_equal, "lives": msgspec.to_builtins(done)})
    return code


def _table(lives: list[ReplayResult]) -> Table:
    counts = ("node", "life", "inputs", "outputs", "events")
    table = wrapping_table(*counts, "replay", right=counts)
    for one in lives:
        numbers = map(str, (one.node, one.life, one.inputs, one.outputs, one.events))
        table.add_row(*numbers, Text("DIFFERENT", "bold red") if one.difference else Text("equal", "green"))
    return table


def _show_difference(difference: Difference, console: Console) -> None:
    at = "line" if difference.file.endswith("jsonl") else "offset"
    lines = [
        "",
        f"node {difference.node}, life {difference.life}: {difference.what}",
        f"  where        input {difference.input}, after trace event {difference.event} "
        f"({difference.file}, {at} {difference.place})",
    ]
    if difference.expected or difference.got:
        lines += [f"  recorded     {difference.expected}", f"  re-executed  {difference.got}"]
    if difference.inputs:
        lines += ["  the last inputs:", *(f"    {words}" for words in difference.inputs)]
    say(console, "\n".join(lines))


def _show_version_difference(folder: RunFolder, console: Console, *, equal: bool) -> None:
    """If the replay differs and another version of this code made the run, say so."""
    difference = None if equal else other_version(folder.read_run())
    if difference is not None:
        say(console, difference)


def _conclude(changed: list[list[str]], edited: list[str], console: Console) -> Exit:
    """Show how files were changed after the run, and return the exit code.

    `changed`: for each life that differs, how its files were. `edited`: how those of all replayed lives were; it counts if no
    life differs.
    """
    for words in dict.fromkeys(chain.from_iterable(changed or [edited])):
        say(console, f"UNKNOWN: {words}", "yellow")
    if changed:
        return Exit.UNKNOWN if all(changed) else Exit.VIOLATION
    return Exit.UNKNOWN if edited else Exit.PASS


# ---- one life, up to a point ----


def _replay_until(
    folder: RunFolder, one: tuple[int, int], stop_at: ReplayStop | None, peer_type: type[Peer], console: Console,
    *, show: bool, json: bool,
) -> int:  # fmt: skip
    """Replay one life up to `stop_at`, or up to a difference before that, and show its state there."""
    if not folder.file(trace_name(*one)).is_file():
        edited = edited_files(folder.path, [one])
        return _show_lives(folder, [replay_life(folder.path, *one, peer_type)], edited, console, json=json)
    rerun = Rerun(folder.path, *one, peer_type)
    reached = rerun.run(stop_at)
    if stop_at is not None and not reached and rerun.difference is None:
        last = f"its last event is {rerun.matcher.event}, its last input i{rerun.inputs}"
        raise BadInput(f"node {one[0]}, life {one[1]} ends before that: {last}")
    here: dict[str, Any] = {
        "node": one[0],
        "life": one[1],
        "input": rerun.inputs,
        "event": rerun.matcher.event,
        "difference": msgspec.to_builtins(rerun.difference),
        "state": dict(describe_state(rerun.machine, rerun.tree)) if show and rerun.booted else None,
        "inputs": rerun.recent_inputs(),
        "coming": rerun.next_inputs(INPUTS_AHEAD) if reached else [],
    }
    _show_stop(here, rerun.difference, console, show=show)
    _show_version_difference(folder, console, equal=rerun.difference is None)
    changed = [changed_files(folder.path, *one)] if rerun.difference is not None else []
    code = _conclude(changed, edited_files(folder.path, [one]), console)
    if json:
        print_json({"exit": int(code), "equal": rerun.difference is None, **here})
    return code


def _show_stop(here: dict[str, Any], difference: Difference | None, console: Console, *, show: bool) -> None:
    lines = [f"node {here['node']}, life {here['life']}, after input i{here['input']} (trace event {here['event']})"]
    if here["state"] is not None:
        width = max(map(len, here["state"]))
        lines += ["", *(f"  {name:{width}}  {value}" for name, value in here["state"].items())]
    if show and difference is None:
        lines += ["", "  inputs:", *(f"    {words}" for words in here["inputs"])]
        lines += ["    ---- here ----", *(f"    {words}" for words in here["coming"])]
    say(console, "\n".join(lines))
    if difference is None:
        say(console, "EQUAL so far" if here["coming"] else "EQUAL", "green")
    else:
        _show_difference(difference, console)
        say(console, "DIFFERENT", "bold red")
