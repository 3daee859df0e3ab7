"""ZooKeeper's releases: which are known, what each needs on its class path, and where on this machine it is.

A release comes from Maven Central (or the mirror that Maven's settings name, or $ZAB_MAVEN) into the cache, or it is a
distribution's folder that somebody has unpacked. What `releases.json` knows is checked by the sums pinned there; any
other version is resolved when it is asked for, and checked by the sums that the repository publishes.

`python -m zab_chaos.harness.backends.zookeeper.releases VERSION...` writes versions into `releases.json`.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zab_chaos.harness.backends.zookeeper.maven import Artifact, MavenError, Repository, base_url, closure
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.machine import cache
from zab_chaos.pipeline import java

TABLE = Path(__file__).with_name("releases.json")  # version -> path in the repository -> sha256
LOGGING = Path(__file__).with_name("logging")  # what every logging library is to do; first on the class path
BYTEMAN = Artifact("org.jboss.byteman", "byteman", "4.0.23")
BYTEMAN_SHA256 = "bf8d2b2a2e11b87eaa2da19ac95e85f0fb59712eb3ed2aea3eb1192d9c2c9a60"
PROVIDED = ("metrics-core", "snappy-java")  # what the artifact only asks to be provided, and does not start without
ABSENT = ("com.sun.jdmk", "com.sun.jmx", "javax.jms")  # an old log4j names them, Maven Central has no jars of them
PROVIDERS = (
    "slf4j-log4j12",
    "logback-classic",
    "slf4j-simple",
    "slf4j-reload4j",
)  # without one a server's log is silent
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
SERVER_JAR = re.compile(rf"zookeeper-({VERSION.pattern})\.jar")
OLDEST_JAVA = 11  # a server is told by `jdk.net.hosts.file` who its peers are, which Java 8 does not know


@dataclass(frozen=True, slots=True)
class Release:
    """One that is on this machine. `classpath`: its jars, and before them what it logs by."""

    version: str
    classpath: tuple[Path, ...]
    byteman: Path

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Major, minor, patch, to compare by."""
        major, minor, patch = (int(part) for part in self.version.partition("-")[0].split("."))
        return major, minor, patch


def known() -> dict[str, dict[str, str]]:
    """The pinned releases, the oldest first: the jars of each, with their sums."""
    table: dict[str, dict[str, str]] = json.loads(TABLE.read_text())
    return dict(sorted(table.items(), key=lambda item: _order(item[0])))


def cached(version: str) -> Path:
    """Where a fetched release is kept."""
    return cache.folder() / "zookeeper" / version


def is_cached(version: str) -> bool:
    return cached(version).is_dir()


def resolved(named: str) -> str:
    """A version or a distribution's folder, as it was asked for; the folder by its whole path. Raises BadInput."""
    if VERSION.fullmatch(named):
        return named
    if Path(named).is_dir():
        return str(Path(named).resolve())
    raise BadInput(
        f"--zookeeper {named}: this is neither a version, like {newest()}, nor the folder of an unpacked distribution. "
        "`zab zookeeper list` shows the versions that are known"
    )


def locate(named: str, said: Callable[[str], None] = lambda words: None) -> Release:
    """A release by its version, fetched into the cache if it has to be; or by a distribution's folder. `said` hears what
    is fetched. Raises BadInput, HarnessError."""
    named = resolved(named)
    return _found(named, fetch(named, said), said) if VERSION.fullmatch(named) else _distribution(Path(named), said)


def newest() -> str:
    """The newest of the pinned releases."""
    return list(known())[-1]


def fetch(version: str, said: Callable[[str], None] = lambda words: None) -> Path:
    """The release's folder in the cache; its jars are put there whole or not at all (two runs may fetch at once). Raises
    BadInput if there is no such release, HarnessError if it can't be had."""
    target = cached(version)
    if not target.is_dir():
        repository = Repository(base_url())
        _into(target, f"ZooKeeper {version}", lambda folder: _download(repository, version, folder, said))
    return target


