"""`zab up`: run an ensemble until Ctrl-C, for use with `zab client` and `zab inject`."""

import contextlib
import shlex
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from zab_chaos.harness.cli.output import console_for
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.live.address_file import opened
from zab_chaos.harness.live.control import ControlServer
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.live.status_table import EnsembleStatus, StatusReader
from zab_chaos.harness.machine.interrupt import Interrupt
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.report import terminal
from zab_chaos.harness.report.console import say
from zab_chaos.harness.report.progress import Steps, display
from zab_chaos.harness.runs.phases import Unfinished
from zab_chaos.node.net import keys

HOST = "127.0.0.1"
STATUS_SECONDS = 0.5  # between two status queries: long enough for a heartbeat of every node
CONVERGE_SECONDS_MAX = 20.0  # until the nodes beyond the quorum have joined
TURN_SECONDS_MAX = 0.1  # between two checks for Ctrl-C
NAME = "up"
BACKENDS = ("processes", "zookeeper")


def up_command(
    *, on: str, zookeeper: str | None, nodes: int, seed: int, defect: str | None, disk: str, results: Path, record: bool,
    quiet: bool,
) -> int:  # fmt: skip
    """Run an ensemble until Ctrl-C or SIGTERM. Then stop all processes, judge the run and show the verdict.

    A further Ctrl-C ends that with what is known by then. During the start, Ctrl-C stops all processes at once, and no
    verdict is shown.

    Raises BadInput, HarnessError.
    """
    if on not in BACKENDS:
        raise BadInput(
            f"zab up runs {' or '.join(BACKENDS)}, whose nodes other programs can use; --on {on} was asked for"
        )
    console = console_for(json=False)
    ensemble = Ensemble(
        on=on, zookeeper=zookeeper, nodes=nodes, seed=seed, defect=defect, results=results, name=NAME, record=record,
        min_acked=0, keep_data=True, disk=disk,
    )  # fmt: skip
    say(console, "1 node is starting ..." if nodes == 1 else f"{nodes} nodes are starting ...")
    try:
        with ensemble:
            _serve(ensemble, results, console, quiet=quiet)
            say(console, "stopping the nodes and judging the run ... (Ctrl-C: show what is known so far)")
            with ensemble.interrupt, display(console, quiet=quiet) as screen:
                ensemble.finish(Steps(screen))
    except Unfinished as error:
        raise HarnessError(f"{error}; the logs are in {_folder(ensemble)}/log") from None
    assert ensemble.verdict is not None
    assert ensemble.folder is not None
    terminal.show(ensemble.folder, console, brief=quiet)
    return ensemble.verdict.exit


def _folder(ensemble: Ensemble) -> Path:
    assert ensemble.folder is not None
    return ensemble.folder.path


def _serve(ensemble: Ensemble, results: Path, console: Console, *, quiet: bool) -> None:
    """Serve `zab inject` and show the nodes until Ctrl-C. Before anybody can use them, Ctrl-C raises Stopped."""
    with ExitStack() as stack:
        ports = free_ports(1)
        stack.callback(release_ports, ports)
        files, control = keys.files_in(_folder(ensemble) / "config"), f"{HOST}:{ports[0]}"
        server = ControlServer(ensemble, control, _control_keys(files.control, stack))
        stack.callback(server.close)
        with contextlib.suppress(TimeoutError):  # the table then shows the missing nodes
            ensemble.until_converged(CONVERGE_SECONDS_MAX)  # so that the first client can use any node
        interrupt = stack.enter_context(Interrupt())
        shown = stack.enter_context(display(console, quiet=quiet, line_seconds=0.0))  # a line for each change
        stack.enter_context(
            opened(
                results, folder=_folder(ensemble), control=control, nodes=ensemble.addresses, keys=files, on=ensemble.on
            )
        )
        _print_usage(ensemble, results, console)
        reader, due = StatusReader(ensemble), 0.0
        while not interrupt.requested.is_set():
            server.serve(TURN_SECONDS_MAX)
            ensemble.advance_faults()
            while server.messages:
                say(console, server.messages.pop(0))
            if time.monotonic() >= due:
                shown.update(EnsembleStatus(reader.read(), server.active_faults()))
                due = time.monotonic() + STATUS_SECONDS


def _control_keys(file: Path, stack: ExitStack) -> keys.Keys:
    """Return the keys of the control ports, for `zab inject`.

    If the servers have none, create keys that last as long as this run.
    """
    if file.exists():
        return keys.load(file)
    stack.callback(file.unlink, missing_ok=True)
    return keys.create(file)


def _print_usage(ensemble: Ensemble, results: Path, console: Console) -> None:
    """Print the run folder, and how to use, break and stop the ensemble."""
    first, *_ = addresses = ensemble.addresses.values()
    place = "" if results == Path("results") else f"--results {shlex.quote(str(results))} "
    for line in (
        f"recording to  {_folder(ensemble)}",
        f"connect       {ensemble.hosts if ensemble.on == 'zookeeper' else ','.join(addresses)}",
        f"use           zab client {place}{first} create /a hello    (without a command: a shell)",
        f"break         zab inject {place}crash target=leader        (zab inject heal; zab inject --list)",
        "stop          Ctrl-C",
    ):
        say(console, line)
