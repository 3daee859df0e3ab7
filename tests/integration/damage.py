"""Damage to the files of a run, each kind with the verdict that it has to get."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.corpus.story import Story, ensemble
from zab_chaos.model import manifest

NODE_1, NODE_2 = "trace/node-1-1.jsonl", "trace/node-2-1.jsonl"


def good() -> Story:
    story = ensemble(writes=5)
    story.settle()
    return story


def saved(folder: Path, story: Story | None = None) -> Path:
    """Save the story as a run's folder, replacing what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    (story or good()).save(folder)
    return folder


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def truncated(run: Path) -> None:
    """A file that ends in the middle of a line, and no fault that explains it."""
    held = (run / NODE_1).read_bytes()
    (run / NODE_1).write_bytes(held[:-7])


def garbage(run: Path) -> None:
    """A line in the middle that is not JSON."""
    told = lines(run / NODE_1)
    (run / NODE_1).write_text("".join([*told[:6], "\x00\x01 no JSON {\n", *told[6:]]))


def other_form(run: Path) -> None:
    """JSON, but not of the event's form: a zxid of three numbers."""
    with (run / NODE_1).open("a") as file:
        event = {"t": 10**12, "node": 1, "life": 1, "n": len(lines(run / NODE_1)) + 1, "event": "established"}
        file.write(json.dumps({**event, "epoch": 1, "last_zxid": [1, 2, 3], "quorum": [1]}) + "\n")


def stranger(run: Path) -> None:
    """An event of node 2 in the trace of node 1."""
    with (run / NODE_1).open("a") as file:
        file.write(lines(run / NODE_2)[-1])


def missing(run: Path) -> None:
    """A node without any trace."""
    (run / NODE_2).unlink()


def backwards(run: Path) -> None:
    """A clock that goes back by a second between two events."""
    told = [json.loads(line) for line in lines(run / NODE_1)]
    told[-1]["t"] -= 10**9
    (run / NODE_1).write_text("".join(json.dumps(event) + "\n" for event in told))


def bad_operation(run: Path) -> None:
    """A completion with an outcome that does not exist."""
    with (run / "ops.jsonl").open("a") as file:
        file.write(json.dumps({"type": "complete", "t": 10**12, "client": 1, "seq": 1, "outcome": "maybe"}) + "\n")


def bad_fault(run: Path) -> None:
    (run / "faults.jsonl").write_text('{"type": "inject"\n')


def bad_milestone(run: Path) -> None:
    with (run / "harness.jsonl").open("a") as file:
        file.write("[1, 2]\n")


def no_run_json(run: Path) -> None:
    (run / "run.json").unlink()


def broken_run_json(run: Path) -> None:
    (run / "run.json").write_text('{"nodes": "three"')


def older(run: Path) -> None:
    """A run of an older version, without seed, backend and disk in run.json, and with fewer fields in its events."""
    facts = json.loads((run / "run.json").read_text())
    kept = {name: facts[name] for name in ("nodes", "outcome", "expect")}
    (run / "run.json").write_text(json.dumps(kept))
    manifest.seal(run)


def newer(run: Path) -> None:
    """An event of a later version, which this one does not know: it is kept unchanged, and is not damage."""
    *before, last = (json.loads(line) for line in lines(run / NODE_1))
    mood = {**before[-1], "n": last["n"], "event": "mood", "epoch": "sunny"}
    told = [*before, mood, {**last, "n": last["n"] + 1}]
    (run / NODE_1).write_text("".join(json.dumps(line) + "\n" for line in told))
    manifest.seal(run)


# The verdict, and words of its reasons.
DAMAGE: dict[Callable[[Path], None], tuple[str, str]] = {
    truncated: ("UNKNOWN", f"{NODE_1}:"),
    garbage: ("UNKNOWN", f"{NODE_1}:7 is not readable"),
    other_form: ("UNKNOWN", "is not readable: Expected `array` of length 2"),
    stranger: ("UNKNOWN", "is of node 2, life 1"),
    missing: ("UNKNOWN", "trace/node-2-1.jsonl is missing"),
    backwards: ("UNKNOWN", "is earlier than the line before it"),
    bad_operation: ("UNKNOWN", "ops.jsonl:11 is not readable"),
    bad_fault: ("UNKNOWN", "faults.jsonl:1 is not readable"),
    bad_milestone: ("UNKNOWN", "harness.jsonl:6 is not readable"),
    no_run_json: ("HARNESS-ERROR", "give the folder of one run, with its run.json"),
    broken_run_json: ("HARNESS-ERROR", "does not describe a run"),
    older: ("PASS", ""),
    newer: ("PASS", ""),
}
# What leaves a line in the table `quarantine`.
REFUSED = {truncated, garbage, other_form, stranger, bad_operation, bad_fault, bad_milestone}


def write(root: Path) -> None:
    """Write a good run, a copy of it, and a version of it with each kind of damage below `root`, and an empty folder."""
    saved(root / "good")
    shutil.copytree(root / "good", root / "good-copy")
    for harm in DAMAGE:
        harm(saved(root / harm.__name__))
    (root / "empty").mkdir()
