"""Judges the final state: compares the znodes that every node holds at the end with those that the scenario expects."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import Evidence, Judgement, Property, Verdict, Violation
from zab_chaos.node.tree.outcomes import Ok, Outcome

# The data of znodes, by node and path. None: no such znode. A path that could not be read is left out.
StateByNode = dict[int, dict[str, str | None]]
MILESTONE = "state"
SHOWN = 30  # characters of a value
NAME = "expected state"
STATEMENT = "At the end all nodes hold the same data, and it is what the scenario expects."


def text_of(outcome: Outcome) -> tuple[bool, str | None]:
    """Return whether an answer to `get` is conclusive, and the data; None if there is no such znode."""
    if isinstance(outcome, Ok):
        return True, (outcome.data or b"").decode("utf-8", "replace")
    return getattr(outcome, "error", None) == "no node", None


def judge_records(folder: Path, *, stored: bool = True) -> Verdict:
    """Return the verdict on the records of the run in `folder`, without a replay. `stored`: the folder has a manifest."""
    expect = RunFolder(folder).read_run().get("expect", {})
    line = state_line(folder) if expect.get("state") else None
    return with_state(oracle.judge(folder, stored=stored), expect, line)


def with_state(verdict: Verdict, expect: Mapping[str, Any], line: Mapping[str, Any] | None) -> Verdict:
    """Add the judgement of the final state to the verdict, if the scenario expects one. `line`: the milestone `state`."""
    expected = expect.get("state")
    if not expected:
        return verdict
    found = judge_state(expected, line)
    if found.verdict is Judgement.UNKNOWN:
        return verdict.including(found, [f"{NAME} is unknown: the nodes did not converge, or did not answer"])
    return verdict.including(found, [f"{NAME} is violated: {one.words}" for one in found.violations[:1]])


def judge_state(expected: Mapping[str, Sequence[str | None]], line: Mapping[str, Any] | None) -> Property:
    """Judge the final state. `expected`: the allowed values by path."""
    nodes: Mapping[str, Mapping[str, str | None]] = line["held"] if line is not None else {}
    unread = not nodes or any(path not in values for path in expected for values in nodes.values())
    violations = []
    for path, allowed in sorted(expected.items()):
        found = {node: values[path] for node, values in sorted(nodes.items()) if path in values}
        wrong = [node for node, value in found.items() if value not in allowed]
        if wrong or len(set(found.values())) > 1:
            words = ", ".join(f"node {node} {_value_text(value)}" for node, value in found.items())
            allowed_words = " or ".join(_value_text(value) for value in allowed)
            evidence = [Evidence("harness.jsonl", line.get("line", 0), dict(line))] if line is not None else []
            violations.append(Violation(f"{path}: {words}; all must have {allowed_words}", evidence))
    judgement = Judgement.VIOLATION if violations else Judgement.UNKNOWN if unread else Judgement.PASS
    return Property(
        name=NAME, source="the scenario", verdict=judgement, statement=STATEMENT, checked=len(expected) * len(nodes),
        violations=violations,
    )  # fmt: skip


def state_line(folder: Path) -> dict[str, Any] | None:
    """Read the milestone `state` from a run's folder; None if there is no readable one."""
    try:
        lines = folder.joinpath("harness.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = None
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and line.get("event") == MILESTONE and isinstance(line.get("held"), dict):
            found = line | {"line": number}
    return found


def _value_text(value: str | None) -> str:
    if value is None:
        return "no such znode"
    return repr(value) if len(value) <= SHOWN else f"{value[:SHOWN]!r}..."
