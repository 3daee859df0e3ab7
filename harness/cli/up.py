"""`zab up`: an ensemble that stands until Ctrl-C, to be used with `zab client` and broken with `zab inject`."""

import contextlib
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.live import Live

from zab_chaos.harness.cli.output import console_for
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.live.address_file import opened
from zab_chaos.harness.live.control import ControlServer
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.live.status_table import Looks, Row, in_a_line, table
from zab_chaos.harness.machine.interrupt import Interrupt
from zab_chaos.harness.machine.ports import NoFreePortError, free_ports, release_ports
from zab_chaos.harness.report import terminal
from zab_chaos.harness.runs.walk import Unfinished
from zab_chaos.node.net import keys

HOST = "127.0.0.1"
LOOK_SECONDS = 0.5  # from one look at the nodes to the next: long enough for a heartbeat of everybody
ALL_SECONDS = 20.0  # for the nodes beyond the quorum to come in as well
TURN_SECONDS = 0.1  # how long an order may wait for Ctrl-C to be seen
NAME = "up"


def up_command(*, nodes: int, seed: int, defect: str | None, results: Path, record: bool, quiet: bool) -> int:
    """Stand until Ctrl-C or SIGTERM, then end everything, judge what was recorded, and show it. Raises BadInput."""
    console = console_for(json=False)
    ensemble = Ensemble(
        nodes=nodes, seed=seed, defect=defect, results=results, name=NAME, record=record, min_acked=0, keep_data=True
    )
    with Interrupt() as interrupt:
        console.print(f"{nodes} nodes are starting ...", highlight=False)
        try:
            with ensemble:
                _stand(ensemble, results, interrupt, console, quiet=quiet)
                console.print("ending, and judging what was recorded ...", highlight=False)
        except Unfinished as error:
            raise HarnessError(f"{error}; the logs are in {_folder(ensemble)}/log") from None
    assert ensemble.verdict is not None
    assert ensemble.folder is not None
    terminal.show(ensemble.folder, console, brief=quiet)
    return ensemble.verdict.exit


def _folder(ensemble: Ensemble) -> Path:
    assert ensemble.folder is not None
    return ensemble.folder.path


def _stand(ensemble: Ensemble, results: Path, interrupt: Interrupt, console: Console, *, quiet: bool) -> None:
    with ExitStack() as stack:
        try:
            ports = free_ports(1)
        except NoFreePortError as error:
            raise HarnessError(str(error)) from None
        stack.callback(release_ports, ports)
        files, control = keys.files_in(_folder(ensemble) / "config"), f"{HOST}:{ports[0]}"
        desk = ControlServer(ensemble, control, keys.load(files.control))
        stack.callback(desk.close)
        with contextlib.suppress(TimeoutError):  # then it is shown who is late
            ensemble.until_converged(ALL_SECONDS)  # whoever comes first may go to any node
        screen = stack.enter_context(_screen(console, quiet=quiet))
        stack.enter_context(
            opened(results, folder=_folder(ensemble), control=control, nodes=ensemble.addresses, keys=files)
        )
        _welcome(ensemble, console)
        looks, due = Looks(ensemble), 0.0
        while not interrupt.asked.is_set():
            desk.serve(TURN_SECONDS)
            ensemble.look_after()
            while desk.news:
                console.print(desk.news.pop(0), markup=False, highlight=False)
            if time.monotonic() >= due:
                screen.show(looks.look(), desk.broken())
                due = time.monotonic() + LOOK_SECONDS


def _welcome(ensemble: Ensemble, console: Console) -> None:
    first = next(iter(ensemble.addresses.values()))
    for words in (
        f"recording to  {_folder(ensemble)}",
        f"use it        zab client {first} create /a hello    (or without a command: a shell)",
        "break it      zab inject crash target=leader        (zab inject heal; zab inject --help)",
        "end it        Ctrl-C",
    ):
        console.print(words, markup=False, highlight=False, soft_wrap=True)


class _Screen(Protocol):
    def __enter__(self) -> "_Screen": ...
    def __exit__(self, *error: object) -> None: ...
    def show(self, rows: list[Row], broken: list[str]) -> None: ...


class _Drawn:
    """On a terminal: a table that is redrawn in place; what happens scrolls above it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "_Drawn":
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, rows: list[Row], broken: list[str]) -> None:
        self._live.update(table(rows, broken))


class _Told:
    """Elsewhere: a line when something has changed. `console` None: nothing."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._last = ""

    def __enter__(self) -> "_Told":
        return self

    def __exit__(self, *error: object) -> None:
        return

    def show(self, rows: list[Row], broken: list[str]) -> None:
        words = in_a_line(rows)
        if self._console is not None and words != self._last:
            self._last = words
            self._console.print(words, markup=False, highlight=False, soft_wrap=True)


def _screen(console: Console, *, quiet: bool) -> _Screen:
    return _Drawn(console) if console.is_terminal and not quiet else _Told(None if quiet else console)
