"""`zab client`: one request to one node, or a shell."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.log import Book
from zab_chaos.harness.client.session import Session
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import BadInput, Exit, HarnessError
from zab_chaos.harness.extras import extra
from zab_chaos.harness.live import requests
from zab_chaos.harness.live.address_file import FOLDER, AddressFile, doors, the_door
from zab_chaos.node.net import keys

CONNECT_SECONDS = 5.0


def client_command(
    address: str, words: Sequence[str], *, secret: Path | None, results: Path, timeout: float, json: bool
) -> int:
    """`address`: host:port, or the number of a node of the ensemble that stands. Raises BadInput, HarnessError.

    Answers 0 for done, 1 for failed, 2 for not known.
    """
    request = requests.read(words) if words else None  # what is wrong is said before anybody is asked
    if request is None:
        with extra("shell", "the shell of zab client"):
            from zab_chaos.harness.live.shell import shell  # the library behind it takes a moment to load
    place = _elsewhere(address, secret) if secret is not None else _here(address, results)
    try:
        pair = keys.load(place.secret)
    except keys.KeyFileError as error:
        raise BadInput(str(error)) from None
    nodes = (
        place.nodes if request is None else {place.first: place.nodes[place.first]}
    )  # who names a node means that one
    client = Client(nodes, pair, place.first, timeout=timeout)
    book = Book(place.ops) if place.ops is not None else None
    with Session(SocketLine(client, book, own=True)) as session:
        if not client.connect(min(CONNECT_SECONDS, timeout)):
            why = client.last_trouble or "no answer"
            raise HarnessError(f"nobody serves at {nodes[place.first]} ({why}): is the node up, and is this its key?")
        if request is None:
            shell(session)
            return Exit.PASS
        outcome = session.submit(request).outcome()
    if json:
        print_json(requests.as_json(outcome))
    else:
        console_for(json=False).print(requests.answered(outcome), markup=False, highlight=False, soft_wrap=True)
    return requests.code(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Whom to talk to. `ops`: the file in which the operations are written down, if a run is being recorded here."""

    nodes: dict[int, str]
    first: int
    secret: Path
    ops: Path | None = None


def _elsewhere(address: str, secret: Path) -> _Place:
    """An ensemble that was not started with `zab up`. Raises BadInput."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInput(f"{address!r} is no address; one is host:port, like 127.0.0.1:20001")
    return _Place(nodes={1: address}, first=1, secret=secret)


def _here(address: str, results: Path) -> _Place:
    """The ensemble that has this address, or the one that stands if it is a node's number. Raises BadInput."""
    if address.isdecimal():
        door, first = the_door(results), int(address)
        if first not in door.nodes:
            raise BadInput(f"there is no node {first}; the nodes are {', '.join(map(str, sorted(door.nodes)))}")
    else:
        door, first = _whose(address, doors(results), results)
    return _Place(nodes=door.nodes, first=first, secret=Path(door.secret), ops=Path(door.folder) / "ops.jsonl")


def _whose(address: str, standing: Sequence[AddressFile], results: Path) -> tuple[AddressFile, int]:
    known = [(door, node, at) for door in standing for node, at in door.nodes.items()]
    for door, node, at in known:
        if at == address:
            return door, node
    listed = "".join(f"\n  {at} (node {node})" for _, node, at in known)
    raise BadInput(
        f"{address}: no ensemble that stands has this address (looked in {results / FOLDER}). "
        + (
            f"These are there:{listed}"
            if known
            else "Start one with `zab up`, or give another one's client key file: --secret FILE"
        )
    )
