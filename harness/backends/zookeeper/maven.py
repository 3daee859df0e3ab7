"""Downloads artifacts from a Maven repository, verifies their checksums, and resolves their dependencies.

Maven itself is not needed. Of its rules only those are implemented that ZooKeeper's releases need: parents, properties, managed
versions, imported dependency lists, exclusions, and the nearest of two versions.
"""

import os
import re
import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pooch
import requests

from zab_chaos.harness.machine.download import SECONDS, ChecksumMismatch, download

CENTRAL = "https://repo1.maven.org/maven2"
MIRRORS_CENTRAL = re.compile(r"(^|,)\s*(\*|central|external:\*)\s*(,|$)")
CHECKSUMS = ("sha512", "sha256", "sha1")  # files beside an artifact in a repository, the best first
MAX_DEPTH = 20  # of parents, and of properties that refer to properties: bounds the work if they form a cycle


class MavenError(Exception):
    """The repository can't be reached, lacks a file, or has one with a wrong checksum."""


@dataclass(frozen=True, slots=True, order=True)
class Artifact:
    group: str
    name: str
    version: str

    def path(self, kind: str = "jar") -> str:
        """Return the path of the artifact's file in a repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.name}-{self.version}.{kind}"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def base_url(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> str:
    """Return the URL of the repository to use: $ZAB_MAVEN, else the mirror in Maven's own settings, else Maven Central."""
    configured = environment.get("ZAB_MAVEN")
    return (configured or _mirror((home or Path.home()) / ".m2" / "settings.xml") or CENTRAL).rstrip("/")


def _mirror(settings: Path) -> str | None:
    try:
        root = ET.parse(settings).getroot()
    except (OSError, ET.ParseError):
        return None
    for mirror in root.iter():
        if _tag(mirror) == "mirror" and MIRRORS_CENTRAL.search(_text(mirror, "mirrorOf")):
            return _text(mirror, "url") or None
    return None


class Repository:
    """A Maven repository, accessed over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session = requests.Session()

    def text(self, path: str) -> str:
        """Return the content of a small file. Raises MavenError."""
        try:
            answer = self._session.get(f"{self.url}/{path}", timeout=SECONDS)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise MavenError(f"{self.url}/{path}: {_describe(error)}") from error
        return answer.text

    def download(self, path: str, target: Path, sha256: str | None) -> str:
        """Download an artifact to `target`, and return its sha256.

        It is verified against `sha256` or, without that, against the checksum that the repository publishes. Raises MavenError,
        OSError.
        """
        algorithm, expected = ("sha256", sha256) if sha256 is not None else self._published_checksum(path)
        try:
            download(f"{self.url}/{path}", target, algorithm, expected)
        except requests.RequestException as error:
            raise MavenError(f"{self.url}/{path}: {_describe(error)}") from error
        except ChecksumMismatch as error:
            raise MavenError(str(error)) from error
        return sha256 or pooch.file_hash(str(target))

    def _published_checksum(self, path: str) -> tuple[str, str]:
        for name in CHECKSUMS:
            try:
                return name, self.text(f"{path}.{name}").split()[0].lower()
            except (MavenError, IndexError):
                continue
        raise MavenError(f"{self.url}/{path} has no published checksum to verify it against")


def closure(repository: Repository, root: Artifact, wanted: Callable[[str, str], bool]) -> list[Artifact]:
    """Return the artifact and everything that it needs to run, sorted.

    `wanted(group, name)` selects dependencies of scope "provided" that are included all the same. Raises MavenError.
    """
    poms = _Poms(repository)
    managed = poms.of(root).managed
    found: dict[tuple[str, str], Artifact] = {}
    waiting = deque([(root, frozenset[tuple[str, str]]())])
    while waiting:
        artifact, excluded = waiting.popleft()
        if (artifact.group, artifact.name) in found:
            continue
        found[artifact.group, artifact.name] = artifact
        for dependency in poms.of(artifact).dependencies():
            key = (dependency.group, dependency.name)
            provided = artifact == root and dependency.scope == "provided" and wanted(*key)
            if key in found or not (dependency.needed_at_run_time or provided) or _excluded(key, excluded):
                continue
            version = managed.get(key) or dependency.version if artifact != root else dependency.version
            if version is None:
                raise MavenError(f"{artifact} needs {dependency.group}:{dependency.name}, but no pom gives its version")
            waiting.append((Artifact(*key, version), excluded | dependency.excluded))
    return sorted(found.values())


@dataclass(frozen=True, slots=True)
class _Dependency:
    group: str
    name: str
    version: str | None
    scope: str
    plain: bool  # whether it is a jar without a classifier, and not optional
    excluded: frozenset[tuple[str, str]]

    @property
    def needed_at_run_time(self) -> bool:
        return self.plain and self.scope in ("compile", "runtime")


class _Poms:
    """The poms of a repository, each read once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._known: dict[Artifact, _Pom] = {}

    def of(self, artifact: Artifact) -> "_Pom":
        if artifact not in self._known:
            try:
                root = ET.fromstring(self._repository.text(artifact.path("pom")))
            except ET.ParseError as error:
                raise MavenError(f"the pom of {artifact} can't be read: {error}") from error
            self._known[artifact] = _Pom(root, self)
        return self._known[artifact]


