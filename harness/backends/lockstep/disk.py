"""A simulated machine's disk whose files are in a folder, as the harness sees it beside the process that uses it.

The process itself decides what survives a power cut, with `zab_chaos.node.store.faithful` and a SIGKILL. So nothing has to be
done about that here.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from zab_chaos.node.store.os_files import VOLATILE


class FolderDisk:
    """Implements `zab_chaos.model.world.interfaces.DiskInterface`.

    `draw_sync`: draws how many nanoseconds a sync takes. `slow_ms`: the additional time of each sync.
    """

    def __init__(self, root: Path, draw_sync: Callable[[], int]) -> None:
        self.root = root
        self.owed_ns = 0
        self.slow_ms = 0.0
        self._draw_sync = draw_sync

    def new_life(self) -> None:
        self.owed_ns, self.slow_ms = 0, 0.0

    def sync_time(self) -> int:
        return self._draw_sync() + int(self.slow_ms * 1_000_000)

    def spend(self, slow_ms: float) -> None:
        """Add the time of a sync that the node has made without time passing."""
        self.owed_ns += self._draw_sync() + int(slow_ms * 1_000_000)

    def lose_power(self) -> None:
        """Do nothing: unsynced bytes were lost with the process."""

    def wipe(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def export_to(self, folder: Path) -> None:
        """Copy the files that the next life would find to `folder`."""
        self.root.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.root / VOLATILE, ignore_errors=True)
        if folder != self.root:
            shutil.copytree(self.root, folder, dirs_exist_ok=True)

    def import_from(self, folder: Path) -> None:
        self.wipe()
        shutil.copytree(folder, self.root)
