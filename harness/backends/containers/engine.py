"""Connects to the container engine, and turns its errors into texts that say what to do."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors
import requests

from zab_chaos.harness.errors import HarnessError

STANDARD = "unix:///var/run/docker.sock"
ANSWER_SECONDS = 60  # for one request; a busy engine takes seconds to start a container
CONNECTIONS = 64  # one for each node, which waits for its end; the others are for commands


class EngineError(HarnessError):
    """The engine can't be used, or a request failed. The text names the remedy."""


def address() -> str:
    """Return DOCKER_HOST, or the address of an engine's standard socket."""
    return os.environ.get("DOCKER_HOST") or STANDARD


def connect(url: str | None = None) -> Any:
    """Return a `docker.DockerClient` whose engine has answered. The caller closes it. Raises EngineError."""
    url = url or address()
    path = _socket_path(url)
    _probe(path)
    with translate_errors("reaching the container engine"):
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


def _probe(path: str) -> None:
    """Raise an EngineError that says why the socket can't be used: the SDK has the same text for all of these cases."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(path)
    except FileNotFoundError:
        if shutil.which("dockerd"):
            remedy = "An engine is installed; start it (as root): systemctl start docker, or .ci/engine start FOLDER"
        else:
            remedy = "Install one (Debian, as root): apt-get install -y docker.io"
        raise EngineError(
            f"there is no container engine at {path}. {remedy}. Or name another's socket: "
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
def translate_errors(doing: str) -> Iterator[None]:
    """Raise the engine's errors as EngineError. `doing` begins the text: what was being done."""
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineError(f"{doing}: {with_remedy(str(error.explanation or error))}") from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise EngineError(f"{doing}: the container engine does not answer ({error}). Is it still running?") from error


def with_remedy(message: str) -> str:
    """Return an engine's message, and after it the remedy if one is known."""
    for part, remedy in _REMEDIES:
        if part in message.lower():
            return f"{message}. {remedy}"
    return message


_REMEDIES = (
    ("no space left", "The engine's disk is full: `docker system df` shows by what; `zab clean` removes old runs'"),
    ("quota", "The engine's disk is full: `docker system df` shows by what; `zab clean` removes old runs'"),
    ("is already in use by container", "Another container has that name; remove it, or `zab clean` if it was a run's"),
    ("no such image", "`zab image` builds it"),
    ("port is already allocated", "Another program listens there; `docker ps` and `ss -ltnp` name it"),
    ("address already in use", "Another program listens there; `docker ps` and `ss -ltnp` name it"),
    ("could not find an available", "The engine has no addresses left for a network; `zab clean` removes old runs'"),
)
