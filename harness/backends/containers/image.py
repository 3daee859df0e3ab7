"""The image that nodes and toxiproxy run from: built from this checkout, and found again by the code that is in it.

Its tag is a digest of what a node executes, so a run never meets nodes that were built from other code than its own.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker.errors

from zab_chaos.harness.backends.containers.engine import EngineError, translated
from zab_chaos.harness.backends.toxiproxy import server
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import checkout

NAME = "zab-chaos"
LATEST = f"{NAME}:latest"  # what docker-compose.yml names
PUBLIC_BASE = "python:3.11-slim"
LOCAL_BASE = "zab-base"  # what `make base-image` makes
EXECUTED = ("node", "faults")  # what a node's process imports; defects are in `faults`
ROOT = checkout.PACKAGE.parent
WHEEL_SECONDS = 300


class NoImage(EngineError):
    """The engine has no image of this code. The text says what builds it."""


def tag() -> str:
    """The image's name, for the code as it is now."""
    digest = hashlib.sha256()
    for package in EXECUTED:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{NAME}:{digest.hexdigest()[:12]}"


def find(client: Any) -> Any:
    """The image of this code. Raises NoImage, EngineError."""
    with translated("looking for the image"):
        try:
            return client.images.get(tag())
        except docker.errors.ImageNotFound:
            older = client.images.list(NAME)
    why = "the one that is there was built from other code" if older else "it was not built yet"
    raise NoImage(f"there is no image {tag()} on the container engine: {why}. This builds it: zab image")


def choose_base(client: Any) -> str:
    """The local base if `make base-image` has made one, else the public one."""
    with translated("looking for a base image"):
        return LOCAL_BASE if client.images.list(LOCAL_BASE) else PUBLIC_BASE


def build(client: Any, base: str, said: Callable[[str], None]) -> Any:
    """Build it on `base` and tag it; `said` hears each step. Raises EngineError, HarnessError."""
    if not (ROOT / "Dockerfile").is_file():
        raise HarnessError("an image is built from a checkout, and this is an installed package: clone the repository")
    with tempfile.TemporaryDirectory(prefix="zab-image-") as folder:
        said("making the wheel")
        lay_out(Path(folder))
        _build(client, Path(folder), base, said)
    with translated("naming the image"):
        image = client.images.get(tag())
        image.tag(LATEST)
    return image


def lay_out(folder: Path) -> None:
    """Put the build's context into `folder`: see Dockerfile. Raises HarnessError."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["containers"]]
    (folder / "requirements.txt").write_text("\n".join(needed) + "\n")
    for name in ("Dockerfile", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copy(server.locate(), folder / "toxiproxy-server")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    if importlib.util.find_spec("hatchling") is not None:
        command.append("--no-build-isolation")
    try:
        done = subprocess.run(
            [*command, "--wheel-dir", str(folder), str(ROOT)], capture_output=True, text=True, timeout=WHEEL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"the wheel was not built within {WHEEL_SECONDS} s") from None
    if done.returncode:
        raise HarnessError(f"the wheel could not be built: {done.stderr.strip()[-400:]}")


def _build(client: Any, folder: Path, base: str, said: Callable[[str], None]) -> None:
    last: list[str] = []
    with translated("building the image"):
        for line in client.api.build(
            path=str(folder), tag=tag(), buildargs={"BASE": base}, rm=True, forcerm=True, decode=True
        ):
            if "error" in line:
                raise EngineError(_failure(line["error"], base, last))
            words = line.get("stream", "").strip()
            if words:
                last = [*last[-4:], words]
                if words.startswith("Step "):
                    said(words.splitlines()[0])


def _failure(error: str, base: str, last: list[str]) -> str:
    unreachable = ("pull access denied", "no such host", "dial tcp", "timeout", "manifest unknown", "not found")
    if any(sign in error for sign in unreachable) and not last[1:]:
        return (
            f"the base image {base} can't be fetched ({error}). If no image registry can be reached from here, "
            "`make base-image` (as root) makes one from Debian's packages; then again: zab image"
        )
    return "\n".join([f"building the image failed: {error}", *last])
