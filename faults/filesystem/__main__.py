"""`python -m zab_chaos.faults.filesystem FOLDER [--names folder|journal]`: a file system whose power can be cut.

It is mounted on the folder, which must be empty, and stays in the foreground. When programs can use it, it writes a line
`{"mounted": true}`. Then each line of its standard input is a command, `{"do": "cut", "variant": "torn", "seed": 1}`,
and is answered by a line. At the end of its input, which comes when whoever holds it is gone, or at SIGTERM, it unmounts
itself, writes what is seen in it to the folder, and ends.
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
from zab_chaos.faults.filesystem.power import Disk
from zab_chaos.faults.filesystem.volume import File, Names, Volume

CHUNK = 2**16
UNMOUNT_SECONDS = 3.0  # after that the process ends with the mount, whoever still uses it
COMMANDS = ("slow", "full", "fail", "cut", "cut_at_sync", "sync_all", "wipe", "rest", "begin", "state")


class Process:
    """The file system and its commands."""

    def __init__(self, folder: Path, names: Names) -> None:
        self._folder = folder
        self._disk = Disk(names)

    def run(self) -> None:
        """Until it is unmounted."""
        Fuse(
            DiskOperations(self._disk, threading.Thread(target=self._obey, daemon=True).start), str(self._folder),
            foreground=True, fsname="zab-chaos", subtype=SUBTYPE, **OPTIONS,
        )  # fmt: skip
        with self._disk.reading() as volume:
            lay_out(volume, self._folder)

    def _obey(self) -> None:
        _say({"mounted": True})
        for line in sys.stdin.buffer:
            _say(self._answer(line))
        self._disk.close()
        unmount(self._folder)
        threading.Timer(UNMOUNT_SECONDS, os._exit, (1,)).start()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            command = msgspec.json.decode(line, type=dict[str, Any])
            name = command.pop("do", None)
            if name not in COMMANDS:
                raise ValueError(f"{name!r} is no command; there are {', '.join(COMMANDS)}")
            return {"answer": getattr(self._disk, name)(**command)}
        except (ValueError, TypeError, msgspec.DecodeError) as error:
            return {"error": str(error)}


def lay_out(volume: Volume, folder: Path) -> None:
    """Write what is seen in the volume to a folder."""
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
            if any(chunk):
                file.seek(offset)
                file.write(chunk)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m zab_chaos.faults.filesystem", description=__doc__)
    parser.add_argument("folder", type=Path, help="an empty folder")
    parser.add_argument("--names", choices=get_args(Names), default="journal", help="when names are durable")
    told = parser.parse_args()
    if not told.folder.is_dir() or any(told.folder.iterdir()):
        parser.error(f"{told.folder} is no folder, or it is not empty; what is in it would be hidden, and overwritten")
    Process(told.folder, told.names).run()


if __name__ == "__main__":
    main()
