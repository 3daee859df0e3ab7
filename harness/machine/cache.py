"""The cache of downloaded and built files: in the checkout, or in the user's cache folder when installed."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs

from zab_chaos.harness.machine import checkout
from zab_chaos.harness.machine.umask import umask


def folder() -> Path:
    """Return the cache's folder, which need not exist yet."""
    root = checkout.root()
    return root / ".cache" if root is not None else platformdirs.user_cache_path("zab-chaos", appauthor=False)


def store(target: Path, make: Callable[[Path], Path]) -> None:
    """Create the file or folder `target` atomically. If two processes do so at once, the first result stays.

    `make` creates it in the temporary folder that it is given, and returns its path. All users can read the result, although
    files of a run are private.
    """
    with umask(0o022):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The temporary folder is on the same file system, so that the result is put in place by one rename.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as workspace:
            made = make(Path(workspace))
            try:
                made.replace(target)
            except OSError:
                if not target.is_dir():  # else another process was faster
                    raise
