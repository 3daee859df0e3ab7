"""Crash points in scenario files: the grammar is the node's own, this adds what was probably meant."""

from faults.rules import Rule, WrongError, suggest
from node.crash import GRAMMAR, BadPoint, check_action


def point(action: str = "crash") -> Rule:
    """The rule for a key that holds a point at which `action` is to happen; the value stays the text as written."""

    def read(value: object, _nodes: int) -> str:
        try:
            check_action(action, value)
        except BadPoint as bad:
            raise WrongError(bad.wrong, bad.allowed, suggest(bad.said, bad.choices)) from None
        return str(value)

    return Rule(GRAMMAR, read)
