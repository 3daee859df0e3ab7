"""The address file of a running ensemble: a small file from which other commands learn where it is, for as long as it runs.

It lies in `results/standing/`, named after the process that holds the ensemble, and only its owner may read it: it says
where the keys are. A file whose process is gone is stale, and is removed by whoever comes across it.
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
    """`control`: where `zab up` listens for `zab inject`; `nodes`: where each node takes clients; `host:port` each.

    `secret`: the clients' key file; `control_secret`: the one for `control`. `on`: the backend. `since`: when the process
    began, in clock ticks since the machine started (a step of the clock does not move that): a process id is used again.
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
        """Whether the process that opened it is there."""
        return _began(self.pid) == self.since


def _began(pid: int) -> int | None:
    """When the process began; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19])  # `starttime`, proc_pid_stat(5)


@contextmanager
def opened(
    results: Path, *, folder: Path, control: str, nodes: dict[int, str], keys: KeyFiles, on: str = "processes"
) -> Iterator[AddressFile]:
    """Write our own address file, and remove it in the end."""
    pid = os.getpid()
    address = AddressFile(
        pid=pid, since=_began(pid) or 0, folder=str(folder.resolve()), control=control, nodes=nodes,
        secret=str(keys.clients.resolve()), control_secret=str(keys.control.resolve()), on=on,
    )  # fmt: skip
    place = results / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{pid}.json"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(address) + b"\n")
    try:
        yield address
    finally:
        path.unlink(missing_ok=True)


def running_ensembles(results: Path) -> list[AddressFile]:
    """Every ensemble that is running, the latest last."""
    found = []
    for path in (results / FOLDER).glob("*.json"):
        try:
            address = msgspec.json.decode(path.read_bytes(), type=AddressFile)
        except (OSError, msgspec.DecodeError):
            continue  # just removed, or just being written
        if address.open:
            found.append(address)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda address: address.since)


def chosen_ensemble(results: Path, folder: Path | None = None) -> AddressFile:
    """The one that is meant: the only one that is running, or the one of that folder. Raises BadInput, naming them."""
    running = running_ensembles(results)
    meant = [address for address in running if folder is None or Path(address.folder) == folder.resolve()]
    if len(meant) == 1:
        return meant[0]
    if not running:
        raise BadInput(
            f"no ensemble is running (looked in {results / FOLDER}). Start one with `zab up`, in another terminal."
        )
    listed = "\n".join(f"  --ensemble {address.folder}" for address in running)
    if meant:
        raise BadInput(f"{len(meant)} ensembles are running; say which one is meant:\n{listed}")
    raise BadInput(f"no ensemble is running in {folder}; these are:\n{listed}")