class _Pom:
    """An artifact's project description, with what it inherits from its parents."""

    def __init__(self, root: ET.Element, poms: _Poms) -> None:
        self._root = root
        self._poms = poms

    def dependencies(self) -> Iterator[_Dependency]:
        """Yield the artifact's dependencies, and those of its parents."""
        for pom in self._with_parents:
            for one in _children(pom._root, "dependencies", "dependency"):
                key = self._key(one)
                yield _Dependency(
                    *key,
                    self._fill(_text(one, "version")) or self.managed.get(key),
                    self._fill(_text(one, "scope")) or self._scopes.get(key) or "compile",
                    _text(one, "type") in ("", "jar")
                    and not _text(one, "classifier")
                    and _text(one, "optional") != "true",
                    frozenset(self._key(it) for it in _children(one, "exclusions", "exclusion")),
                )

    @cached_property
    def managed(self) -> dict[tuple[str, str], str]:
        """The versions, by (group, name), that the pom sets for itself and for its dependencies' dependencies."""
        found: dict[tuple[str, str], str] = {}
        for one in self._managed_dependencies():
            key, version = self._key(one), self._fill(_text(one, "version"))
            if _text(one, "scope") == "import":
                for other, imported in self._poms.of(Artifact(*key, version)).managed.items():
                    found.setdefault(other, imported)
            elif not _text(one, "classifier"):
                found.setdefault(key, version)
        return found

    @cached_property
    def _scopes(self) -> dict[tuple[str, str], str]:
        return {
            self._key(one): scope for one in self._managed_dependencies() if (scope := _text(one, "scope")) != "import"
        }

    def _managed_dependencies(self) -> Iterator[ET.Element]:
        for pom in self._with_parents:
            management = pom._root.find("{*}dependencyManagement")
            if management is not None:
                yield from _children(management, "dependencies", "dependency")

    @cached_property
    def _with_parents(self) -> "list[_Pom]":
        """The pom itself, its parent, the parent's parent, and so on."""
        found = [self]
        while len(found) < MAX_DEPTH:
            parent = found[-1]._root.find("{*}parent")
            if parent is None:
                break
            key = _text(parent, "groupId"), _text(parent, "artifactId")
            found.append(self._poms.of(Artifact(*key, _text(parent, "version"))))
        return found

    @cached_property
    def _properties(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for pom in reversed(self._with_parents):
            properties = pom._root.find("{*}properties")
            found.update(
                {_tag(one): (one.text or "").strip() for one in (properties if properties is not None else ())}
            )
        for name in ("groupId", "artifactId", "version"):
            own = _text(self._root, name) or next((_text(pom._root, name) for pom in self._with_parents[1:2]), "")
            parent = next((_text(pom._root, name) for pom in self._with_parents[1:2]), own)
            found |= {f"project.{name}": own, f"pom.{name}": own, f"project.parent.{name}": parent, name: own}
        return found

    def _key(self, element: ET.Element) -> tuple[str, str]:
        return self._fill(_text(element, "groupId")), self._fill(_text(element, "artifactId"))

    def _fill(self, text: str) -> str:
        """Replace each `${property}` in a text."""
        for _ in range(MAX_DEPTH):
            filled = re.sub(r"\$\{([^}]+)\}", lambda name: self._properties.get(name[1], name[0]), text)
            if filled == text:
                break
            text = filled
        return text


def _excluded(key: tuple[str, str], excluded: frozenset[tuple[str, str]]) -> bool:
    group, name = key
    return bool({(group, name), (group, "*"), ("*", "*"), ("*", name)} & excluded)


def _children(element: ET.Element, folder: str, name: str) -> list[ET.Element]:
    return element.findall(f"{{*}}{folder}/{{*}}{name}")


def _text(element: ET.Element, name: str) -> str:
    return (element.findtext(f"{{*}}{name}") or "").strip()


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _describe(error: requests.RequestException) -> str:
    return f"{error.response.status_code} {error.response.reason}" if error.response is not None else str(error)
