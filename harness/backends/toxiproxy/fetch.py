"""Fetching the toxiproxy server, once: built by Go from the tagged source, else the release's binary.

Go checks the source against its public checksum database. The binary is checked against the sums pinned here, which are
those of the project's own packaging (Shopify/homebrew-shopify, toxiproxy.rb).
"""

import os
import platform
import shutil
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
    told = ""
    for doing, way in _ways(release):
        try:
            with _progress(doing):
                cache.store(target, partial(_executable, way))
            return target
        except (OSError, _FailedError) as error:  # requests' errors are OSErrors
            if not isinstance(error, requests.ConnectionError):  # of these the remedy says all
                told += f"\n  - {error}"
    raise ToxiproxyError(
        f"The network's faults need toxiproxy-server {VERSION}. It is not on this machine, and can't be fetched"
        f"{':' if told else '.'}{told}\n"
        f"This mends it:\n  {remedy(target)}"
    )


def _executable(way: Callable[[Path], Path], folder: Path) -> Path:
    binary = way(folder)
    binary.chmod(0o755)
    return binary


def _ways(release: str) -> Iterator[tuple[str, Callable[[Path], Path]]]:
    """What each does, in words, and what makes the binary in a folder."""
    if shutil.which("go"):
        yield f"Building toxiproxy {VERSION} with Go, once: about a minute", _build
    yield f"Downloading toxiproxy {VERSION}, once", lambda folder: _download(folder, release)


@contextmanager
def _progress(doing: str) -> Iterator[None]:
    """What is being done, on a terminal with the time that it has taken."""
    console = Console(stderr=True)
    if not console.is_terminal:
        say(console, doing)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        shown.add_task(doing, total=None)
        yield


def remedy(target: Path) -> str:
    """The one command that puts the server where `find` looks."""
    if shutil.which("go"):
        build = " ".join([*_go_settings(target.parent), *_quoted(_go_command())])
        return f"{build} && mv {target.parent}/server {target}"
    asset = platform_asset()
    if asset:
        return f"mkdir -p {target.parent} && curl -fL -o {target} {RELEASE}/{asset} && chmod +x {target}"
    return "install toxiproxy with your system's packages, or set ZAB_TOXIPROXY to a toxiproxy-server"


def platform_asset() -> str | None:
    """The release's name for this machine's binary, or None where there is none with a pinned sum."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    name = f"toxiproxy-server-{platform.system().lower()}-{machine}"
    return name if name in SHA256 else None


class _FailedError(Exception):
    """One way of fetching did not work; why."""


def _go_settings(folder: Path) -> list[str]:
    return ["CGO_ENABLED=0", f"GOBIN={folder}"]


def _go_command() -> list[str]:
    flags = f"-s -w -X {MODULE}.Version={VERSION}"
    return ["go", "install", "-ldflags", flags, f"{MODULE}/cmd/server@v{VERSION}"]


def _quoted(command: list[str]) -> list[str]:
    return [f'"{word}"' if " " in word else word for word in command]


def _build(folder: Path) -> Path:
    settings = dict(setting.split("=", 1) for setting in _go_settings(folder))
    # Some 270 MB of modules and objects that nobody needs afterwards: they go with the folder.
    caches = {"GOCACHE": f"{folder}/objects", "GOMODCACHE": f"{folder}/modules"}
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()  # or the modules could not be removed
    environment = {**os.environ, **settings, **caches, "GOFLAGS": flags}
    try:
        done = subprocess.run(_go_command(), env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise _FailedError(f"building it: `go install` took more than {BUILD_SECONDS} s") from None
    if done.returncode != 0:
        raise _FailedError(f"building it: `go install` said: {done.stderr.strip()[-400:]}")
    return folder / "server"


def _download(folder: Path, release: str) -> Path:
    asset = platform_asset()
    if asset is None:
        raise _FailedError(f"downloading it: there is no release for {platform.system()} on {platform.machine()}")
    try:
        return download(f"{release}/{asset}", folder / asset, "sha256", SHA256[asset])
    except ChecksumMismatch as error:
        raise _FailedError(f"downloading it: {error}") from None


def main() -> int:
    """`python -m zab_chaos.harness.backends.toxiproxy.fetch`: the server is on this machine before a first run needs it."""
    try:
        sys.stdout.write(f"toxiproxy-server: {locate()}\n")
    except ToxiproxyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
