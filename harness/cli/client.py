"""`zab client`: send one request to a node, or open a shell for many."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.client.client import Client, PolledClient
from zab_chaos.harness.client.connection import check_address
from zab_chaos.harness.client.log import SharedOpsFile
from zab_chaos.harness.client.session import Session
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.extras import extra
from zab_chaos.harness.live import requests
from zab_chaos.harness.live.address_file import FOLDER, AddressFile, chosen_ensemble, running_ensembles
from zab_chaos.harness.live.shell import shell
from zab_chaos.harness.report.console import say
from zab_chaos.node.net import keys

CONNECT_SECONDS = 5.0


def client_command(
    address: str, words: Sequence[str], *, secret: Path | None, folder: Path | None, results: Path, timeout: float,
    json: bool,
) -> int:  # fmt: skip
    """Send one request, or run a shell. Raises BadInput, HarnessError.

    `address`: host:port, or the id of a node of the running ensemble. `folder`: the ensemble's run folder, if several are
    running. Exit codes: 0 the request is done, 1 it failed, 2 its outcome is unknown; the highest one of lines from a pipe.
    """
    if math.isnan(timeout):
        raise BadInput("--timeout is a number of seconds, not nan")
    request = requests.parse_request(words) if words else None  # report mistakes before connecting
    if request is None and sys.stdin.isatty():
        with extra("shell", "the shell of zab client"):
            import prompt_toolkit  # noqa: F401 # for the prompt; it takes a moment to load
    if secret is not None and folder is not None:
        raise BadInput(
            "--ensemble names an ensemble of `zab up`, --secret the key of another one; leave one of them out"
        )
    target = _target_with_key(address, secret) if secret is not None else _target_of_up(address, results, folder)
    # A single request goes to the named node only; a shell may move to another one.
    nodes = target.nodes if request is None else {target.first: target.nodes[target.first]}
    client = _make_client(target, nodes, timeout)
    ops = SharedOpsFile(target.ops) if target.ops is not None else None
    with Session(SocketLine(client, ops, owns_ops=True)) as session:
        if not client.connect(min(CONNECT_SECONDS, timeout)):
            raise HarnessError(_no_answer(target, client.last_trouble or "no answer", single=request is not None))
        if request is None:
            if client.node != target.first:
                notice = f"node {target.first} does not answer; this shell is connected to node {client.node}"
                say(console_for(json=False), notice)
            return shell(session)
        outcome = session.submit(request).outcome()
    if json:
        print_json(requests.outcome_json(outcome))
    else:
        say(console_for(json=False), requests.outcome_text(outcome))
    return requests.exit_code(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The nodes to connect to.

    `first`: the node to try first. `secret`: the client key file. `ops`: the file in which the run records operations; None if
    the ensemble was not started with `zab up`. `on`: the backend of the nodes.
    """

    nodes: dict[int, str]
    first: int
    secret: Path
    ops: Path | None = None
    on: str = "processes"


def _no_answer(target: _Target, why: str, *, single: bool) -> str:
    """Return the error message if no node answers. `single`: only the named node was asked."""
    if target.ops is None:
        at = target.nodes[target.first]
        return f"no node answers at {at} ({why}). Check that the node is up and that the key is its own."
    who = f"node {target.first}" if single else "every node"
    state = "is down" if "refused" in why else "does not answer"
    return f"{who} {state}: {why}. `zab inject` lists the faults so far, `zab inject heal` heals them."


def _make_client(target: _Target, nodes: dict[int, str], timeout: float) -> PolledClient:
    """Return a client for these nodes, not connected yet. Raises BadInput."""
    if target.on == "zookeeper":
        from zab_chaos.harness.backends.zookeeper.client import ZooKeeperClient

        return ZooKeeperClient(nodes, target.first, timeout=timeout)
    try:
        pair = keys.load(target.secret)
    except keys.KeyFileError as error:
        raise BadInput(str(error)) from None
    return Client(nodes, pair, target.first, timeout=timeout)


def _target_with_key(address: str, secret: Path) -> _Target:
    """Return the node of an ensemble that was not started with `zab up`. Raises BadInput."""
    try:
        check_address(address)
    except ValueError as error:
        raise BadInput(str(error)) from None
    return _Target(nodes={1: address}, first=1, secret=secret)


def _target_of_up(address: str, results: Path, folder: Path | None) -> _Target:
    """Return the nodes of the running ensemble of `zab up` that has this address or node id. Raises BadInput."""
    if address.isdecimal():
        ensemble, first = chosen_ensemble(results, folder), int(address)
        if first not in ensemble.nodes:
            raise BadInput(f"there is no node {first}; the nodes are {', '.join(map(str, sorted(ensemble.nodes)))}")
    else:
        running = running_ensembles(results) if folder is None else [chosen_ensemble(results, folder)]
        ensemble, first = _find_address(address, running, results)
    return _Target(
        nodes=ensemble.nodes, first=first, secret=Path(ensemble.secret), ops=Path(ensemble.folder) / "ops.jsonl",
        on=ensemble.on,
    )  # fmt: skip


def _find_address(address: str, running: Sequence[AddressFile], results: Path) -> tuple[AddressFile, int]:
    """Return the running ensemble and its node that have this address. Raises BadInput, which lists the known addresses."""
    known = [(ensemble, node, at) for ensemble in running for node, at in ensemble.nodes.items()]
    for ensemble, node, at in known:
        if at == address:
            return ensemble, node
    listed = "".join(f"\n  {at} (node {node})" for _, node, at in known)
    raise BadInput(
        f"{address}: no running ensemble has this address (looked in {results / FOLDER}). "
        + (
            f"Known addresses:{listed}"
            if known
            else "Start one with `zab up`, or name the client key file of an ensemble that was started otherwise: --secret FILE"
        )
    )
