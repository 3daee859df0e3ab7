"""The real toxiproxy: what a cut does to bytes, what healing brings back, and what the wrapper catches."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from zab_chaos.faults import tcp_signature, toxiproxy_client
from zab_chaos.faults.network import MissingError, Network, NetworkError, ReadBackError, Toxic, WedgedError
from zab_chaos.faults.toxiproxy_client import ToxiproxyClient
from zab_chaos.harness.backends.toxiproxy.port_protection import protect
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyError, ToxiproxyServer, last_words, locate
from zab_chaos.harness.machine.ports import free_ports, lock_files, release_ports
from zab_chaos.harness.machine.waiting import wait_until

pytestmark = pytest.mark.toxiproxy

PATIENCE = 10.0  # for what must happen
SILENCE = 0.3  # for what must not: long against the microseconds that a byte takes on loopback


@pytest.fixture(scope="module")
def binary() -> Path:
    return locate()


@pytest.fixture(scope="module")
def server(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToxiproxyServer]:
    with ToxiproxyServer(binary, tmp_path_factory.mktemp("toxiproxy") / "toxiproxy.log") as running:
        yield running


class Pair:
    """Two nodes in miniature: each listens, and reaches the other through the proxy of its direction."""

    def __init__(self, server: ToxiproxyServer) -> None:
        self.ports = free_ports(2)
        self.listeners = {node: socket.create_server(("127.0.0.1", 0)) for node in (1, 2)}
        self.network = Network(server.client)
        self.proxy = dict(zip([(1, 2), (2, 1)], self.ports, strict=True))
        self.network.create_links(
            {
                pair: (f"127.0.0.1:{port}", f"127.0.0.1:{self.listeners[pair[1]].getsockname()[1]}")
                for pair, port in self.proxy.items()
            }
        )
        self.open: list[socket.socket] = []

    def connect(self, pair: tuple[int, int]) -> tuple[socket.socket, socket.socket]:
        """(the sender's end, the receiver's end) of a connection from pair[0] to pair[1]."""
        sender = socket.create_connection(("127.0.0.1", self.proxy[pair]), PATIENCE)
        self.listeners[pair[1]].settimeout(PATIENCE)
        receiver, _ = self.listeners[pair[1]].accept()
        receiver.settimeout(PATIENCE)
        self.open += [sender, receiver]
        return sender, receiver

    def close(self) -> None:
        for one in [*self.open, *self.listeners.values()]:
            one.close()
        self.network.close()
        release_ports(self.ports)


@pytest.fixture
def pair(server: ToxiproxyServer) -> Iterator[Pair]:
    made = Pair(server)
    yield made
    made.close()


def take(receiver: socket.socket, count: int) -> bytes:
    """Exactly so many bytes."""
    data = b""
    while len(data) < count:
        chunk = receiver.recv(count - len(data))
        assert chunk, f"closed after {len(data)} of {count} bytes"
        data += chunk
    return data


def is_silent(receiver: socket.socket) -> bool:
    """Nothing arrives, neither now nor before the connection's end, if that has come."""
    receiver.settimeout(SILENCE)
    try:
        return receiver.recv(1) == b""
    except (TimeoutError, ConnectionResetError):
        return True
    finally:
        receiver.settimeout(PATIENCE)


def is_closed(receiver: socket.socket) -> bool:
    """Closed within the patience; bytes on the way are passed over."""
    try:
        while receiver.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return True


def test_a_one_way_cut_drops_silently_on_the_open_connection_and_heals(pair: Pair) -> None:
    sender, receiver = pair.connect((1, 2))
    other_sender, other_receiver = pair.connect((2, 1))
    sender.sendall(b"before")
    assert take(receiver, 6) == b"before"

    pair.network.cut([(1, 2)])
    sender.sendall(b"lost")
    assert is_silent(receiver)
    other_sender.sendall(b"heard")
    assert take(other_receiver, 5) == b"heard"
    fresh, fresh_receiver = pair.connect((1, 2))
    fresh.sendall(b"lost too")
    assert is_silent(fresh_receiver), "connections that are opened during the cut are cut as well"

    pair.network.heal([(1, 2)])
    assert is_closed(receiver), "the healing closes the old connections"
    again, receiver_again = pair.connect((1, 2))
    again.sendall(b"after")
    assert take(receiver_again, 5) == b"after"
    assert pair.network.broken() == {}
    assert pair.network.toxics((1, 2)) == []


