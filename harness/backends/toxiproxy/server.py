"""The toxiproxy server of a run: find it, fetch it where it is missing, start it, stop it.

Its HTTP interface is `zab_chaos.faults.network`'s affair. Facts and checksums: design notes on toxiproxy 2.12.0, measured.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import requests

from zab_chaos.faults import tcp_signature
from zab_chaos.harness.backends.toxiproxy.seal import listens, seal
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import cache, die_with_parent
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.machine.waiting import wait_until

VERSION = "2.12.0"
START_SECONDS = 15.0
STOP_SECONDS = 3.0


class ToxiproxyError(HarnessError):
    """The server could not be found, fetched or started. The text ends with what mends it."""


def cached() -> Path:
    """Where a fetched server is kept."""
    return cache.folder() / "toxiproxy" / VERSION / "toxiproxy-server"


def find(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The server that is already on this machine, from $ZAB_TOXIPROXY, PATH or our cache, in this order; or None.

    Raises ToxiproxyError if ZAB_TOXIPROXY names something that can't be run: a setting is not silently passed over.
    """
    configured = environment.get("ZAB_TOXIPROXY")
    if configured:
        if not (Path(configured).is_file() and os.access(configured, os.X_OK)):
            raise ToxiproxyError(
                f"ZAB_TOXIPROXY is {configured!r}, which is not an executable file. "
                "Point it at a toxiproxy-server, or unset it."
            )
        return Path(configured)
    on_path = shutil.which("toxiproxy-server", path=environment.get("PATH", os.defpath))
    if on_path:
        return Path(on_path)
    return cached() if os.access(cached(), os.X_OK) else None


def locate(environment: Mapping[str, str] = os.environ) -> Path:
    """The server, fetched into the cache if it has to be (about half a minute, once). Raises ToxiproxyError."""
    from zab_chaos.harness.backends.toxiproxy.fetch import fetch  # only a first run needs it

    return find(environment) or fetch(cached())


class ToxiproxyServer:
    """One running server, for one run; it listens on 127.0.0.1 only and dies with this process.

    Its HTTP interface asks nobody who they are, and would let every local user cut links and listen wherever the server
    may. So it takes connections with `key` only, which this process has (None: the machine can't do that, and what others
    do is found by comparing, see `zab_chaos.faults.network`); and it runs without any of root's capabilities.

    Start it from the main thread: the kernel ties its life to the thread that started it.
    """

    def __init__(self, binary: Path, log: Path, *, counting: bool = False) -> None:
        """`log` receives all that the server writes. `counting`: it counts the bytes that pass each proxy. Raises
        ToxiproxyError if it does not answer within 15 s."""
        (self.port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self._log = log
        self._binary = binary
        tied = [sys.executable, "-P", die_with_parent.__file__, "--bare", "--parent", str(os.getpid()), str(binary)]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*tied, "-host", "127.0.0.1", "-port", str(self.port), *(["-proxy-metrics"] if counting else [])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LOG_LEVEL": "info"},
                process_group=0,  # a Ctrl-C in the terminal is for the harness, which still has links to heal
            )
        try:
            wait_until(lambda: self._gone() or listens(self.pid, self.port), START_SECONDS)
            self.key = seal(self.pid, self.port)
            self.version = self._answer()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "ToxiproxyServer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        """End it: asked first, by force after 3 s. May be called again."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        release_ports([self.port])

    def _gone(self) -> bool:
        return self.process.poll() is not None

    def _answer(self) -> str:
        version = answer(self.address, self._gone, self.key)
        if version is not None:
            return version
        code = self.process.poll()
        state = "did not answer" if code is None else f"ended with exit code {code}"
        tail = self._log.read_text(errors="replace")[-500:].strip() or "(nothing)"
        raise ToxiproxyError(
            f"toxiproxy ({self._binary}) {state} on {self.address}. It wrote: {tail}\n"
            f"Its log is {self._log}. `zab doctor` checks the machine."
        )


def answer(address: str, gone: Callable[[], bool], key: bytes | None = None) -> str | None:
    """Wait until the server at `address` says its version; None if it is `gone` first, or took too long."""
    deadline = time.monotonic() + START_SECONDS
    with tcp_signature.session(key) as session:
        while time.monotonic() < deadline and not gone():
            with contextlib.suppress(requests.RequestException, ValueError, KeyError):
                told = session.get(f"http://{address}/version", timeout=1.0)
                told.raise_for_status()
                return str(told.json()["version"])
            time.sleep(0.01)
    return None