def _into(target: Path, what: str, fill: Callable[[Path], None]) -> None:
    def filled(room: Path) -> Path:
        folder = room / "whole"
        folder.mkdir()
        fill(folder)
        return folder

    try:
        cache.store(target, filled)
    except (MavenError, OSError) as error:
        raise HarnessError(
            f"{what} could not be fetched: {error}\n"
            "Where a mirror of Maven Central is to be used, set ZAB_MAVEN to its URL, or name it in ~/.m2/settings.xml. "
            "An unpacked distribution does as well: --zookeeper DIR"
        ) from error


def _download(repository: Repository, version: str, folder: Path, said: Callable[[str], None]) -> None:
    pinned = known().get(version)
    jars: Mapping[str, str | None] = pinned or dict.fromkeys(jars_of(repository, version))
    for path, sha256 in jars.items():
        said(path.rpartition("/")[2])
        repository.download(path, folder / path.rpartition("/")[2], sha256)


def jars_of(repository: Repository, version: str) -> list[str]:
    """The paths of all jars that a server of this version runs with. Raises MavenError, BadInput."""
    root = Artifact("org.apache.zookeeper", "zookeeper", version)
    try:
        repository.text(root.path("pom"))
    except MavenError as error:
        if "404" in str(error):
            hint = "`zab zookeeper list` shows the versions that are known"
            raise BadInput(f"there is no ZooKeeper {version} at {repository.url}. {hint}") from error
        raise
    needed = closure(repository, root, lambda _, name: name in PROVIDED)
    artifacts = [one for one in needed if one.group not in ABSENT]
    if not any(one.name in PROVIDERS for one in artifacts):
        api = next(one for one in artifacts if one.name == "slf4j-api")
        artifacts.append(Artifact(api.group, "slf4j-simple", api.version))
    return sorted(one.path() for one in artifacts)


def byteman(said: Callable[[str], None] = lambda words: None) -> Path:
    """The agent that every server runs with, fetched into the cache if it has to be. Raises HarnessError."""
    path = BYTEMAN.path()
    jar = cache.folder() / "byteman" / path.rpartition("/")[2]

    def fill(folder: Path) -> None:
        Repository(base_url()).download(path, folder / jar.name, BYTEMAN_SHA256)

    if not jar.is_file():
        said(jar.name)
        _into(jar.parent, str(BYTEMAN), fill)
    return jar


def _found(version: str, folder: Path, said: Callable[[str], None]) -> Release:
    return Release(version, (LOGGING, *sorted(folder.glob("*.jar"))), byteman(said))


def _distribution(folder: Path, said: Callable[[str], None]) -> Release:
    """Its jars lie in `lib`, that of an old release's server above it."""
    jars = sorted({*folder.glob("lib/*.jar"), *folder.glob("*.jar")})
    versions = {match[1] for jar in jars if (match := SERVER_JAR.fullmatch(jar.name))}
    if len(versions) != 1:
        found = f"those of {' and '.join(sorted(versions))}" if versions else "none"
        raise BadInput(
            f"--zookeeper {folder}: a distribution has one zookeeper-VERSION.jar, in it or in its lib; here is {found}"
        )
    return Release(versions.pop(), (LOGGING, *(jar.resolve() for jar in jars)), byteman(said))


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """The `java` that servers run on. Raises HarnessError."""
    try:
        path = java.find("ZooKeeper", OLDEST_JAVA, environment)
        java.version(path, "ZooKeeper", OLDEST_JAVA)
    except java.JavaMissing as error:
        raise HarnessError(str(error)) from error
    return path


def _order(version: str) -> tuple[list[int], bool, str]:
    numbers, _, rest = version.partition("-")
    return [int(part) for part in numbers.split(".")], not rest, rest


def pin(versions: list[str]) -> None:
    """Write these versions into the table, with the sums of what the repository has. Raises MavenError, BadInput."""
    repository, table = Repository(base_url()), known() if TABLE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for version in versions:
            sums = {
                path: repository.download(path, Path(folder) / "jar", None) for path in jars_of(repository, version)
            }
            table[version] = sums
    TABLE.write_text(json.dumps(dict(sorted(table.items(), key=lambda item: _order(item[0]))), indent=1) + "\n")


if __name__ == "__main__":
    pin(sys.argv[1:])
