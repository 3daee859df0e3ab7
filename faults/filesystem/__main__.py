"""`python -m zab_chaos.faults.filesystem FOLDER [--names folder|journal]`: a file system whose power can be cut.

The file system is mounted on the folder, which must be empty, and the process stays in the foreground. When programs can
use it, the process writes the line `{"mounted": true}`. From then on each line of standard input is a command, such as
`{"do": "cut", "variant": "torn", "seed": 1}`, and is answered by one line. At the end of standard input, also because its
parent has died, or at SIGTERM, the process unmounts the file system, writes the visible files to the folder, and ends.
"""

import argparse
import os
import sys
import threading
from pathlib import Path
from typing import Any, get_args

import msgspec

from zab_chaos.faults.filesystem.mount import SUBTYPE, unmount
from zab_chaos.faults.filesystem.operations import OPTIONS, DiskOperations, Fuse
from zab_chaos.faults.filesystem.power import MountedVolume
from zab_chaos.faults.filesystem.volume import File, Names, Volume

CHUNK = 2**16
UNMOUNT_SECONDS = 3.0  # after that the process ends if the file system is still in use
COMMANDS = (
    "slow",
    "full",
    "fail",
    "cut",
    "cut_at_sync",
    "sync_all",
    "wipe",
    "detach",
    "attach",
    "state",
)  # methods of `MountedVolume`


class Process:
    """The process of a file system: serves FUSE, and carries out commands."""

    def __init__(self, folder: Path, names: Names) -> None:
        self._folder = folder
        self._unmounted = threading.Event()
        self._disk = MountedVolume(names)

    def run(self) -> None:
        """Serve the file system until it is unmounted, then write its files to the folder."""
        Fuse(
            DiskOperations(self._disk, threading.Thread(target=self._serve_commands, daemon=True).start), str(self._folder),
            foreground=True, fsname="zab-chaos", subtype=SUBTYPE, **OPTIONS,
        )  # fmt: skip
        self._unmounted.set()
        with self._disk.reading() as volume:
            write_to_folder(volume, self._folder)

    def _serve_commands(self) -> None:
        _write_line({"mounted": True})
        for line in sys.stdin.buffer:
            _write_line(self._carry_out(line))
        self._disk.close()
        unmount(self._folder)
        if not self._unmounted.wait(UNMOUNT_SECONDS):
            os._exit(1)

    def _carry_out(self, line: bytes) -> dict[str, Any]:
        try:
            command = msgspec.json.decode(line, type=dict[str, Any])
            name = command.pop("do", None)
            if name not in COMMANDS:
                raise ValueError(f"{name!r} is no command; there are {', '.join(COMMANDS)}")
            return {"answer": getattr(self._disk, name)(**command)}
        except (ValueError, TypeError, msgspec.DecodeError) as error:
            return {"error": str(error)}


def write_to_folder(volume: Volume, folder: Path) -> None:
    """Write the visible files and folders of a volume to a folder."""
    for path, inode in volume.walk():
        place = folder / path.lstrip("/")
        if isinstance(inode, File):
            _write_sparse(place, inode.contents.visible)
        else:
            place.mkdir(exist_ok=True)


def _write_sparse(path: Path, data: bytearray) -> None:
    with path.open("wb") as file:
        file.truncate(len(data))
        for offset in range(0, len(data), CHUNK):
            chunk = data[offset : offset + CHUNK]
            if chunk != bytes(len(chunk)):
                file.seek(offset)
                file.write(chunk)


def _write_line(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m zab_chaos.faults.filesystem", description=__doc__)
    parser.add_argument("folder", type=Path, help="an empty folder")
    parser.add_argument("--names", choices=get_args(Names), default="journal", help="when names are durable")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not folder.is_dir() or any(folder.iterdir()):
        parser.error(f"{folder} is no folder, or it is not empty; what is in it would be hidden, and overwritten")
    Process(folder, arguments.names).run()


if __name__ == "__main__":
    main()
