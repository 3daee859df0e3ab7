"""A misspelt setting is refused: its name is in no class of the release."""

import struct
from pathlib import Path
from zipfile import ZipFile

import pytest

from zab_chaos.faults.scenario import parse
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.zookeeper import backend, known_settings
from zab_chaos.harness.backends.zookeeper.backend import ZooKeeperBackend
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.report.progress import Quiet


def class_file(*texts: str, other: str = "noSuchSetting") -> bytes:
    """Return the beginning of a class with these string constants; `other` is the name of a field."""
    constants = [b"\x05" + struct.pack(">q", 1 << 40)]  # a long number, which counts twice
    for number, text in enumerate(texts):
        constants.append(b"\x01" + struct.pack(">H", len(text)) + text.encode())
        constants.append(b"\x08" + struct.pack(">H", 3 + 2 * number))
    constants.append(b"\x01" + struct.pack(">H", len(other)) + other.encode())
    return b"\xca\xfe\xba\xbe\0\0\0\x34" + struct.pack(">H", len(constants) + 2) + b"".join(constants) + b"the rest"


def release(folder: Path, version: str, *texts: str) -> Release:
    jar = folder / f"zookeeper-{version}.jar"
    with ZipFile(jar, "w") as classes:
        classes.writestr("org/apache/zookeeper/server/ZooKeeperServer.class", class_file("zookeeper.snapCount", "word"))
        classes.writestr("org/apache/zookeeper/server/quorum/QuorumPeerConfig.class", class_file("tickTime", *texts))
        classes.writestr("META-INF/MANIFEST.MF", "text")
    return Release(version, (folder / "other.jar", jar), folder)


def test_the_texts_of_a_class_are_its_string_constants() -> None:
    assert known_settings.texts_of(class_file("a", "snapCount")) == {"a", "snapCount"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("snapcount", "Did you mean snapCount?"),
        ("zookeeper.snapCount", "Did you mean snapCount?"),
        ("ticktime", "Did you mean tickTime?"),
        ("noSuchSetting", known_settings.HINT),
    ],
)
def test_a_setting_that_no_release_knows_is_refused(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.releases, "locate", lambda named, _: release(tmp_path, named))
    options = RunOptions(seed=1, results=tmp_path, command="again", release="3.9.4")
    scenario = parse(f'[scenario]\nname = "mine"\n[zookeeper]\nsettings = {{ tickTime = "200", "{name}" = "4" }}\n')
    with pytest.raises(BadInput) as caught:
        ZooKeeperBackend().prepare(scenario, options, Quiet())
    assert str(caught.value) == f"[zookeeper] settings has {name}, which ZooKeeper 3.9.4 does not know. {hint}"


def test_a_setting_that_one_of_the_releases_knows_is_allowed(tmp_path: Path) -> None:
    old, new = release(tmp_path, "3.4.14"), release(tmp_path, "3.9.5", "snapshot.compression.method")
    names = ["tickTime", "snapCount", "snapshot.compression.method", "snapshot.trust.empty", "authProvider.1"]
    assert known_settings.mistakes([old, new], names) == []
    (mistake,) = known_settings.mistakes([old], names)
    assert "settings has snapshot.compression.method, which ZooKeeper 3.4.14 does not know" in mistake
