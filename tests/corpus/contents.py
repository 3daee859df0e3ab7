"""The content of a story's transactions, prepared from requests and the content of a log, as a primary does it."""

from collections.abc import Iterable
from typing import Any

Step = list[Any]  # [op, path, version, value], as `broadcast` has it


def state_of(steps: Iterable[Step]) -> dict[str, Step]:
    """Return, for each znode that exists after these steps, the last step that created or set it."""
    found: dict[str, Step] = {}
    for step in steps:
        if step[0] in ("create", "set"):
            found[step[1]] = step
        elif step[0] == "delete":
            found.pop(step[1], None)
    return found


def children_of(parent: str, steps: Iterable[Step]) -> list[str]:
    """Return the names of a znode's children after these steps."""
    return sorted(
        path[len(parent.rstrip("/")) + 1 :] for path in state_of(steps) if path != "/" and above(path) == parent
    )


def created(parent: str, steps: Iterable[Step]) -> int:
    """Return how many children of a znode were created since its own creation."""
    count = 0
    for op, path, _, _ in steps:
        if path == parent and op == "create":
            count = 0
        elif op == "create" and above(path) == parent:
            count += 1
    return count


def above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def prepared(requested: Iterable[dict[str, Any]], before: list[Step]) -> list[Step]:
    """Return the steps of the transaction for these requested steps. Conditions are not checked: the story knows the result."""
    done: list[Step] = []
    for step in requested:
        op, path, value = step["op"], step["path"], step.get("value")
        last = state_of(before + done).get(path)
        found = 0 if last is None else last[2]
        if op == "create" and step.get("sequential"):
            path = f"{path}{created(above(path), before + done):010d}"
        version = {"create": 0, "set": found + 1, "check": found}.get(op)
        done.append([op, path, version, value])
    return done
