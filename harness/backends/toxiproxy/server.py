"""Finds, fetches, starts and stops the toxiproxy server of a run. `zab_chaos.faults.network` uses its HTTP interface."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import requests

from zab_chaos.faults import tcp_signature
from zab_chaos.faults.toxiproxy_client import ToxiproxyClient
from zab_chaos.harness.backends.toxiproxy.port_protection import is_listening, protect
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import cache
from zab_chaos.harness.machine.die_with_parent import tied
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.machine.waiting import wait_until

VERSION = "2.12.0"
START_SECONDS = 15.0
STOP_SECONDS = 3.0


class ToxiproxyError(HarnessError):
    """The server could not be found, fetched or started. The text ends with the remedy."""


def cached() -> Path:
    """Return the path in the cache at which a fetched server is kept."""
    return cache.folder() / "toxiproxy" / VERSION / "toxiproxy-server"


def find(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the server's path from $ZAB_TOXIPROXY, PATH or our cache, in this order; None if it is not on this machine.

    Raises ToxiproxyError if ZAB_TOXIPROXY names something that can't be run: a setting is never ignored silently.
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


def locate() -> Path:
    """Return the server's path; fetch it into the cache if need be, which takes half a minute. Raises ToxiproxyError."""
    from zab_chaos.harness.backends.toxiproxy.fetch import fetch  # only a first run needs it

    return find() or fetch(cached())


class ToxiproxyServer:
    """A running server, for one run. It listens on 127.0.0.1 only and dies with this process.

    Its HTTP interface has no authentication: every local user could cut links, and open any port that the server may open. So
    it accepts only connections with `key`, which only this process knows, and it runs without any of root's capabilities. If
    this machine does not support such keys, `key` is None; changes by others are then found by comparison
    (`zab_chaos.faults.network`).

    Start it from the main thread: the kernel ends it when the thread that started it ends.
    """

    def __init__(self, binary: Path, log: Path, *, counting: bool = False) -> None:
        """Start the server. Its output is appended to `log`. With `counting`, it counts the bytes that pass each proxy.

        Raises ToxiproxyError if it does not answer within START_SECONDS.
        """
        self._log = log
        self._binary = binary
        command = tied(str(binary), "-host", "127.0.0.1", bare=True)
        with log.open("ab") as output:
            (self.port,) = free_ports(1)
            self.address = f"127.0.0.1:{self.port}"
            self.process = subprocess.Popen(
                [*command, "-port", str(self.port), *(["-proxy-metrics"] if counting else [])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LOG_LEVEL": "info"},
                process_group=0,  # so that Ctrl-C reaches only the harness, which still has to heal links
            )
        try:
            wait_until(lambda: self.gone() or is_listening(self.pid, self.port), START_SECONDS)
            self.key = protect(self.pid, self.port)
            self.version = self._await_version()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "ToxiproxyServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def client(self) -> ToxiproxyClient:
        """A client of its HTTP interface."""
        return ToxiproxyClient(self.address, self.key, self.gone)

    def stop(self) -> None:
        """End the server with SIGTERM, and after STOP_SECONDS with SIGKILL. May be called again."""
        if self.code is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        release_ports([self.port])

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.process.poll()

    def gone(self) -> bool:
        """Return whether the process has ended."""
        return self.code is not None

    def _await_version(self) -> str:
        version = await_version(self.address, self.gone, self.key)
        if version is not None:
            return version
        code = self.code
        state = "did not answer" if code is None else f"ended with exit code {code}"
        tail = self._log.read_text(errors="replace")[-500:].strip() or "(nothing)"
        raise ToxiproxyError(
            f"toxiproxy ({self._binary}) {state} on {self.address}. It wrote: {tail}\n"
            f"Its log is {self._log}. `zab doctor` checks the machine."
        )


def last_words(code: int | None, log: Path) -> str:
    """Return the exit code of a server, why it failed (a Go program writes `panic: REASON`), and where its log is."""
    panics = [f" ({line})" for line in log.read_text(errors="replace").splitlines() if line.startswith("panic: ")]
    return f"exit code {code}{''.join(panics[:1])}. Its log is {log}"


def await_version(address: str, gone: Callable[[], bool], key: bytes | None = None) -> str | None:
    """Wait for the server at `address`, and return its version; None if it is `gone` first or does not answer in time."""
    deadline = time.monotonic() + START_SECONDS
    with tcp_signature.session(key) as session:
        while time.monotonic() < deadline and not gone():
            with contextlib.suppress(requests.RequestException, ValueError, KeyError):
                answer = session.get(f"http://{address}/version", timeout=1.0)
                answer.raise_for_status()
                return str(answer.json()["version"])
            time.sleep(0.01)
    return None
