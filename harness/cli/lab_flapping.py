"""`zab explore lab-flapping` and `zab shrink lab-flapping`: the lab's protocol and the full protocol under flapping links."""

import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from zab_chaos.harness.cli.output import print_json, write_answer, write_file
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.explore.lab_flapping import FlappingResult, compare, full_protocol, judge_full
from zab_chaos.harness.explore.workers import LocalWorkers
from zab_chaos.harness.machine.files import check_output_file
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say
from zab_chaos.model.lab import FLAPPING_PROPERTIES, lab_flapping
from zab_chaos.model.lab.flapping import judge_flapping
from zab_chaos.model.lab.shrink import count_events, shrink_flapping
from zab_chaos.model.lab.timeline import timeline
from zab_chaos.pipeline.naming import plural

LAB = "lab-flapping"  # this is not a scenario but the lab's own protocol, under links that fail and heal


def refuse_options(excluded: dict[str, bool]) -> None:
    """Raise BadInput if options were given that do not apply to the lab. `excluded`: whether each one was given."""
    given = [name for name, was_given in excluded.items() if was_given]
    if given:
        raise BadInput(f"{LAB} runs the lab's own protocol, where that has no effect: leave out {', '.join(given)}")


def explore_lab(seeds: range, console: Console, out: Path | None, *, jobs: int, keep_going: bool, json: bool) -> int:
    """Run both protocols under the links of each seed, and print where they fail. The exit code is 1 if either fails."""
    check_output_file(out)
    results: list[FlappingResult] = []
    interrupted = False
    with LocalWorkers(jobs) as workers:
        try:
            for one in workers.results(compare, seeds):
                results.append(one)
                if one.lab_violation is not None and not keep_going:
                    break
        except Stopped:
            interrupted = True
    failed = [one for one in results if one.lab_violation is not None]
    full_failed = [one for one in results if one.verdict != "PASS"]
    for one in results:
        if one.verdict != "PASS" or (one.lab_violation is not None and not keep_going):
            _print_seed(one, console)
    say(
        console,
        f"{plural(len(results), 'seed')}: the lab's protocol violates {FLAPPING_PROPERTIES} in {len(failed)}; under the same "
        f"links the full protocol passes in {len(results) - len(full_failed)}",
    )
    again = shlex.join(["zab", "explore", LAB, "--seeds", str(failed[0].seed)]) if failed else None
    if failed:
        say(console, f"repeat   {again}")
        say(console, f"smaller  zab shrink {LAB} --seed {failed[0].seed}")
    answer = {
        "seeds": len(results),
        "failed": [
            {"seed": one.seed, "violated": [violation.property], "words": str(violation)}
            for one in failed
            if (violation := one.lab_violation) is not None
        ],
        "full_protocol": [{"seed": one.seed, "verdict": one.verdict, "reasons": one.reasons} for one in full_failed],
        "command": again,
    }
    write_answer(answer, out, json=json)
    if interrupted:
        say(console, "interrupted")
    if failed or full_failed:
        return Exit.VIOLATION
    return Exit.UNKNOWN if interrupted else Exit.PASS


def _print_seed(one: FlappingResult, console: Console) -> None:
    line = Text(f"seed {one.seed}: ")
    if one.lab_violation is not None:
        line.append("VIOLATION", "bold red").append(f" of the lab's protocol  {one.lab_violation}")
    say(console, line.append(f"; the full protocol: {one.verdict}"))
    for reason in one.reasons:
        say(console, f"  {reason}")


def shrink_lab(
    console: Console, *, seed: int | None, out: Path | None, excluded: dict[str, bool], json: bool, quiet: bool
) -> int:
    """Shrink the seed's links and proposals, and print what happens with them. Raises BadInput if the seed does not fail.

    `out`: a file for the shrunk links, as a scenario for the full protocol. `excluded`: options that do not apply here, and
    whether they were given.
    """
    refuse_options(excluded)
    check_output_file(out)
    before = lab_flapping(1 if seed is None else seed)
    if judge_flapping(before) is None:
        raise BadInput(f"{LAB} with seed {before.seed} violates nothing: there is nothing to shrink")
    after, tries = shrink_flapping(before)
    lines = timeline(after)
    for line in () if quiet else lines:
        say(console, line)
    verdict, reasons = judge_full(before)
    say(
        console,
        f"\nseed {before.seed}: {count_events(before)} events (links cut and healed, proposals), {before.nodes} nodes, "
        f"{before.rounds} ticks; now {count_events(after)} events, {after.nodes} nodes, {after.rounds} ticks ({tries} tries)\n"
        f"the full protocol under the original links: {verdict}",
    )
    if out is not None:
        write_file(out, full_protocol(after).source)
        say(console, f"file     {out}, the shrunk links as a scenario for the full protocol")
    if json:
        facts = {"events": [count_events(before), count_events(after)], "tries": tries, "story": lines}
        print_json({"exit": int(Exit.PASS), **facts, "full_protocol": verdict, "reasons": reasons})
    return Exit.PASS