def test_a_stall_loses_nothing_and_releases_in_order(pair: Pair) -> None:
    sender, receiver = pair.connect((1, 2))
    pair.network.cut([(1, 2)], "stall")
    message = bytes(range(256)) * 400
    sender.sendall(message)
    assert is_silent(receiver)
    pair.network.heal([(1, 2)], release=True)
    assert take(receiver, len(message)) == message


def test_a_stall_holds_while_another_effect_comes_and_goes(pair: Pair) -> None:
    """A toxic that is put behind the stall, or taken away from there, wakes it: then it lets go of what it holds."""
    sender, receiver = pair.connect((1, 2))
    pair.network.cut([(1, 2)], "stall")
    sender.sendall(b"held")
    assert is_silent(receiver)
    pair.network.disturb([(1, 2)], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 1)))], "slow")
    assert is_silent(receiver)
    sender, receiver = pair.connect((1, 2))
    sender.sendall(b"held")
    assert is_silent(receiver)
    pair.network.cut([(1, 2)], "timeout", "other")
    pair.network.heal([(1, 2)], "other")
    assert is_silent(receiver)


def test_disabling_closes_and_refuses_and_comes_back_on_the_same_port(pair: Pair) -> None:
    _, receiver = pair.connect((1, 2))
    pair.network.cut([(1, 2)], "disable")
    assert is_closed(receiver)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", pair.proxy[1, 2]), PATIENCE)
    pair.network.heal([(1, 2)])
    sender, receiver = pair.connect((1, 2))
    sender.sendall(b"x")
    assert take(receiver, 1) == b"x"


def test_effects_are_healed_apart(pair: Pair) -> None:
    pair.network.disturb([(1, 2)], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 1)))], "slow")
    pair.network.cut([(1, 2)], "timeout", "cut-a")
    pair.network.cut([(1, 2)], "timeout", "cut-b")
    pair.network.heal([(1, 2)], "slow")
    pair.network.heal([(1, 2)], "cut-a")
    assert pair.network.broken() == {(1, 2): ["cut-b"]}
    sender, receiver = pair.connect((1, 2))
    sender.sendall(b"x")
    assert is_silent(receiver)
    pair.network.heal([(1, 2)], "cut-b")
    pair.network.heal([(1, 2)], "cut-b")
    sender, receiver = pair.connect((1, 2))
    sender.sendall(b"y")
    assert take(receiver, 1) == b"y"


def test_a_connection_that_closes_slowly_does_not_end_the_server(pair: Pair, server: ToxiproxyServer) -> None:
    """The server panicked: removing a `timeout` toxic closes its connection, and until that is over the server has more
    parts for the connection than toxics. A new toxic was looked up under the number of the last part."""
    pair.connect((1, 2))
    pair.network.cut([(1, 2)], name="first")
    pair.network.cut([(1, 2)], name="second")
    pair.network.disturb([(1, 2)], [Toxic("slow_close", "upstream", (("delay", 5000),))], "third")
    pair.network.heal([(1, 2)], "first", release=True)
    pair.network.heal([(1, 2)], "second", release=True)
    pair.network.disturb([(1, 2)], [Toxic("latency", "upstream", (("latency", 1), ("jitter", 0)))], "fourth")
    assert not server.gone()
    pair.network.heal_all()


def test_healing_everything_leaves_nothing_on_any_link(pair: Pair) -> None:
    pair.network.cut([(1, 2)], "disable")
    pair.network.cut([(2, 1)], "stall")
    pair.network.heal_all()
    for one in ((1, 2), (2, 1)):
        assert pair.network.toxics(one) == []
        sender, receiver = pair.connect(one)
        sender.sendall(b"x")
        assert take(receiver, 1) == b"x"


