"""Mounted file systems for the tests, which are skipped where none can be mounted."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.filesystem.mount import Mount, missing_requirement
from zab_chaos.faults.filesystem.volume import Names
from zab_chaos.node.store.disk import DiskFaults, OrdinaryDisk


def possible() -> None:
    """Skip the test, with the reason, where no file system can be mounted."""
    found = missing_requirement()
    if found is not None:
        pytest.skip(f"{found[0]}: {found[1]}")


@contextmanager
def mounted(folder: Path, names: Names = "folder") -> Iterator[Mount]:
    """A file system on `folder`/disk, on which a process is said to run. In the end it is gone, whatever has happened."""
    possible()
    with Mount(folder / "disk", folder / "disk.log", names) as mount:
        mount.command("attach")
        yield mount
    assert not os.path.ismount(mount.folder)


NOBODY = "65534"
# In a mount namespace of its own, a device that every user may open, as most distributions have it; then another user's
# process without root's rights. The interpreter of the tests may lie below root's home, so it may look into all folders.
AS_NOBODY = f"""
set -e
mount -t tmpfs none "$0"
mknod -m 666 "$0/fuse" c 10 229
mount --bind "$0/fuse" /dev/fuse
exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search "$@"
"""


@contextmanager
def as_an_ordinary_user() -> Iterator[tuple[list[str], Path]]:
    """What to put before a command so that it runs without root's rights, and a folder that it may write to.

    Somebody who is not root has no need of this: skipped, as all other tests then show the same.
    """
    possible()
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    if not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("unshare and setpriv, of util-linux, are not installed")
    with tempfile.TemporaryDirectory(prefix="zab-nobody-") as name, tempfile.TemporaryDirectory() as device:
        os.chown(name, int(NOBODY), int(NOBODY))
        yield ["unshare", "--mount", "--propagation", "private", "bash", "-c", AS_NOBODY, device], Path(name)


class MountedFaults(DiskFaults):
    """What is wrong with a mounted file system: set there, and obeyed there."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        super().__init__(can_cut_power=True)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "full":
            self._mount.command("full", on=value)
        elif name == "error":
            self._mount.command("fail", op=value)
        elif name == "slow_ms":
            self._mount.command("slow", ms=value)
        elif name != "slowed":
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name != "slowed":
            raise AttributeError(name)
        return self._mount.state()["slowed"]

    def before_write(self) -> None: ...

    def before_sync(self) -> None: ...


class MountedDisk(OrdinaryDisk):
    """A node's disk on a mounted file system, which is where its faults are."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount.folder)
        self.faults = MountedFaults(mount)


def after_power_cut(mount: Mount) -> MountedDisk:
    """What the next process finds."""
    mount.command("cut")
    assert mount.state()["unsynced_bytes"] == mount.state()["unsynced_changes"] == 0
    mount.command("attach")
    return MountedDisk(mount)
