"""Fetching releases from a local repository: dependencies, checksums and errors."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.file_server import serving
from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.backends.zookeeper.backend import ZooKeeperBackend
from zab_chaos.harness.backends.zookeeper.maven import CENTRAL, Artifact, MavenError, Repository, base_url, closure
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import BadInput, Exit, HarnessError

ZK = "org.apache.zookeeper"


class Shelf:
    """A Maven repository in a folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.repository = Repository(url)

    def put(self, artifact: Artifact, pom: str = "", content: bytes | None = None, sums: bool = True) -> Artifact:
        path = self.folder / artifact.path("pom")
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"<groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        version = f"<version>{artifact.version}</version>"
        path.write_text(f'<project xmlns="http://maven.apache.org/POM/4.0.0">{head}{version}{pom}</project>')
        jar = content if content is not None else str(artifact).encode()
        (self.folder / artifact.path()).write_bytes(jar)
        if sums:
            (self.folder / f"{artifact.path()}.sha1").write_text(hashlib.sha1(jar).hexdigest())
        return artifact


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    folder = tmp_path / "repository"
    monkeypatch.setattr(releases.cache, "folder", lambda: tmp_path / "cache")
    with serving(folder) as url:
        monkeypatch.setenv("ZAB_MAVEN", url)
        yield Shelf(folder, url)


def needs(*needed: str) -> str:
    return f"<dependencies>{''.join(needed)}</dependencies>"


def need(artifact: Artifact, more: str = "", version: bool = True) -> str:
    words = f"<groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
    own = f"<version>{artifact.version}</version>" if version else ""
    return f"<dependency>{words}{own}{more}</dependency>"


def shelve_server(shelf: Shelf, version: str) -> None:
    api = shelf.put(Artifact("org.slf4j", "slf4j-api", "2.0.1"))
    shelf.put(Artifact("org.slf4j", "slf4j-simple", "2.0.1"))
    metrics = shelf.put(Artifact("io.dropwizard.metrics", "metrics-core", "4.1"))
    provided = need(metrics, "<scope>provided</scope>")
    shelf.put(Artifact(ZK, "zookeeper", version), needs(need(api), provided))


def test_dependencies_follow_parents_properties_managed_versions_and_exclusions(shelf: Shelf) -> None:
    bottom = Artifact("a", "bottom", "1")
    newer = shelf.put(Artifact("a", "bottom", "2"))
    unwanted = Artifact("a", "unwanted", "1")
    middle = shelf.put(Artifact("a", "middle", "7"), needs(need(bottom), need(unwanted)))
    tests_only, optional = Artifact("a", "tests", "1"), Artifact("a", "optional", "1")
    native = Artifact("a", "native", "1")
    exclusion = "<exclusions><exclusion><groupId>a</groupId><artifactId>unwanted</artifactId></exclusion></exclusions>"
    managed = f"<dependencyManagement>{needs(need(newer))}</dependencyManagement>"
    shelf.put(Artifact("a", "parent", "5"), f"<properties><middle>7</middle></properties>{managed}")
    parent = "<parent><groupId>a</groupId><artifactId>parent</artifactId><version>5</version></parent>"
    root = shelf.put(
        Artifact("a", "root", "5"),
        parent
        + needs(
            need(Artifact("${project.groupId}", "middle", "${middle}"), exclusion),
            need(tests_only, "<scope>test</scope>"),
            need(optional, "<optional>true</optional>"),
            need(native, "<classifier>linux-x86_64</classifier>"),
        ),
    )
    assert closure(shelf.repository, root, lambda *_: False) == [newer, middle, root]


def test_a_release_gets_its_provided_dependencies_and_a_logger(shelf: Shelf) -> None:
    shelve_server(shelf, "3.99.0")
    release = releases.fetch("3.99.0")
    names = ["metrics-core-4.1.jar", "slf4j-api-2.0.1.jar", "slf4j-simple-2.0.1.jar", "zookeeper-3.99.0.jar"]
    assert sorted(jar.name for jar in release.iterdir()) == names
    assert releases.is_cached("3.99.0")


def test_a_release_without_the_files_of_the_epochs_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(Artifact(ZK, "zookeeper", "3.3.6"))  # it logs without slf4j
    (tmp_path / "zookeeper-3.3.6.jar").touch()
    for named in ("3.3.6", str(tmp_path)):
        with pytest.raises(BadInput, match=r"ZooKeeper 3\.3\.6 is too old: releases from 3\.4\.0 on"):
            releases.locate(named)