def test_links_heal_while_a_peer_dies_with_full_pipes(server: ToxiproxyServer) -> None:
    """Where removing a latency toxic wedges the server, deleting and recreating does not."""
    network = Network(server.client)
    (port,) = ports = free_ports(1)
    listen_and_never_read = (
        "import socket,sys; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True); "
        "kept=[]\nwhile True: kept.append(s.accept())"
    )
    try:
        for turn in range(6):
            peer = subprocess.Popen([sys.executable, "-c", listen_and_never_read], stdout=subprocess.PIPE, text=True)
            assert peer.stdout is not None
            upstream = f"127.0.0.1:{peer.stdout.readline().strip()}"
            pair = (1, turn + 2)
            network.create_links({pair: (f"127.0.0.1:{port}", upstream)})
            network.disturb([pair], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 20)))], "slow")
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as sender:
                flood = threading.Thread(target=_fill, args=(sender,))
                flood.start()
                killer = threading.Thread(target=peer.kill)
                killer.start()
                network.heal([pair], "slow")
                assert network.toxics(pair) == []
                killer.join()
            flood.join()
            peer.wait()
            peer.stdout.close()
            network.close()
    finally:
        network.close()
        release_ports(ports)


def _fill(sender: socket.socket) -> None:
    sender.settimeout(0.5)
    try:
        for _ in range(64):
            sender.sendall(bytes(65536))
    except OSError:
        return


def test_an_attribute_that_the_server_does_not_know_is_noticed(pair: Pair) -> None:
    with pytest.raises(ReadBackError, match="latncy"):
        pair.network.disturb([(1, 2)], [Toxic("latency", "upstream", (("latncy", 5),))], "typo")
    assert pair.network.toxics((1, 2)) == []


def test_a_negative_bandwidth_never_reaches_the_server(pair: Pair, server: ToxiproxyServer) -> None:
    with pytest.raises(NetworkError, match="would end"):
        pair.network.disturb([(1, 2)], [Toxic("bandwidth", "upstream", (("rate", -1),))], "x")
    assert server.process.poll() is None


def test_the_wrappers_errors_say_what_happened(pair: Pair, server: ToxiproxyServer) -> None:
    there = server.client
    with pytest.raises(NetworkError, match="has it already"):
        there.create("1-2", "127.0.0.1:0", "127.0.0.1:9", enabled=False)
    with pytest.raises(MissingError):
        there.toxics("9-9")
    with pytest.raises(NetworkError, match="refuses"):
        there.add("1-2", "x", "no-such-toxic", "upstream", {})
    with pytest.raises(NetworkError, match="500"):
        there.create("taken", f"127.0.0.1:{pair.proxy[1, 2]}", "127.0.0.1:9")
    with pytest.raises(NetworkError, match="no way to cut"):
        pair.network.cut([(1, 2)], "scissors")
    with pytest.raises(NetworkError, match="no link 3-4"):
        pair.network.cut([(3, 4)])
    assert {"1-2", "2-1"} <= there.states().keys()


def test_a_server_that_does_not_answer_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy_client, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(WedgedError, match=r"within 0\.2 s"):
            ToxiproxyClient(address).states()
    with pytest.raises(NetworkError, match="can't be reached"):
        ToxiproxyClient(address).states()


def test_a_server_that_hangs_is_asked_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the end of the run does not wait for each of its links."""
    monkeypatch.setattr(toxiproxy_client, "SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        network = Network(ToxiproxyClient(f"127.0.0.1:{mute.getsockname()[1]}"))
        for _ in range(toxiproxy_client.HANGS):
            assert not network.hangs
            with pytest.raises(WedgedError, match="did not answer"):
                network._proxies.states()
        assert network.hangs
        with pytest.raises(WedgedError, match="toxiproxy hangs"):
            network._proxies.states()


def test_an_answer_shows_that_the_server_does_not_hang(pair: Pair) -> None:
    pair.network._proxies._requests.unanswered = toxiproxy_client.HANGS - 1
    pair.network._proxies.states()
    assert pair.network._proxies._requests.unanswered == 0


def test_a_web_proxy_of_the_environment_is_not_asked(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert pair.network.toxics((1, 2)) == []


def test_the_server_listens_here_only_and_stops(binary: Path, tmp_path: Path) -> None:
    with ToxiproxyServer(binary, tmp_path / "toxiproxy.log") as server:
        assert server.version == "2.12.0"
        assert 0 < server.port < 32768
        listening = [c.laddr for c in psutil.Process(server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
        assert [address.ip for address in listening] == ["127.0.0.1"]
        assert os.getpgid(server.pid) == server.pid  # Ctrl-C does not reach it
        assert server.port in {int(path.stem) for path in lock_files()}
    assert not psutil.pid_exists(server.pid)
    assert server.port not in {int(path.stem) for path in lock_files()}
    server.stop()


def test_a_server_that_does_not_end_when_it_is_asked_to_is_killed(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.backends.toxiproxy.server.STOP_SECONDS", 0.05)
    with ToxiproxyServer(binary, tmp_path / "toxiproxy.log") as server:
        server.process.send_signal(signal.SIGSTOP)
    assert server.process.returncode == -signal.SIGKILL


def test_nobody_talks_to_the_server_without_its_key(pair: Pair, server: ToxiproxyServer) -> None:
    """Neither connection is refused: an unsigned segment is not answered at all."""
    assert server.key is not None
    for key in (None, bytes(len(server.key))):
        with socket.socket() as stranger:
            stranger.settimeout(SILENCE)
            if key is not None:
                stranger.setsockopt(*tcp_signature.option(key))
            with pytest.raises(TimeoutError):
                stranger.connect(("127.0.0.1", server.port))
    assert server.client.states().keys() == {"1-2", "2-1"}


def test_who_was_there_before_the_key_is_cut_off() -> None:
    child = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "c = s.accept(); print('taken', flush=True); input()"
    )
    taker = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert taker.stdout is not None
    try:
        port = int(taker.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as early:
            assert taker.stdout.readline() == "taken\n"
            assert protect(taker.pid, port) is not None
            assert early.recv(1) == b""
    finally:
        taker.communicate("\n")


def test_the_server_has_none_of_roots_rights(pair: Pair, server: ToxiproxyServer) -> None:
    """Only root may empty the bounding set, the most that a program could gain; who gains no privileges can't use it."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    sets = {"CapInh", "CapPrm", "CapEff", "CapAmb"} | ({"CapBnd"} if os.geteuid() == 0 else set())
    assert {status[name] for name in sets} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"


