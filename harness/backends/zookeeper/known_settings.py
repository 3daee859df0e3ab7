"""The names of the settings that releases know, as their jars have them.

A server takes a line of its configuration whose name it does not know for the system property `zookeeper.NAME`, and says
nothing. So a name is known if the release's program has it as a text, with or without `zookeeper.`.
"""

import struct
import zipfile
from collections.abc import Collection, Iterator

from zab_chaos.harness.backends.zookeeper.releases import SERVER_JAR, Release
from zab_chaos.harness.errors import did_you_mean

PREFIX = "zookeeper."
FAMILIES = ("authProvider.", "metricsProvider.")  # whoever writes the class that reads such a setting gives it its name
FOR_UPGRADES = "snapshot.trust.empty"  # scenarios of upgrades have it, also for releases that do not need it
PARSER = "QuorumPeerConfig.class"
HINT = "ZooKeeper's administrator's guide lists the settings."
UTF8, LONG, DOUBLE, STRING = 1, 5, 6, 8  # tags of a class file's constants
SIZES = {LONG: 9, DOUBLE: 9, 7: 3, STRING: 3, 15: 4, 16: 3, 19: 3, 20: 3}  # of constants by their tag; of all others 5


def mistakes(releases: Collection[Release], names: Collection[str]) -> list[str]:
    """Return a message for each name that none of the releases knows."""
    texts: set[str] = set()
    settings: set[str] = set()  # texts that certainly are names of settings
    for file, found in _classes(releases):
        texts |= found
        settings |= {text.removeprefix(PREFIX) for text in found if text.startswith(PREFIX) or file.endswith(PARSER)}
    known = [text for text in settings if " " not in text]
    versions = " and ".join(release.version for release in releases)
    return [
        f"[zookeeper] settings has {name}, which ZooKeeper {versions} does not know. "
        f"{did_you_mean(name.removeprefix(PREFIX), known, HINT)}"
        for name in names
        if not _is_known(name, texts)
    ]


def _is_known(name: str, texts: Collection[str]) -> bool:
    if name.startswith(FAMILIES) or name == FOR_UPGRADES:
        return True
    return not name.startswith(PREFIX) and (name in texts or PREFIX + name in texts)


def _classes(releases: Collection[Release]) -> Iterator[tuple[str, set[str]]]:
    """Yield the file name and the texts of each class in the releases' own jars."""
    jars = [jar for release in releases for jar in release.classpath if SERVER_JAR.fullmatch(jar.name)]
    for jar in jars:
        with zipfile.ZipFile(jar) as files:
            for file in files.namelist():
                if file.endswith(".class"):
                    yield file, texts_of(files.read(file))


def texts_of(class_file: bytes) -> set[str]:
    """Return the string constants of a class (Java Virtual Machine Specification, section 4.4)."""
    (count,) = struct.unpack_from(">H", class_file, 8)
    texts: dict[int, bytes] = {}
    strings = []
    index, at = 1, 10
    while index < count:
        tag, number = struct.unpack_from(">BH", class_file, at)
        if tag == UTF8:
            texts[index] = class_file[at + 3 : at + 3 + number]
            at += 3 + number
        else:
            at += SIZES.get(tag, 5)
        if tag == STRING:
            strings.append(number)
        index += 2 if tag in (LONG, DOUBLE) else 1
    return {texts[each].decode(errors="replace") for each in strings}
