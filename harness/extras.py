"""Optional dependencies: an error that names the extra to install if a package is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from zab_chaos.harness.errors import BadInput


class MissingExtra(BadInput):
    """A package of an extra is not installed. The text names the command that installs it."""


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import the packages of the extra `name` in this block. Raises MissingExtra, whose text says that `what` needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "zab_chaos"):
            raise
        raise MissingExtra(
            f"{what} needs {package}, which is not installed: pip install 'zab-chaos[{name}]'"
        ) from error
