"""The final state: the data that every node holds at the end, of the znodes of which a scenario expects something."""

from collections.abc import Mapping

from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome
from zab_chaos.node.tree.refusal import NO_NODE

# The data of znodes, by node and path. None: no such znode. A path that could not be read is left out.
StateByNode = dict[int, dict[str, str | None]]


def is_conclusive(outcome: Outcome) -> bool:
    """Return whether an outcome shows a znode's state: it was read or written, or does not exist."""
    return isinstance(outcome, Ok) or (isinstance(outcome, Failed) and outcome.error == NO_NODE)


def data_of(answers: Mapping[str, Outcome]) -> dict[str, str | None]:
    """Return the data of znodes by path, from the answers to `get`, as `StateByNode` has it."""
    return {
        path: (outcome.data or b"").decode("utf-8", "replace") if isinstance(outcome, Ok) else None
        for path, outcome in answers.items()
        if is_conclusive(outcome)
    }
