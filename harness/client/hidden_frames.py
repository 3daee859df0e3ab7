"""Whose line an error is shown at: pytest leaves out the frames of a module that asks for it."""

from collections.abc import Callable


def hidden_for(*errors: type[BaseException]) -> Callable[[object], bool]:
    """A module's `__tracebackhide__`: for these errors, which are about the line that called, the way down says nothing."""
    return lambda raised: isinstance(getattr(raised, "value", None), errors)
