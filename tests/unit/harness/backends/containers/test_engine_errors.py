"""Errors of the container engine: each message names the remedy, and there is never a traceback."""

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.harness.backends.containers.fake_engine import Answer, fake_engine
from zab_chaos.harness.backends.containers import engine, image
from zab_chaos.harness.backends.containers.resources import EngineResources
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.results.run_folder import RunFolder, create


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a short path that all users can access: a socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="zab-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def run_on_containers(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("DOCKER_HOST", host)
    return main(["run", "power-outage", "--on", "containers", "--results", str(tmp_path / "results")])


def test_a_missing_engine_is_named_with_what_installs_or_starts_one(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_on_containers(f"unix://{place}/none.sock", tmp_path, monkeypatch) == 3
    told = capsys.readouterr().err
    assert f"there is no container engine at {place}/none.sock" in told
    assert "apt-get install -y docker.io" in told or "systemctl start docker" in told
    assert "Traceback" not in told
    assert not (tmp_path / "results").exists()  # nothing was begun


@pytest.mark.parametrize("command", ["image", "clean"])
def test_other_commands_that_need_an_engine_say_so_too(
    command: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}/none.sock")
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 3
    assert f"there is no container engine at {place}/none.sock" in capsys.readouterr().err


def test_a_stopped_engine_is_distinguished_from_a_missing_one(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{place}/left.sock")
    assert run_on_containers(f"unix://{place}/left.sock", tmp_path, monkeypatch) == 3
    assert "is stopped: its socket is there, and nobody listens" in capsys.readouterr().err


def test_a_permission_error_names_the_group(place: Path) -> None:
    """A process without the permission connects."""
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(f"{place}/theirs.sock")
        theirs.listen()
        (place / "theirs.sock").chmod(0o000)
        asking = (
            "import os; from zab_chaos.harness.backends.containers import engine; os.getuid() or os.seteuid(65534); "
            f"engine.connect('unix://{place}/theirs.sock')"
        )
        root = Path(__file__).parents[5]
        done = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True, cwd=root)
    assert "you have no permission for the container engine's socket" in done.stderr
    assert "usermod -aG docker" in done.stderr


def test_an_engine_on_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_on_containers("tcp://10.0.0.1:2375", tmp_path, monkeypatch) == 3
    assert "may be on another machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("there", "why"), [([], "it was not built yet"), ([{"Id": "sha256:1"}], "was built from other code")]
)
def test_a_missing_image_names_the_command_that_builds_it(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    there: list[dict[str, str]],
    why: str,
) -> None:
    answers: dict[str, Answer] = {
        f"GET /images/{image.tag()}/json": (404, {"message": f"No such image: {image.tag()}"}),
        "GET /images/json": (200, there),
        "GET /images/sha256:1/json": (200, {"Id": "sha256:1"}),
    }
    with fake_engine(place / "s", answers) as host:
        assert run_on_containers(host, tmp_path, monkeypatch) == 3
    told = capsys.readouterr().err
    assert "zab image" in told
    assert why in told


@pytest.mark.parametrize(
    ("request_line", "answer", "told"),
    [
        (
            "POST /volumes/create",
            (500, {"message": "mkdir /var/lib/docker/volumes/x: no space left on device"}),
            "docker system df",
        ),
        (
            "POST /containers/create",
            (409, {"message": 'Conflict. The container name "/zab-1" is already in use by container "ab".'}),
            "Another container has that name; remove it, or `zab clean`",
        ),
    ],
)
def test_errors_for_a_full_disk_and_a_taken_name_have_a_remedy(
    place: Path, tmp_path: Path, request_line: str, answer: Answer, told: str
) -> None:
    folder = create(tmp_path, "any", 1)
    answers = {"POST /volumes/create": (201, {"Name": "v"}), "GET /volumes/v": (200, {"Name": "v"})}
    with (
        fake_engine(place / "s", {**answers, request_line: answer}) as host,
        contextlib.closing(engine.connect(host)) as client,
        pytest.raises(engine.EngineError) as error,
    ):
        created(EngineResources(client, "zab-chaos", folder), folder)
    assert told in str(error.value)


def created(resources: EngineResources, folder: RunFolder) -> None:
    class Network:
        name = "access"

    resources.access = Network()
    resources.create("node-1", ["true"], folder.file("log", "x"), {}, disk="node-1")


def test_a_lost_connection_to_the_engine_is_an_engine_error(place: Path) -> None:
    with (
        fake_engine(place / "s", {"GET /containers/json": None}) as host,
        contextlib.closing(engine.connect(host)) as client,
        pytest.raises(engine.EngineError, match="looking: the container engine does not answer"),
        engine.translate_errors("looking"),
    ):
        client.containers.list()
