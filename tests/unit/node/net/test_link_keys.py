"""The run's key file: its permissions, its error messages, and that no handshake succeeds without it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.unit.node.net.conftest import send_unless_turned_away
from zab_chaos.node.net import keys
from zab_chaos.node.net.keys import KeyFileError, Keys


def test_a_created_file_is_private_and_loads_as_the_same_pair(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    umask = os.umask(0)
    try:
        made = keys.create(path)
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys.load(path) == made
    assert keys.create(tmp_path / "other") != made
    assert made.secret.decode() not in repr(made)


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = keys.create(path)
    with pytest.raises(KeyFileError, match="exists already"):
        keys.create(path)
    assert keys.load(path) == made


def test_errors_of_key_files_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"missing: the key file cannot be read: No such file"):
        keys.load(tmp_path / "missing")
    with pytest.raises(KeyFileError, match="cannot be written: No such file"):
        keys.create(tmp_path / "no-folder" / "secret")
    path = tmp_path / "secret"
    keys.create(path)
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match=r"others can read it \(mode 0640\)"):
        keys.load(path)


@pytest.mark.parametrize("change", ["empty", "binary", "list", "half", "short", "foreign"])
def test_invalid_key_pairs_are_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "secret"
    pair = keys.create(path)
    other = zmq.curve_keypair()[0].decode()
    text = {
        "empty": b"",
        "binary": b"\xff\x00" * 40,
        "list": b"[1, 2]",
        "half": json.dumps({"public": pair.public.decode()}).encode(),
        "short": json.dumps({"public": pair.public.decode(), "secret": "abc"}).encode(),
        "foreign": json.dumps({"public": other, "secret": pair.secret.decode()}).encode(),
    }[change]
    path.write_bytes(text)
    with pytest.raises(KeyFileError, match="holds no CURVE key pair"):
        keys.load(path)


@pytest.fixture
def wires(tmp_path: Path) -> Any:
    """A listening socket of a run, and its keys."""
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pair = keys.create(tmp_path / "secret")
        pair.server(pull)
        monitor = pull.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        port = pull.bind_to_random_port("tcp://127.0.0.1")
        yield context, pair, pull, monitor, port
        pull.disable_monitor()
        monitor.close()


def call(context: zmq.Context[Any], port: int, pair: Keys | None) -> zmq.Socket[Any]:
    push = context.socket(zmq.PUSH)
    push.linger = 0
    if pair is not None:
        pair.client(push)
    push.connect(f"tcp://127.0.0.1:{port}")
    send_unless_turned_away(push, b"let me in")
    return push


def test_the_key_holder_completes_the_handshake(wires: Any) -> None:
    context, pair, pull, _, port = wires
    with call(context, port, pair):
        assert pull.poll(20_000)
        assert pull.recv() == b"let me in"


@pytest.mark.parametrize("other", ["no key", "another run's key"])
def test_a_caller_without_the_key_cannot_complete_a_handshake(wires: Any, other: str) -> None:
    context, _, pull, monitor, port = wires
    with call(context, port, None if other == "no key" else Keys(*zmq.curve_keypair())):
        assert monitor.poll(20_000)
        event = zmq.utils.monitor.recv_monitor_message(monitor)["event"]
        assert event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        assert not pull.poll(0)
