"""Builds and finds the image that nodes and toxiproxy run from.

Its tag is a digest of the code that a node executes, so that a run never uses nodes that were built from different code.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker.errors

from zab_chaos.harness.backends.containers.engine import EngineError, translate_errors
from zab_chaos.harness.backends.toxiproxy import server
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import checkout

NAME = "zab-chaos"
LATEST = f"{NAME}:latest"  # the tag in docker-compose.yml
PUBLIC_BASE = "python:3.11-slim"
LOCAL_BASE = "zab-base"  # built by `make base-image`
EXECUTED = ("node", "faults")  # the packages that a node imports; defects are in `faults`
ROOT = checkout.PACKAGE.parent
WHEEL_SECONDS = 300


class NoImage(EngineError):
    """The engine has no image of this code. The text names the command that builds it."""


def tag() -> str:
    """Return the image's name and tag for the current code."""
    digest = hashlib.sha256()
    for package in EXECUTED:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{NAME}:{digest.hexdigest()[:12]}"


def find(client: Any) -> Any:
    """Return the image of the current code. Raises NoImage, EngineError."""
    with translate_errors("looking for the image"):
        try:
            return client.images.get(tag())
        except docker.errors.ImageNotFound:
            older = client.images.list(NAME)
    why = "the one that is there was built from other code" if older else "it was not built yet"
    raise NoImage(f"there is no image {tag()} on the container engine: {why}. This builds it: zab image")


def choose_base(client: Any) -> str:
    """Return the local base image if `make base-image` has built one, else the public one."""
    with translate_errors("looking for a base image"):
        return LOCAL_BASE if client.images.list(LOCAL_BASE) else PUBLIC_BASE


def build(client: Any, base: str, on_step: Callable[[str], None]) -> Any:
    """Build the image on `base`, tag it and return it. `on_step` is called with the text of each step.

    Raises EngineError, HarnessError.
    """
    if not (ROOT / "Dockerfile").is_file():
        raise HarnessError("an image is built from a checkout, and this is an installed package: clone the repository")
    with tempfile.TemporaryDirectory(prefix="zab-image-") as folder:
        on_step("making the wheel")
        _prepare_context(Path(folder))
        _build(client, Path(folder), base, on_step)
    with translate_errors("naming the image"):
        image = client.images.get(tag())
        image.tag(LATEST)
    return image


def _prepare_context(folder: Path) -> None:
    """Put the files that the Dockerfile needs into a folder. Raises HarnessError."""
    for name in ("Dockerfile", "pyproject.toml", "constraints.txt"):
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


def _build(client: Any, folder: Path, base: str, on_step: Callable[[str], None]) -> None:
    last: list[str] = []
    with translate_errors("building the image"):
        for line in client.api.build(
            path=str(folder), tag=tag(), buildargs={"BASE": base}, rm=True, forcerm=True, decode=True
        ):
            if "error" in line:
                raise EngineError(_failure(line["error"], base, last))
            text = line.get("stream", "").strip()
            if text:
                last = [*last[-4:], text]
                if text.startswith("Step "):
                    on_step(text.splitlines()[0])


def _failure(error: str, base: str, last: list[str]) -> str:
    unreachable = ("pull access denied", "no such host", "dial tcp", "timeout", "manifest unknown", "not found")
    if any(sign in error for sign in unreachable) and not last[1:]:
        return (
            f"the base image {base} can't be fetched ({error}). If no image registry can be reached from here, "
            "`make base-image` (as root) makes one from Debian's packages; then again: zab image"
        )
    return "\n".join([f"building the image failed: {error}", *last])
