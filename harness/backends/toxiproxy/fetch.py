"""Fetches the toxiproxy server: builds it with Go from the tagged source, or downloads the release's binary.

Go verifies the source against its public checksum database. The binary is verified against the checksums pinned here, which are
from the project's own packaging (Shopify/homebrew-shopify, toxiproxy.rb).
"""

import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import requests
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from zab_chaos.harness.backends.toxiproxy.server import VERSION, ToxiproxyError, locate
from zab_chaos.harness.machine import cache
from zab_chaos.harness.machine.die_with_parent import tied
from zab_chaos.harness.machine.download import ChecksumMismatch, download
from zab_chaos.harness.report.console import say

MODULE = "github.com/Shopify/toxiproxy/v2"
RELEASE = f"https://github.com/Shopify/toxiproxy/releases/download/v{VERSION}"
SHA256 = {
    "toxiproxy-server-linux-amd64": "556d891134a3c582dc1e1a3f7335fd55142e5965769855a00b944e13e48302fc",
    "toxiproxy-server-linux-arm64": "53e770c1c3035b5a9f1bc629fce537db1f95f62b26f4ebe6e756afd701cf077c",
    "toxiproxy-server-darwin-amd64": "9625bba4bd96117eedae49f982aba4c2f462b268dd406c9ff18186f9b1ef8afe",
    "toxiproxy-server-darwin-arm64": "aa299966b52f16a8594f1cd0d1e9049dc2e8fe2c04a90c19860e2719b2b95d15",
}
BUILD_SECONDS = 600


def fetch(target: Path, release: str = RELEASE) -> Path:
    """Put the server at `target`. Raises ToxiproxyError."""
    problems = ""
    for description, make in _methods(release):
        try:
            with _progress(description):
                cache.store(target, partial(_make_executable, make))
            return target
        except (OSError, _MethodFailed) as error:  # requests' errors are OSErrors
            if not isinstance(error, requests.ConnectionError):  # without a network, the remedy below is enough
                problems += f"\n  - {error}"
    raise ToxiproxyError(
        f"The network's faults need toxiproxy-server {VERSION}. It is not on this machine, and can't be fetched"
        f"{':' if problems else '.'}{problems}\n"
        f"This mends it:\n  {remedy(target)}\n"
        "It may be in another place, too, if ZAB_TOXIPROXY is its path."
    )


def _make_executable(make: Callable[[Path], Path], folder: Path) -> Path:
    binary = make(folder)
    binary.chmod(0o755)
    return binary


def _methods(release: str) -> Iterator[tuple[str, Callable[[Path], Path]]]:
    """Yield the methods to try: a description, and a function that puts the binary into a folder and returns its path."""
    if shutil.which("go"):
        yield f"Building toxiproxy {VERSION} with Go, once: about a minute", _build
    yield f"Downloading toxiproxy {VERSION}, once", lambda folder: _download(folder, release)


@contextmanager
def _progress(description: str) -> Iterator[None]:
    """Print a description of what is being done; on a terminal also show the elapsed time."""
    console = Console(stderr=True)
    if not console.is_terminal:
        say(console, description)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        shown.add_task(description, total=None)
        yield


def remedy(target: Path) -> str:
    """Return the command that puts the server where `find` looks for it."""
    folder, server = shlex.quote(str(target.parent)), shlex.quote(str(target))
    if shutil.which("go"):
        return f"CGO_ENABLED=0 GOBIN={folder} {shlex.join(_go_command())} && mv {folder}/server {server}"
    asset = platform_asset()
    if asset:
        return f"mkdir -p {folder} && curl -fL -o {server} {RELEASE}/{asset} && chmod +x {server}"
    return "install toxiproxy with your system's packages, or set ZAB_TOXIPROXY to a toxiproxy-server"


def platform_asset() -> str | None:
    """Return the name of the release's binary for this machine, or None if there is none with a pinned checksum."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    name = f"toxiproxy-server-{platform.system().lower()}-{machine}"
    return name if name in SHA256 else None


class _MethodFailed(Exception):
    """A method of fetching failed. The text says why."""


def _go_command() -> list[str]:
    flags = f"-s -w -X {MODULE}.Version={VERSION}"
    return ["go", "install", "-ldflags", flags, f"{MODULE}/cmd/server@v{VERSION}"]


def _build(folder: Path) -> Path:
    settings = {"CGO_ENABLED": "0", "GOBIN": str(folder)}
    # Some 270 MB of modules and object files are of no use afterwards: they are removed with the folder.
    caches = {"GOCACHE": f"{folder}/objects", "GOMODCACHE": f"{folder}/modules"}
    flags = (
        f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    )  # otherwise the modules are read-only and can't be removed
    environment = {**os.environ, **settings, **caches, "GOFLAGS": flags}
    with subprocess.Popen(
        tied(*_go_command()),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as building:
        try:
            _, said = building.communicate(timeout=BUILD_SECONDS)
        except BaseException as error:
            os.killpg(building.pid, signal.SIGKILL)  # its compilers, too, which write into the folder that is removed
            if isinstance(error, subprocess.TimeoutExpired):
                raise _MethodFailed(f"building it: `go install` took more than {BUILD_SECONDS} s") from None
            raise
    if building.returncode != 0:
        raise _MethodFailed(f"building it: `go install` said: {said.strip()[-400:]}")
    return folder / "server"


def _download(folder: Path, release: str) -> Path:
    asset = platform_asset()
    if asset is None:
        raise _MethodFailed(f"downloading it: there is no release for {platform.system()} on {platform.machine()}")
    try:
        return download(f"{release}/{asset}", folder / asset, "sha256", SHA256[asset])
    except ChecksumMismatch as error:
        raise _MethodFailed(f"downloading it: {error}") from None


def main() -> int:
    """Fetch the server before a first run needs it: `python -m zab_chaos.harness.backends.toxiproxy.fetch`."""
    try:
        sys.stdout.write(f"toxiproxy-server: {locate()}\n")
    except ToxiproxyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