def test_what_somebody_else_does_to_a_link_is_found(pair: Pair, server: ToxiproxyServer) -> None:
    """By whoever has the key, as by anybody where the kernel knows no signatures."""
    pair.network.cut([(2, 1)], name="ours")
    pair.network.disturb([(1, 2)], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 1)))], "slow")
    pair.network.compare()
    assert pair.network.take_foreign_changes() == []
    stranger = server.client
    stranger.disable("1-2")
    pair.network.heal([(2, 1)], "ours")
    assert pair.network.take_foreign_changes() == ["link 1-2: enabled is False and was asked to be True"]
    pair.network.heal_all()
    sender, receiver = pair.connect((1, 2))
    sender.sendall(b"again")
    assert take(receiver, 5) == b"again"


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "toxiproxy-server"
    broken.write_text("#!/bin/sh\necho no luck today\nexit 7\n")
    broken.chmod(0o755)
    with pytest.raises(ToxiproxyError, match=r"exit code 7 .*no luck today"):
        ToxiproxyServer(broken, tmp_path / "log")


def test_the_server_dies_with_a_harness_that_is_killed(binary: Path, tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib, time\n"
            "from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyServer\n"
            "server = ToxiproxyServer(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))\n"
            "print(server.pid, flush=True)\n"
            "time.sleep(120)\n",
            str(binary),
            str(tmp_path / "log"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert harness.stdout is not None
        server = psutil.Process(int(harness.stdout.readline()))
    finally:
        harness.kill()
        harness.wait()
        assert harness.stdout is not None
        harness.stdout.close()
    server.wait(PATIENCE)


def test_a_server_that_fails_says_why_and_is_not_waited_for(binary: Path, tmp_path: Path) -> None:
    """A negative bandwidth, which `Network` refuses, ends the server when bytes pass."""
    with ToxiproxyServer(binary, tmp_path / "toxiproxy.log") as server:
        pair = Pair(server)
        with tcp_signature.session(server.key) as session:
            toxic = {"type": "bandwidth", "stream": "upstream", "attributes": {"rate": -1}}
            assert session.post(f"http://{server.address}/proxies/1-2/toxics", json=toxic, timeout=PATIENCE).ok
        sender, _ = pair.connect((1, 2))
        sender.sendall(b"x" * 1000)
        assert wait_until(server.gone, PATIENCE)
        assert last_words(server.code, tmp_path / "toxiproxy.log").startswith("exit code 2 (panic: ")
        network = Network(server.client)
        with pytest.raises(NetworkError, match="toxiproxy has ended"):
            network.create_links({(1, 2): ("127.0.0.1:1", "127.0.0.1:1")})
        for end in (*pair.open, *pair.listeners.values()):
            end.close()
        release_ports(pair.ports)
