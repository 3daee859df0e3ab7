"""ZooKeeper's releases: lists the known ones, fetches their jars into the cache, and finds them on this machine.

A release is fetched from Maven Central (or the mirror in Maven's settings, or $ZAB_MAVEN), or it is the folder of an unpacked
distribution. The jars of the releases in `releases.json` are verified against the checksums pinned there. Any other version is
resolved when it is asked for, and verified against the checksums that the repository publishes.

`python -m zab_chaos.harness.backends.zookeeper.releases VERSION...` writes versions into `releases.json`.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zab_chaos.harness.backends.zookeeper.maven import Artifact, MavenError, Repository, base_url, closure
from zab_chaos.harness.errors import BadInput, HarnessError, did_you_mean
from zab_chaos.harness.machine import cache, java

TABLE = Path(__file__).with_name("releases.json")  # version -> path in the repository -> sha256
LOGGING = Path(__file__).with_name("logging")  # configuration of each logging library; first on the class path
BYTEMAN = Artifact("org.jboss.byteman", "byteman", "4.0.27")
BYTEMAN_SHA256 = "979274834c1880bd2fb3a8a225d9a21350701a6bbea25a48631eb9b8d2e4cc00"
PROVIDED = ("metrics-core", "snappy-java")  # of scope "provided", but the server does not start without them
ABSENT = ("com.sun.jdmk", "com.sun.jmx", "javax.jms")  # dependencies of an old log4j that Maven Central has no jars of
PROVIDERS = (
    "slf4j-log4j12",
    "logback-classic",
    "slf4j-simple",
    "slf4j-reload4j",
)  # without one of these a server logs nothing
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
SERVER_JAR = re.compile(rf"zookeeper-({VERSION.pattern})\.jar")
OLDEST = (3, 4, 0)  # earlier releases have another recovery protocol, and no files of the epochs
LISTED = "`zab zookeeper list` shows the versions that are known."
OLDEST_JAVA = 11  # Java 8 does not have `jdk.net.hosts.file`, with which a server resolves its peers


@dataclass(frozen=True, slots=True)
class Release:
    """A release that is on this machine. `classpath` begins with the configuration of logging, before the jars."""

    version: str
    classpath: tuple[Path, ...]
    byteman: Path

    @property
    def numbers(self) -> tuple[int, int, int]:
        """(major, minor, patch), for comparisons."""
        return numbers(self.version)


def known() -> dict[str, dict[str, str]]:
    """Return the pinned releases, the oldest first: the checksum of each of their jars."""
    table: dict[str, dict[str, str]] = json.loads(TABLE.read_text())
    return dict(sorted(table.items(), key=lambda item: _sort_key(item[0])))


def cached(version: str) -> Path:
    """Return the folder in the cache where a fetched release is kept."""
    return cache.folder() / "zookeeper" / version


def is_cached(version: str) -> bool:
    return cached(version).is_dir()


def resolved(named: str) -> str:
    """Return a version unchanged, and the folder of a distribution as an absolute path. Raises BadInput for anything else."""
    if VERSION.fullmatch(named):
        return named
    if Path(named).is_dir():
        return str(Path(named).resolve())
    raise BadInput(
        f"{named}: this is neither a version, like {newest()}, nor the folder of an unpacked distribution. "
        f"{did_you_mean(named, known(), LISTED)}"
    )


def locate(named: str, on_fetch: Callable[[str], None] = lambda name: None) -> Release:
    """Return a release by its version, fetched into the cache if need be, or by the folder of a distribution.

    `on_fetch` is called with the name of each file that is fetched. Raises BadInput, HarnessError.
    """
    named = resolved(named)
    if not VERSION.fullmatch(named):
        return _distribution(Path(named), on_fetch)
    folder = fetch(named, on_fetch)
    return Release(named, (LOGGING, *sorted(folder.glob("*.jar"))), locate_byteman(on_fetch))


def newest() -> str:
    """Return the newest of the pinned releases."""
    return list(known())[-1]


def fetch(version: str, on_fetch: Callable[[str], None] = lambda name: None) -> Path:
    """Return a release's folder in the cache; fetch its jars if need be, all or none (two runs may fetch at once).

    Raises BadInput if there is no such release or it is too old, HarnessError if it can't be fetched.
    """
    _require_supported(version)
    target = cached(version)
    if not target.is_dir():
        repository = Repository(base_url())
        _store(target, f"ZooKeeper {version}", lambda folder: _download(repository, version, folder, on_fetch))
    return target


def _store(target: Path, what: str, fill: Callable[[Path], None]) -> None:
    """Put a folder that `fill` fills into the cache at `target`. Raises HarnessError, with `what` in its text."""

    def make(parent: Path) -> Path:
        folder = parent / "whole"
        folder.mkdir()
        fill(folder)
        return folder

    try:
        cache.store(target, make)
    except (MavenError, OSError) as error:
        raise HarnessError(
            f"{what} could not be fetched: {error}\n"
            "To use a mirror of Maven Central, set ZAB_MAVEN to its URL, or name it in ~/.m2/settings.xml. "
            "Or use an unpacked distribution: --zookeeper DIR"
        ) from error


def _download(repository: Repository, version: str, folder: Path, on_fetch: Callable[[str], None]) -> None:
    pinned = known().get(version)
    jars: Mapping[str, str | None] = pinned or dict.fromkeys(jars_of(repository, version))
    for path, sha256 in jars.items():
        on_fetch(path.rpartition("/")[2])
        repository.download(path, folder / path.rpartition("/")[2], sha256)


def jars_of(repository: Repository, version: str) -> list[str]:
    """Return the paths, in the repository, of all jars that a server of this version needs. Raises MavenError, BadInput."""
    root = Artifact("org.apache.zookeeper", "zookeeper", version)
    try:
        repository.text(root.path("pom"))
    except MavenError as error:
        if "404" in str(error):
            allowed = f"Allowed: {', '.join(known())}, and others that are there."
            hint = did_you_mean(version, known(), LISTED)
            raise BadInput(f"there is no ZooKeeper {version} at {repository.url}. {allowed} {hint}") from error
        raise
    needed = closure(repository, root, lambda _, name: name in PROVIDED)
    artifacts = [it for it in needed if it.group not in ABSENT]
    if not any(it.name in PROVIDERS for it in artifacts):
        api = next(it for it in artifacts if it.name == "slf4j-api")
        artifacts.append(Artifact(api.group, "slf4j-simple", api.version))
    return sorted(it.path() for it in artifacts)


def locate_byteman(on_fetch: Callable[[str], None] = lambda name: None) -> Path:
    """Return the jar of Byteman, the Java agent of every server, fetched into the cache if need be. Raises HarnessError."""
    path = BYTEMAN.path()
    jar = cache.folder() / "byteman" / BYTEMAN.version / path.rpartition("/")[2]

    def fill(folder: Path) -> None:
        Repository(base_url()).download(path, folder / jar.name, BYTEMAN_SHA256)

    if not jar.is_file():
        on_fetch(jar.name)
        _store(jar.parent, str(BYTEMAN), fill)
    return jar


def _distribution(folder: Path, on_fetch: Callable[[str], None]) -> Release:
    """Return the release in a distribution's folder."""
    version = version_in(folder)
    _require_supported(version)
    return Release(version, (LOGGING, *(jar.resolve() for jar in _jars_in(folder))), locate_byteman(on_fetch))


