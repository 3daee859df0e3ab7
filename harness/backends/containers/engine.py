"""The container engine: reaching it, and its errors in words that say what to do."""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors
import requests

from zab_chaos.harness.errors import HarnessError

STANDARD = "unix:///var/run/docker.sock"
ANSWER_SECONDS = 60  # for one request; a busy engine takes seconds to start a container
CONNECTIONS = 64  # one waits for the end of each node, the others give commands


class EngineError(HarnessError):
    """The engine can't be used, or did not do what was asked. The text says what mends it."""


def address(environment: Mapping[str, str] = os.environ) -> str:
    """DOCKER_HOST, or the socket at which an engine listens if nobody says otherwise."""
    return environment.get("DOCKER_HOST") or STANDARD


def connect(url: str | None = None) -> Any:
    """A `docker.DockerClient` whose engine has answered. Close it. Raises EngineError."""
    url = url or address()
    path = _socket_path(url)
    _knock(path)
    with translated("reaching the container engine"):
        client = docker.DockerClient(
            base_url=url, version="auto", timeout=ANSWER_SECONDS, max_pool_size=CONNECTIONS, use_ssh_client=False
        )
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
    return client


def _socket_path(url: str) -> str:
    if url.startswith("unix://"):
        return url.removeprefix("unix://")
    raise EngineError(
        f"DOCKER_HOST is {url}: that engine may be on another machine, but the nodes write into the run's folder on this "
        "one. Name an engine's socket here: export DOCKER_HOST=unix:///path/to/docker.sock"
    )


def _knock(path: str) -> None:
    """Look who is behind the socket: the SDK's own words for all of these are the same."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(path)
    except FileNotFoundError:
        if shutil.which("dockerd"):
            mend = "An engine is installed; start it (as root): systemctl start docker, or .ci/engine start FOLDER"
        else:
            mend = "Install one (Debian, as root): apt-get install -y docker.io"
        raise EngineError(
            f"there is no container engine at {path}. {mend}. Or name another's socket: "
            "export DOCKER_HOST=unix:///path/to/docker.sock"
        ) from None
    except ConnectionRefusedError:
        raise EngineError(
            f"the container engine at {path} is stopped: its socket is there, and nobody listens. "
            "Start it (as root): systemctl start docker"
        ) from None
    except PermissionError:
        raise EngineError(
            f"you have no permission for the container engine's socket {path}. Join the group that owns it and log in "
            "anew: sudo usermod -aG docker $USER"
        ) from None
    except OSError as error:
        raise EngineError(f"the container engine's socket {path} can't be used: {error.strerror or error}") from None


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """The engine's errors as EngineError. `doing` says at what it happened."""
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineError(f"{doing}: {in_words(str(error.explanation or error))}") from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise EngineError(f"{doing}: the container engine does not answer ({error}). Is it still running?") from error


def in_words(said: str) -> str:
    """What an engine said, with what mends it where that is known."""
    for sign, mend in _MENDS:
        if sign in said.lower():
            return f"{said}. {mend}"
    return said


_MENDS = (
    ("no space left", "The engine's disk is full: `docker system df` shows by what; `zab clean` removes old runs'"),
    ("quota", "The engine's disk is full: `docker system df` shows by what; `zab clean` removes old runs'"),
    ("is already in use by container", "Another container has that name; remove it, or `zab clean` if it was a run's"),
    ("no such image", "`zab image` builds it"),
    ("port is already allocated", "Another program listens there; `docker ps` and `ss -ltnp` name it"),
    ("address already in use", "Another program listens there; `docker ps` and `ss -ltnp` name it"),
    ("could not find an available", "The engine has no addresses left for a network; `zab clean` removes old runs'"),
)
