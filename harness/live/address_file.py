"""The address file of a running ensemble, in which other commands (`zab inject`, `zab client`) find its addresses and keys.

It exists as long as the ensemble runs, in `results/standing/`, and is named after the process that runs the ensemble. Only
its owner may read it, because it says where the keys are. A file whose process is gone is stale; the next reader removes it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from zab_chaos.harness.errors import BadInput
from zab_chaos.node.net.keys import KeyFiles

FOLDER = "standing"


class AddressFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of an address file.

    `pid`: the process that runs the ensemble. `since`: when it began, in clock ticks since the machine started; this tells
    it from a later process with the same id, and does not change when the clock is set. `folder`: the run's folder.
    `control`: the address at which `zab up` listens for `zab inject`; `nodes`: the client address of each node; all are
    `host:port`. `secret`: the clients' key file; `control_secret`: the key file for `control`. `on`: the backend.
    """

    pid: int
    since: int
    folder: str
    control: str
    nodes: dict[int, str]
    secret: str
    control_secret: str
    on: str = "processes"

    @property
    def open(self) -> bool:
        """Whether the process that wrote the file still runs."""
        return _began(self.pid) == self.since


def _began(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the machine started; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19])  # `starttime`, proc_pid_stat(5)


@contextmanager
def opened(
    results: Path, *, folder: Path, control: str, nodes: dict[int, str], keys: KeyFiles, on: str = "processes"
) -> Iterator[AddressFile]:
    """Write the address file of this process's ensemble, and remove it at the end."""
    pid = os.getpid()
    address = AddressFile(
        pid=pid, since=_began(pid) or 0, folder=str(folder.resolve()), control=control, nodes=nodes,
        secret=str(keys.clients.resolve()), control_secret=str(keys.control.resolve()), on=on,
    )  # fmt: skip
    path = results / FOLDER / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(address) + b"\n")
    try:
        yield address
    finally:
        path.unlink(missing_ok=True)


def running_ensembles(results: Path) -> list[AddressFile]:
    """Return the address file of every running ensemble, the latest last. Stale files are removed."""
    found = []
    for path in (results / FOLDER).glob("*.json"):
        try:
            address = msgspec.json.decode(path.read_bytes(), type=AddressFile)
        except (OSError, msgspec.DecodeError):
            continue  # removed meanwhile, or not completely written yet
        if address.open:
            found.append(address)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda address: address.since)


def chosen_ensemble(results: Path, folder: Path | None = None) -> AddressFile:
    """Return the address file of the only running ensemble, or of the one with this run folder, which may be in other results.

    Raises BadInput, with the running ensembles, if that is not exactly one.
    """
    running = running_ensembles(results)
    if folder is not None:
        folder = folder.resolve()
        running += [other for other in running_ensembles(folder.parent.parent) if other not in running]
    matching = [address for address in running if folder is None or Path(address.folder) == folder]
    if len(matching) == 1:
        return matching[0]
    if not running:
        raise BadInput(
            f"no ensemble is running (looked in {results / FOLDER}). Start one with `zab up`, in another terminal."
        )
    listed = "\n".join(f"  --ensemble {address.folder}" for address in running)
    if matching:
        raise BadInput(f"{len(matching)} ensembles are running; say which one is meant:\n{listed}")
    raise BadInput(f"no ensemble is running in {folder}; these are:\n{listed}")
