"""The final state: the data that every node holds at the end, of the znodes of which a scenario expects something."""

from zab_chaos.node.tree.outcomes import Ok, Outcome

# The data of znodes, by node and path. None: no such znode. A path that could not be read is left out.
StateByNode = dict[int, dict[str, str | None]]


def text_of(outcome: Outcome) -> tuple[bool, str | None]:
    """Return whether an answer to `get` is conclusive, and the data; None if there is no such znode."""
    if isinstance(outcome, Ok):
        return True, (outcome.data or b"").decode("utf-8", "replace")
    return getattr(outcome, "error", None) == "no node", None
