"""What the transactions of a story do: prepared from what was asked for and from what a log holds, as a primary would."""

from collections.abc import Iterable
from typing import Any

Step = list[Any]  # [op, path, version, value], as `broadcast` has it


def state_of(steps: Iterable[Step]) -> dict[str, Step]:
    """The last step that made or set each znode that is there after all these steps."""
    found: dict[str, Step] = {}
    for step in steps:
        if step[0] in ("create", "set"):
            found[step[1]] = step
        elif step[0] == "delete":
            found.pop(step[1], None)
    return found


def children_of(parent: str, steps: Iterable[Step]) -> list[str]:
    """The names of a znode's children after these steps."""
    return sorted(
        path[len(parent.rstrip("/")) + 1 :] for path in state_of(steps) if path != "/" and above(path) == parent
    )


def created(parent: str, steps: Iterable[Step]) -> int:
    """How many children a znode was given since it was created itself."""
    count = 0
    for op, path, _, _ in steps:
        if path == parent and op == "create":
            count = 0
        elif op == "create" and above(path) == parent:
            count += 1
    return count


def above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def prepared(asked: Iterable[dict[str, Any]], before: list[Step]) -> list[Step]:
    """The steps of the transaction for these wishes. Conditions are not looked at: who tells a story knows them."""
    done: list[Step] = []
    for wish in asked:
        op, path, value = wish["op"], wish["path"], wish.get("value")
        there = state_of(before + done).get(path)
        found = 0 if there is None else there[2]
        if op == "create" and wish.get("sequential"):
            path = f"{path}{created(above(path), before + done):010d}"
        version = {"create": 0, "set": found + 1, "check": found}.get(op)
        done.append([op, path, version, value])
    return done
