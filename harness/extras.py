"""The optional parts of an installation, and what is said where one is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from zab_chaos.harness.errors import BadInput


class MissingExtra(BadInput):
    """A package that only an extra brings is not installed. The text names the command that installs it."""


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import in here what the extra `name` brings; `what` needs it. Raises MissingExtra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "zab_chaos"):
            raise
        raise MissingExtra(
            f"{what} needs {package}, which is not installed: pip install 'zab-chaos[{name}]'"
        ) from error
