"""Where what was fetched or made once is kept: beside the checkout, or in the user's cache folder when installed."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs

from zab_chaos.harness.machine import checkout
from zab_chaos.harness.machine.umask import umask


def folder() -> Path:
    """It need not exist yet."""
    root = checkout.root()
    return root / ".cache" if root is not None else platformdirs.user_cache_path("zab-chaos", appauthor=False)


def store(target: Path, make: Callable[[Path], Path]) -> None:
    """Put at `target` the file or folder that `make` leaves in the folder that it is given: whole or not at all, although two
    runs may do so at once. Everybody can read it, also where a run begins, whose own files are private."""
    with umask(0o022):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A folder on the same file system, so that what is finished is put in place by one rename.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as room:
            made = make(Path(room))
            try:
                made.replace(target)
            except OSError:
                if not target.is_dir():  # somebody else was faster
                    raise
