"""Runs one life of one server.

    python -m zab_chaos.node --config FILE --life N [--bootstrap] [--crash-at POINT] [--lockstep ADDRESS]

Exit codes: 0 asked to end; 65 the disk is corrupt; 70 a sanity check or the program failed; 74 the disk failed or is full;
75 an address is in use; 78 the configuration or the key file can't be used.
"""

import argparse
import ctypes
import gc
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from zab_chaos.node.boot import boot_node
from zab_chaos.node.components import components_with
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.crash_points import InvalidCrashPoint
from zab_chaos.node.exit_codes import HANDLED, trace_failure
from zab_chaos.node.net.address import AddressError, AddressInUse
from zab_chaos.node.net.keys import KeyFileError
from zab_chaos.node.server import Server
from zab_chaos.node.store.disk import FaithfulDisk, OrdinaryDisk
from zab_chaos.node.store.errors import DiskFailed, disk_operation
from zab_chaos.node.trace import Trace

PR_SET_PDEATHSIG = 1


def life_number(text: str) -> int | None:
    """Parse `--life`; None means `next`."""
    return None if text == "next" else int(text)


def next_life(config: NodeConfig) -> tuple[int, bool]:
    """Return, from the traces, one more than the node's highest life, and whether none of its lives has opened its disk.

    For callers that do not count, such as docker-compose.yml. A life that fails before its event `boot` has told nobody
    anything.
    """
    traces = {int(path.stem.rpartition("-")[2]): path for path in Path(config.trace).glob(f"node-{config.id}-*.jsonl")}
    return 1 + max(traces, default=0), not any(_has_boot(path) for path in traces.values())


def _has_boot(trace: Path) -> bool:
    with trace.open("rb") as lines:
        return any(b'"event":"boot"' in line for line in lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m zab_chaos.node", description="One Zab server.")
    parser.add_argument("--config", required=True, type=Path, help="the node's configuration (JSON)")
    parser.add_argument(
        "--life",
        required=True,
        type=life_number,
        help="number of this life: how often the node was started, including this start; or `next`",
    )
    parser.add_argument("--bootstrap", action="store_true", help="the ensemble is new: an empty disk is not a lost one")
    parser.add_argument("--crash-at", metavar="POINT", help="arm this crash point from the start")
    parser.add_argument(
        "--lockstep", metavar="ADDRESS", help="run in the virtual time of the harness at this address (host:port)"
    )
    return parser.parse_args()


def end(code: int, why: str, trace: Trace | None = None) -> NoReturn:
    """Write the reason to the trace (if the disk allows it) and to stderr, and end the process."""
    if trace is not None:
        trace.add("exit", {"code": code, "why": why})
        with suppress(DiskFailed):
            trace.close()
    if code:
        with suppress(OSError):
            print(f"node: {why}", file=sys.stderr, flush=True)  # noqa: T201
    # Everything is written by now. A normal exit could block in a ZeroMQ context whose peers are gone.
    os._exit(code)


def die_with_parent(parent: int | None) -> None:
    """Have the kernel kill this process when its parent dies, even if this one is stopped (Linux)."""
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("node: the process that started this one is gone")


def read_config(path: Path) -> NodeConfig:
    try:
        return msgspec.json.decode(path.read_bytes(), type=NodeConfig)
    except (OSError, msgspec.DecodeError) as error:
        end(78, f"{path}: {error}")


def build_server(config: NodeConfig, options: argparse.Namespace, trace: Trace) -> Server:
    """Recover and build the server. Raises the errors that end a life before it begins."""
    parts, defect = components_with(config.defect)
    with disk_operation(f"opening the folder {config.data}"):
        disk = (FaithfulDisk if config.faithful else OrdinaryDisk)(Path(config.data))
    booted = boot_node(
        config, parts.store, disk, trace,
        bootstrap=options.bootstrap, crash_at=options.crash_at, defect=defect, pid=os.getpid(), clock=time.monotonic_ns,
    )  # fmt: skip
    return Server(config, options.life, parts, booted, trace, disk)


def main() -> None:
    options = arguments()
    config = read_config(options.config)
    if options.life is None:
        options.life, options.bootstrap = next_life(config)
    die_with_parent(config.parent)
    if options.lockstep:
        from zab_chaos.node.lockstep.process import live_in_lockstep

        end(*live_in_lockstep(config, options.life, options.lockstep, options.bootstrap, options.crash_at))
    trace = None
    try:
        trace = Trace(config.trace, config.id, options.life)
        server = build_server(config, options, trace)
        signal.signal(signal.SIGTERM, lambda *_: server.stop("SIGTERM"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the harness's to handle
        watch_stdin(server)
        tune_garbage_collector()
        server.run()
    except AddressInUse as error:
        end(75, str(error), trace)
    except (AddressError, KeyFileError, InvalidCrashPoint) as error:
        end(78, str(error), trace)
    except Exception as error:
        if not isinstance(error, HANDLED):
            traceback.print_exc()
        end(*trace_failure(trace, error), trace)
    end(0, server.stopping or "stopped", trace)


def tune_garbage_collector() -> None:
    """Make garbage collection rare.

    Objects from the start stay until the end, and those of a round are freed by reference counting.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def watch_stdin(server: Server) -> None:
    """End when stdin is a pipe and closes: the process that started this node is gone."""
    if server.config.parent is None or sys.stdin is None or sys.stdin.closed:
        return
    server.poller.register(sys.stdin.fileno(), select.POLLIN)
    server.watched = sys.stdin.fileno()


if __name__ == "__main__":
    main()
