"""Measures the cost of CURVE on a link: frames of 1 KiB and 64 KiB over loopback, plain against encrypted.

One process has a sending and a receiving thread, each with its own ZeroMQ context, PUSH to PULL, as between two nodes. Every
figure is the median of several rounds.
"""

import tempfile
import threading
import time
from pathlib import Path

import zmq

from benchmarks.figures import Figure, Scale, median
from zab_chaos.node.net import keys

SIZES = (1024, 64 * 1024)


def frames(folder: Path, scale: Scale) -> list[Figure]:
    """Return the frames per second over loopback, plain and encrypted."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".bench-") as place:
        pair = keys.create(Path(place) / "secret")
    figures = []
    for size in SIZES:
        for word, secret in (("plain", None), ("CURVE", pair)):
            rates = [throughput(secret, size, scale.frames_seconds) for _ in range(scale.rounds)]
            figures.append(median(f"{size // 1024} KiB {word}", "frames/s", rates))
    return figures


def throughput(pair: keys.Keys | None, size: int, seconds: float) -> float:
    """Return how many frames of `size` bytes are received per second, measured for about `seconds`."""
    with zmq.Context() as ours, zmq.Context() as theirs, ours.socket(zmq.PULL) as pull:
        if pair is not None:
            pair.server(pull)
        port = pull.bind_to_random_port("tcp://127.0.0.1")
        stop = threading.Event()
        sender = threading.Thread(target=_send, args=(theirs, port, pair, size, stop))
        sender.start()
        pull.recv()  # the handshake is over
        received, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            pull.recv()
            received += 1
        stop.set()
        sender.join()
    return received / elapsed


def _send(
    context: zmq.Context[zmq.Socket[bytes]], port: int, pair: keys.Keys | None, size: int, stop: threading.Event
) -> None:
    with context.socket(zmq.PUSH) as push:
        push.linger = 0
        if pair is not None:
            pair.client(push)
        push.connect(f"tcp://127.0.0.1:{port}")
        frame = bytes(size)
        while not stop.is_set():
            if push.poll(100, zmq.POLLOUT):
                push.send(frame)
