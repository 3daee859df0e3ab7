"""`zab doctor`: check what this machine has, what is missing, and which command installs it."""

import contextlib
import importlib.metadata
import re
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import zmq
from rich.console import Console
from rich.text import Text

from zab_chaos.faults.filesystem.mount import missing_requirement
from zab_chaos.harness.backends.toxiproxy import server
from zab_chaos.harness.backends.toxiproxy.fetch import platform_asset, remedy
from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.extras import MissingExtra, extra
from zab_chaos.harness.machine import checkout, environment
from zab_chaos.harness.machine import java as jvm
from zab_chaos.harness.machine.ports import HIGHEST, LOWEST, NoFreePortError, free_ports, release_ports
from zab_chaos.harness.report.console import say, show_table, wrapping_table

SLOW_SYNC_MS = 20.0  # above this, the rate of a run is that of the disk
LARGEST = 9  # nodes of the largest ensemble that is checked for
MEMORY_BYTES = 2**30  # five nodes, toxiproxy and the clients need less

State = Literal["ok", "warning", "missing", "absent"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `warning`: it works with limits; `missing`: runs fail without it; `absent`: it is missing but optional.
    """

    name: str
    state: State
    found: str
    mend: str = ""  # how to fix it, if possible a command


def examine(results: Path) -> list[Finding]:
    """Run all checks. No check raises an error: one that fails is a finding."""
    return [
        packages(),
        curve(),
        toxiproxy(),
        folder(results),
        disk(results),
        ports(),
        cores(),
        memory(),
        java(),
        pipeline(),
        shell(),
        zookeeper(),
        fuse(),
        containers(),
    ]


def healthy(findings: list[Finding]) -> bool:
    """Return True if nothing is missing that runs need."""
    return all(finding.state != "missing" for finding in findings)


def as_json(findings: list[Finding]) -> dict[str, Any]:
    return {"healthy": healthy(findings), "findings": [asdict(finding) for finding in findings]}


def show(findings: list[Finding], console: Console) -> None:
    """Print a table, then the commands that fix what is missing."""
    table = wrapping_table("", "", "")
    table.show_header = False
    colours = {"ok": "green", "warning": "yellow", "missing": "bold red", "absent": "dim"}
    for finding in findings:
        table.add_row(finding.name, Text(finding.state, colours[finding.state]), finding.found)
    show_table(console, table)
    for finding in findings:
        if finding.mend and finding.state != "ok":
            say(console, f"\n{finding.name}: {finding.mend}")
    say(console, "\nReady to run." if healthy(findings) else "\nNot ready: fix what is missing.")


def packages() -> Finding:
    """Check that all required packages are installed. Their names are in the distribution's metadata, or in pyproject.toml."""
    try:
        wanted = importlib.metadata.requires("zab-chaos") or []
    except importlib.metadata.PackageNotFoundError:
        folder = checkout.root()
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"] if folder is not None else {}
        wanted = project.get("dependencies", [])
    names = [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in wanted if "extra ==" not in line]
    missing = [name for name in names if environment.package(name) is None]
    if missing:
        return Finding("packages", "missing", "missing: " + ", ".join(missing), "pip install " + " ".join(missing))
    return Finding("packages", "ok", f"all {len(names)} installed")


def curve() -> Finding:
    found = f"pyzmq {zmq.pyzmq_version()}, libzmq {zmq.zmq_version()}"
    if zmq.has("curve"):
        return Finding("CURVE", "ok", found)
    return Finding("CURVE", "missing", f"{found}, built without it", "pip install --force-reinstall pyzmq")


def toxiproxy() -> Finding:
    """Check the toxiproxy server that runs would use. This does not fetch it."""
    try:
        path = server.find()
    except HarnessError as error:
        return Finding("toxiproxy", "missing", str(error), "unset ZAB_TOXIPROXY")
    if path is None:
        words = "not installed; the first run on processes fetches it"
        state: State = "warning" if shutil.which("go") or platform_asset() else "missing"
        return Finding("toxiproxy", state, words, remedy(server.cached()))
    try:
        done = subprocess.run([str(path), "-version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("toxiproxy", "missing", f"{path} does not run: {error}", remedy(server.cached()))
    version = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
    found = f"{version.group() if version else 'unknown version'} at {path}"
    if version is not None and version.group() == server.VERSION:
        return Finding("toxiproxy", "ok", found)
    return Finding("toxiproxy", "warning", f"{found}; tested with {server.VERSION}", remedy(server.cached()))


def folder(results: Path) -> Finding:
    try:
        with tempfile.TemporaryDirectory(dir=_nearest_existing(results)):
            pass
    except OSError as error:
        words = f"{results}: {error.strerror or error}"
        return Finding("results", "missing", words, "choose another folder with --results DIR")
    return Finding("results", "ok", f"{results} is writable")


def disk(results: Path) -> Finding:
    """Measure how long it takes to make 4 KiB durable; no commit is faster."""
    try:
        median, worst = environment.sync_latency(_nearest_existing(results))
    except OSError as error:
        return Finding("disk sync", "missing", error.strerror or str(error), "choose another folder with --results DIR")
    found = f"fdatasync of 4 KiB: median {median:.2f} ms, worst {worst:.2f} ms"
    if median > SLOW_SYNC_MS:
        return Finding("disk sync", "warning", found, "put the results on a faster disk: --results DIR")
    return Finding("disk sync", "ok", found)


def _nearest_existing(path: Path) -> Path:
    """Return the nearest existing folder at or above `path`, because a check must not create one."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def ports() -> Finding:
    """Check the ports of the largest ensemble: three per node, one for each ordered pair, one for toxiproxy."""
    wanted = 3 * LARGEST + LARGEST * (LARGEST - 1) + 1
    try:
        taken = free_ports(wanted)
    except NoFreePortError as error:
        return Finding("ports", "missing", str(error), "ss -ltnp")
    release_ports(taken)
    return Finding("ports", "ok", f"{wanted} free on 127.0.0.1, between {LOWEST} and {HIGHEST}")


def cores() -> Finding:
    count = environment.cores()
    if count >= 2:
        return Finding("cores", "ok", str(count))
    return Finding("cores", "warning", str(count), "elections will be slow: raise the timeouts in the scenario")


def memory() -> Finding:
    free = psutil.virtual_memory().available
    found = f"{free / 2**30:.1f} GiB available"
    if free >= MEMORY_BYTES:
        return Finding("memory", "ok", found)
    return Finding("memory", "warning", found, "close other programs, or run with --nodes 3")


def java() -> Finding:
    try:
        return Finding("java", "ok", jvm.version(jvm.find()))
    except jvm.JavaMissing as error:
        return Finding("java", "absent", f"only `zab analyze` needs it; {error}", jvm.install_command())


def pipeline() -> Finding:
    return _packages_of("pipeline", ["pyspark", "scipy"], "`zab analyze` and `--master` need")


def shell() -> Finding:
    return _packages_of("shell", ["prompt-toolkit"], "the prompt of `zab client` and the stepper of `zab replay` need")


def _packages_of(name: str, packages: list[str], who: str) -> Finding:
    """Check the packages of the extra `name`. `who`: what needs it, with its verb."""
    missing = [package for package in packages if environment.package(package) is None]
    if not missing:
        versions = (f"{package} {environment.package(package)}" for package in packages)
        return Finding(name, "ok", ", ".join(versions))
    words = f"only {who} it; not installed: {', '.join(missing)}"
    return Finding(name, "absent", words, f"pip install 'zab-chaos[{name}]'")


def zookeeper() -> Finding:
    """Check what `--on zookeeper` needs: a Java for the servers, the client library, and which releases are in the cache."""
    try:
        jvm.version(jvm.find("ZooKeeper", releases.OLDEST_JAVA), "ZooKeeper", releases.OLDEST_JAVA)
    except jvm.JavaMissing as error:
        return Finding("zookeeper", "absent", f"only `--on zookeeper` needs it; {error}", jvm.install_command())
    if environment.package("kazoo") is None:
        words = "only `--on zookeeper` needs its client library, kazoo"
        return Finding("zookeeper", "absent", words, "pip install 'zab-chaos[zookeeper]'")
    here = [version for version in releases.known() if releases.is_cached(version)]
    found = (
        f"in the cache: {', '.join(here)}" if here else "no release in the cache; a run fetches the one that it needs"
    )
    return Finding("zookeeper", "ok", found)


def fuse() -> Finding:
    """Check what the file system needs whose power can be cut (FUSE)."""
    missing = missing_requirement()
    if missing is None:
        return Finding("fuse", "ok", "disks whose power can be cut can be mounted")
    what, how_to_fix = missing
    return Finding(
        "fuse",
        "absent",
        f"only disk faults of ZooKeeper and of your own system, and `--disk fuse`, need it; {what}",
        how_to_fix,
    )


def containers() -> Finding:
    """Check the container engine that `--on containers` would use, and its image of this version."""
    try:
        with extra("containers", "`--on containers`"):
            from zab_chaos.harness.backends.containers import engine, image
    except MissingExtra as error:
        return Finding("containers", "absent", "only `--on containers` and `zab image` need them", str(error))
    try:
        with contextlib.closing(engine.connect()) as client:
            found = f"version {client.version()['Version']} at {engine.address()}"
            image.find(client)
    except image.NoImage as error:
        return Finding("containers", "warning", f"{found}, without the image of this version", str(error))
    except engine.EngineError as error:
        return Finding(
            "containers", "absent", "only `--on containers` and docker-compose.yml need an engine", str(error)
        )
    return Finding("containers", "ok", f"{found}, with {image.tag()}")
