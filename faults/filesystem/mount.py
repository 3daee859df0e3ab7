"""Starts and controls the process of a file system whose power can be cut, and finds such mounts on this machine."""

import ctypes.util
import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.filesystem.volume import Names

DEVICE = Path("/dev/fuse")
SUBTYPE = "zab"
END_SECONDS = 60.0  # for the process to unmount itself and to write its files to the folder


class MountError(ClusterError):
    """The file system could not be mounted, or does not answer."""


def missing_requirement(device: Path = DEVICE, *, extra: str = "fuse") -> tuple[str, str] | None:
    """Return what this machine lacks for mounting, and the command that installs it; None if nothing is missing. `extra`: the
    one to install if the package is missing."""
    if sys.platform != "linux":
        return "FUSE is used on Linux only", "run it on Linux"
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is not installed", f"pip install 'zab-chaos[{extra}]'"
    if shutil.which("fusermount3") is None or ctypes.util.find_library("fuse3") is None:
        return "fusermount3 or its library is not installed", _install_command()
    if not device.exists():
        return f"there is no {device}", "sudo modprobe fuse"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"this user may not open {device}", f"sudo chmod a+rw {device}"
    return None


def _install_command() -> str:
    for manager, command in (("apt-get", "install -y fuse3"), ("dnf", "install -y fuse3"), ("apk", "add fuse3")):
        if shutil.which(manager):
            return f"sudo {manager} {command}"
    return "install FUSE 3 with your system's package manager"


def is_mounted(folder: Path) -> bool:
    """Return whether a file system is mounted on the folder, also one whose process is gone."""
    place = os.path.realpath(folder)
    return any(one.mountpoint == place for one in psutil.disk_partitions(all=True))


def mounts_below(folder: Path) -> list[Path]:
    """Return the folders at or below this one on which file systems of this kind are mounted."""
    place = os.path.realpath(folder)
    mounts = [Path(one.mountpoint) for one in psutil.disk_partitions(all=True) if one.fstype == f"fuse.{SUBTYPE}"]
    return [path for path in mounts if path.is_relative_to(place)]


def is_dead(folder: Path) -> bool:
    """Return whether a file system is mounted on the folder whose process is gone."""
    try:
        folder.stat()
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def unmount(folder: Path) -> None:
    """Unmount a folder at once. Programs that have files open there keep the file system until they close them."""
    subprocess.run(["fusermount3", "-u", "-z", str(folder)], capture_output=True)


class Mount:
    """A file system on an empty folder, mounted while it is entered. It unmounts itself when this process ends.

    `log`: the file for the output of its process; `environment`: the environment of that process.
    """

    def __init__(
        self, folder: Path, log: Path, names: Names = "journal", environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder.absolute()
        self._log = log
        self._names = names
        self._environment = environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Mount it, and wait until programs can use it. Raises MountError."""
        self.start()
        try:
            self.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def start(self) -> None:
        """Start to mount it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-m", "zab_chaos.faults.filesystem", str(self.folder), "--names", self._names]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self._environment,
                start_new_session=True,
            )  # fmt: skip

    def await_ready(self) -> None:
        """Wait until programs can use it. Raises MountError."""
        self._read_line()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise MountError(f"no file system was started on {self.folder}")
        return self._process

    def begin_to_close(self) -> None:
        """Have its process unmount it, and end."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def close(self) -> None:
        """Unmount it. The folder then contains the files that were visible in it. May be called more than once."""
        process = self._process
        if process is None:
            return
        assert process.stdout is not None
        self.begin_to_close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        if is_mounted(self.folder):
            unmount(self.folder)

    def command(self, name: str, **arguments: Any) -> Any:
        """Call a method of `zab_chaos.faults.filesystem.power.MountedVolume` in its process. Raises MountError."""
        with self._lock:
            try:
                pipe = self._running.stdin
                assert pipe is not None
                pipe.write(msgspec.json.encode({"do": name, **arguments}) + b"\n")
                pipe.flush()
            except (OSError, ValueError) as error:
                raise MountError(f"the file system on {self.folder} is gone: {self._last_log_line()}") from error
            answer = self._read_line()
        if "error" in answer:
            raise MountError(f"the file system on {self.folder}: {answer['error']}")
        return answer.get("answer")

    def state(self) -> dict[str, Any]:
        """Return its counters, its active faults, and what a power cut would lose."""
        found: dict[str, Any] = self.command("state")
        return found

    def _read_line(self) -> dict[str, Any]:
        pipe = self._running.stdout
        assert pipe is not None
        line = pipe.readline()
        if not line:
            raise MountError(f"the file system on {self.folder} has ended: {self._last_log_line()}")
        return msgspec.json.decode(line, type=dict[str, Any])

    def _last_log_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"
