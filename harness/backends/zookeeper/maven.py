"""What a Maven repository holds: artifacts, checked by the sums that it publishes, and what an artifact needs to run.

Maven itself is not asked: not everybody has it. Of its rules only those are here that released servers need: parents,
properties, managed versions, imported lists, exclusions, and the nearest of two versions.
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
SUMS = ("sha512", "sha256", "sha1")  # what a repository publishes beside an artifact, the best first
DEPTH = 20  # of parents, and of properties that are made of properties: poms that are no deeper have no circle


class MavenError(Exception):
    """The repository does not have it, can't be reached, or gave something else than it promises."""


@dataclass(frozen=True, slots=True, order=True)
class Artifact:
    group: str
    name: str
    version: str

    def path(self, kind: str = "jar") -> str:
        """Where a repository has it."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.name}-{self.version}.{kind}"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def base_url(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> str:
    """The repository to ask: $ZAB_MAVEN, else the mirror of Maven's own settings, else Maven Central."""
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
    """One repository, over HTTP. `url` as Maven writes it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session = requests.Session()

    def text(self, path: str) -> str:
        """A small file. Raises MavenError."""
        try:
            answer = self._session.get(f"{self.url}/{path}", timeout=SECONDS)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise MavenError(f"{self.url}/{path}: {_words(error)}") from error
        return answer.text

    def download(self, path: str, target: Path, sha256: str | None) -> str:
        """Put an artifact at `target`, and return its sha256: the one expected, or without one that of an artifact whose
        published sum is right. Raises MavenError, OSError."""
        algorithm, expected = ("sha256", sha256) if sha256 is not None else self._published(path)
        try:
            download(f"{self.url}/{path}", target, algorithm, expected)
        except requests.RequestException as error:
            raise MavenError(f"{self.url}/{path}: {_words(error)}") from error
        except ChecksumMismatch as error:
            raise MavenError(str(error)) from error
        return sha256 or pooch.file_hash(str(target))

    def _published(self, path: str) -> tuple[str, str]:
        for name in SUMS:
            try:
                return name, self.text(f"{path}.{name}").split()[0].lower()
            except (MavenError, IndexError):
                continue
        raise MavenError(f"{self.url}/{path} has no sum beside it that it could be checked by")


def closure(repository: Repository, root: Artifact, wanted: Callable[[str, str], bool]) -> list[Artifact]:
    """The artifact and all that it needs to run, sorted. `wanted` (group, name): what it asks to be provided, and is taken
    all the same. Raises MavenError."""
    poms = _Poms(repository)
    managed = poms.of(root).managed
    found: dict[tuple[str, str], Artifact] = {}
    waiting = deque([(root, frozenset[tuple[str, str]]())])
    while waiting:
        artifact, excluded = waiting.popleft()
        if (artifact.group, artifact.name) in found:
            continue
        found[artifact.group, artifact.name] = artifact
        for need in poms.of(artifact).needs():
            key = (need.group, need.name)
            provided = artifact == root and need.scope == "provided" and wanted(*key)
            if key in found or not (need.runs or provided) or _excluded(key, excluded):
                continue
            version = managed.get(key) or need.version if artifact != root else need.version
            if version is None:
                raise MavenError(f"{artifact} needs {need.group}:{need.name}, and nothing says of which version")
            waiting.append((Artifact(*key, version), excluded | need.excluded))
    return sorted(found.values())


@dataclass(frozen=True, slots=True)
class _Need:
    group: str
    name: str
    version: str | None
    scope: str
    plain: bool  # a jar without a classifier, and not optional
    excluded: frozenset[tuple[str, str]]

    @property
    def runs(self) -> bool:
        return self.plain and self.scope in ("compile", "runtime")


class _Poms:
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
    """A project's description, with what it has from its parents."""

    def __init__(self, root: ET.Element, poms: _Poms) -> None:
        self._root = root
        self._poms = poms

    def needs(self) -> Iterator[_Need]:
        """What it depends on, its parents' dependencies too."""
        for pom in self._line:
            for one in _children(pom._root, "dependencies", "dependency"):
                key = self._key(one)
                yield _Need(
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
        """The versions that it decides for itself and for all that it brings."""
        found: dict[tuple[str, str], str] = {}
        for one in self._managing():
            key, version = self._key(one), self._fill(_text(one, "version"))
            if _text(one, "scope") == "import":
                for other, imported in self._poms.of(Artifact(*key, version)).managed.items():
                    found.setdefault(other, imported)
            elif not _text(one, "classifier"):
                found.setdefault(key, version)
        return found

    @cached_property
    def _scopes(self) -> dict[tuple[str, str], str]:
        return {self._key(one): scope for one in self._managing() if (scope := _text(one, "scope")) != "import"}

    def _managing(self) -> Iterator[ET.Element]:
        for pom in self._line:
            management = pom._root.find("{*}dependencyManagement")
            if management is not None:
                yield from _children(management, "dependencies", "dependency")

    @cached_property
    def _line(self) -> "list[_Pom]":
        """Itself, its parent, its parent's parent."""
        found = [self]
        while len(found) < DEPTH:
            parent = found[-1]._root.find("{*}parent")
            if parent is None:
                break
            key = _text(parent, "groupId"), _text(parent, "artifactId")
            found.append(self._poms.of(Artifact(*key, _text(parent, "version"))))
        return found

    @cached_property
    def _properties(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for pom in reversed(self._line):
            properties = pom._root.find("{*}properties")
            found.update(
                {_tag(one): (one.text or "").strip() for one in (properties if properties is not None else ())}
            )
        for name in ("groupId", "artifactId", "version"):
            own = _text(self._root, name) or next((_text(pom._root, name) for pom in self._line[1:2]), "")
            parent = next((_text(pom._root, name) for pom in self._line[1:2]), own)
            found |= {f"project.{name}": own, f"pom.{name}": own, f"project.parent.{name}": parent, name: own}
        return found

    def _key(self, element: ET.Element) -> tuple[str, str]:
        return self._fill(_text(element, "groupId")), self._fill(_text(element, "artifactId"))

    def _fill(self, text: str) -> str:
        for _ in range(DEPTH):
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


def _words(error: requests.RequestException) -> str:
    return f"{error.response.status_code} {error.response.reason}" if error.response is not None else str(error)
