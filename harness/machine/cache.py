"""The cache of downloaded and built files: in the checkout, or in the user's cache folder when installed."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from zab_chaos.harness.machine import checkout
from zab_chaos.harness.machine.umask import umask


def folder() -> Path:
    """Return the cache's folder, which need not exist yet."""
    root = checkout.root()
    return root / ".cache" if root is not None else platformdirs.user_cache_path("zab-chaos", appauthor=False)


LOCK = ".lock"  # in each folder of the cache; locked while something is fetched into that folder
UNFINISHED = "fetching-"  # the beginning of the names of temporary folders


def store(target: Path, make: Callable[[Path], Path]) -> None:
    """Create the file or folder `target` atomically. If another process does so already, wait for it, and use its result.

    `make` creates it in the temporary folder that it is given, and returns its path. All users can read the result, although
    files of a run are private. What a killed process has not finished is removed.
    """
    with umask(0o022):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent):
            if target.exists():
                return
            for left in target.parent.glob(f"{UNFINISHED}*"):  # its process is gone: it would hold the lock
                shutil.rmtree(left, ignore_errors=True)
            # The temporary folder is on the same file system, so that the result is put in place by one rename.
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=UNFINISHED) as workspace:
                make(Path(workspace)).replace(target)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of the cache. The kernel releases it when this process ends."""
    with folder.joinpath(LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # also for a process that was forked meanwhile, and has the file open, too