def _jars_in(folder: Path) -> list[Path]:
    """Return a distribution's jars. They are in `lib`; old releases have the server's jar above it."""
    return sorted({*folder.glob("lib/*.jar"), *folder.glob("*.jar")})


def version_in(folder: Path) -> str:
    """Return the version of the distribution in a folder. Raises BadInput if there is none, or more than one."""
    jars = _jars_in(folder)
    versions = {match[1] for jar in jars if (match := SERVER_JAR.fullmatch(jar.name))}
    if len(versions) != 1:
        found = f"those of {' and '.join(sorted(versions))}" if versions else "none"
        raise BadInput(
            f"--zookeeper {folder}: a distribution has one zookeeper-VERSION.jar, in it or in its lib; this one has {found}"
        )
    return versions.pop()


def _require_supported(version: str) -> None:
    if numbers(version) < OLDEST:
        raise BadInput(f"ZooKeeper {version} is too old: releases from {'.'.join(map(str, OLDEST))} on are supported")


def find_java() -> str:
    """Return the path of the `java` for the servers. Raises HarnessError."""
    try:
        path = java.find("ZooKeeper", OLDEST_JAVA)
        java.version(path, "ZooKeeper", OLDEST_JAVA)
    except java.JavaMissing as error:
        raise HarnessError(str(error)) from error
    return path


def numbers(version: str) -> tuple[int, int, int]:
    """Return (major, minor, patch) of a version."""
    major, minor, patch = (int(part) for part in version.partition("-")[0].split("."))
    return major, minor, patch


def _sort_key(version: str) -> tuple[tuple[int, int, int], bool, str]:
    _, _, rest = version.partition("-")
    return numbers(version), not rest, rest


def pin(versions: list[str]) -> None:
    """Write these versions into `releases.json`, with the checksums of their jars. Raises MavenError, BadInput."""
    repository, table = Repository(base_url()), known() if TABLE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for version in versions:
            sums = {
                path: repository.download(path, Path(folder) / "jar", None) for path in jars_of(repository, version)
            }
            table[version] = sums
    TABLE.write_text(json.dumps(dict(sorted(table.items(), key=lambda item: _sort_key(item[0]))), indent=1) + "\n")


if __name__ == "__main__":
    pin(sys.argv[1:])
