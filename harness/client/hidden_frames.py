"""Hides frames of this project from pytest's tracebacks, so that an error is shown at the caller's line."""

from collections.abc import Callable


def hidden_for(*errors: type[BaseException]) -> Callable[[object], bool]:
    """Return a value for a module's `__tracebackhide__` that hides its frames for these errors."""
    return lambda raised: isinstance(getattr(raised, "value", None), errors)