def test_byteman_is_fetched_also_if_the_cache_has_another_version(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = shelf.folder / shelf.put(releases.BYTEMAN).path()
    monkeypatch.setattr(releases, "BYTEMAN_SHA256", hashlib.sha256(jar.read_bytes()).hexdigest())
    other = releases.cache.folder() / "byteman" / "byteman-4.0.23.jar"
    other.parent.mkdir(parents=True)
    other.touch()
    assert releases.locate_byteman().read_bytes() == jar.read_bytes()


@pytest.mark.parametrize("spoil", ["wrong", "missing"])
def test_a_jar_that_cannot_be_verified_is_refused_and_nothing_is_kept(shelf: Shelf, spoil: str) -> None:
    shelve_server(shelf, "3.99.0")
    sum_file = shelf.folder / f"{Artifact(ZK, 'zookeeper', '3.99.0').path()}.sha1"
    sum_file.write_text("0" * 40) if spoil == "wrong" else sum_file.unlink()
    with pytest.raises(HarnessError, match=r"zookeeper-3\.99\.0\.jar has"):
        releases.fetch("3.99.0")
    assert not releases.is_cached("3.99.0")
    assert [path.name for path in releases.cached("3.99.0").parent.iterdir()] == [releases.cache.LOCK]


def test_a_pinned_jar_is_verified_against_its_pin_and_not_against_the_published_checksum(shelf: Shelf) -> None:
    version = releases.newest()
    for path in releases.known()[version]:
        group, name, number = path.rsplit("/", 3)[0].replace("/", "."), path.split("/")[-3], path.split("/")[-2]
        shelf.put(Artifact(group, name, number), content=b"not it, but its sum is right")
    with pytest.raises(HarnessError, match="was expected"):
        releases.fetch(version)


def test_a_version_that_does_not_exist_is_bad_input(shelf: Shelf) -> None:
    with pytest.raises(BadInput, match=r"no ZooKeeper 3\.77\.0"):
        releases.fetch("3.77.0")


def test_an_error_of_an_unreachable_repository_names_the_remedy(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAB_MAVEN", "http://127.0.0.1:1")
    with pytest.raises(HarnessError, match="set ZAB_MAVEN"):
        releases.fetch("3.9.4")


def test_a_download_is_verified_against_the_strongest_published_checksum(shelf: Shelf, tmp_path: Path) -> None:
    artifact = shelf.put(Artifact("a", "b", "1"), content=b"x")
    (shelf.folder / f"{artifact.path()}.sha512").write_text("0" * 128)
    with pytest.raises(MavenError, match="has sha512"):
        shelf.repository.download(artifact.path(), tmp_path / "jar", None)


def test_a_distribution_is_known_by_its_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "locate_byteman", lambda on_fetch: Path("byteman.jar"))
    (tmp_path / "lib").mkdir()
    for name in ("zookeeper-3.8.4.jar", "zookeeper-jute-3.8.4.jar", "logback-classic-1.2.13.jar"):
        (tmp_path / "lib" / name).touch()
    release = releases.locate(str(tmp_path))
    assert (release.version, release.numbers) == ("3.8.4", (3, 8, 4))
    assert release.classpath[0].name == "logging"
    (tmp_path / "zookeeper-3.4.14.jar").touch()
    with pytest.raises(BadInput, match=r"3\.4\.14 and 3\.8\.4"):
        releases.locate(str(tmp_path))


def test_a_name_that_is_neither_version_nor_folder_is_bad_input() -> None:
    with pytest.raises(BadInput, match="neither a version"):
        releases.locate("newest")


def test_the_pinned_releases_are_sorted_by_age_and_have_a_checksum_for_each_jar() -> None:
    known = releases.known()
    assert list(known)[2:5] == ["3.4.6", "3.4.10", "3.4.14"]
    for version, jars in known.items():
        assert any(path.endswith(f"/zookeeper-{version}.jar") for path in jars)
        assert any(name in path for path in jars for name in releases.PROVIDERS)
        assert all(len(sha256) == 64 for sha256 in jars.values())


def test_the_repository_is_the_users_then_mavens_mirror_then_central(tmp_path: Path) -> None:
    assert base_url({}, tmp_path) == CENTRAL
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>'
        "<mirror><mirrorOf>other</mirrorOf><url>http://no</url></mirror>"
        "<mirror><mirrorOf>external:*</mirrorOf><url>http://mirror/maven/</url></mirror></mirrors></settings>"
    )
    assert base_url({}, tmp_path) == "http://mirror/maven"
    assert base_url({"ZAB_MAVEN": "http://mine"}, tmp_path) == "http://mine"


def test_a_release_that_does_not_exist_is_a_mistake_and_leaves_no_run(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ZooKeeperBackend, "check", lambda self: None)  # it needs Java
    (tmp_path / "empty").mkdir()
    results = tmp_path / "results"
    for named, words in (
        ("3.9.8", "Allowed: 3.4.3, "),
        ("3.9.8", "Did you mean 3.9.5"),
        (str(tmp_path / "empty"), "this one has none"),
    ):
        command = ["run", "steady-state", "--zookeeper", named, "--results", str(results)]
        assert main(command) == Exit.BAD_INPUT
        assert words in " ".join(capsys.readouterr().err.split())
    assert not results.exists()
