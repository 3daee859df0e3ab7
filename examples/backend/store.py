"""A replicated key-value store: atomic registers by quorums (Attiya, Bar-Noy, Dolev, 1995), one process a node.

    python store.py --node 1 --listen HOST:PORT --client HOST:PORT --data DIR --peer 2=HOST:PORT --peer 3=HOST:PORT

The node that a client asks coordinates the request. A write asks a majority for the highest stamp, and stores the value with a
higher stamp at a majority. A read asks a majority, and stores the newest value at a majority before it returns it. A replica
syncs a value before it confirms that it has stored it. Messages are lines of JSON. A node sends over connections that it opens,
and receives over those that the others open.
"""

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import signal
import zlib
from collections import defaultdict
from pathlib import Path

RETRY_SECONDS = 0.2  # after which replicas that have not answered are asked, and lost connections opened, again
MAJORITY_SECONDS = 2.0  # for a majority to answer
UNWRITTEN = [[0, 0], None]  # stamp and value of a key before the first write


class NoMajority(Exception):
    """Fewer than a majority of the replicas answered in time."""


class Replica:
    """The values that one node has stored, in memory and in a file: [stamp, value] by key.

    Each line of the file begins with a checksum of its rest: that of this release. A node reads the lines of older releases,
    too. It does not start with a file that is damaged, for which it takes one of a newer release.
    """

    def __init__(self, folder: Path, syncs: bool, release: int) -> None:
        self.entries: dict[str, list] = {}
        self.syncs = syncs
        self.checksums = CHECKSUMS[:release]
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        content = (folder / "log").read_bytes()
        end = content.rfind(b"\n") + 1  # an incomplete last line was never confirmed
        os.ftruncate(self._file, end)
        for number, line in enumerate(content[:end].split(b"\n")[:-1], 1):
            checksum, _, rest = line.partition(b" ")
            if checksum not in (checksum_of(rest) for checksum_of in self.checksums):
                raise SystemExit(f"line {number} of {folder / 'log'} is damaged")
            key, entry = json.loads(rest)
            self.entries[key] = entry

    def get(self, key: str) -> list:
        return self.entries.get(key, UNWRITTEN)

    def store(self, key: str, entry: list) -> None:
        if entry[0] > self.get(key)[0]:
            rest = json.dumps([key, entry]).encode()
            os.write(self._file, self.checksums[-1](rest) + b" " + rest + b"\n")
            if self.syncs:
                os.fsync(self._file)
            self.entries[key] = entry


CHECKSUMS = (  # of release 1 and of release 2
    lambda line: b"%08x" % zlib.crc32(line),
    lambda line: hashlib.blake2b(line, digest_size=8).hexdigest().encode(),
)


class Node:
    """A node: a replica, and a coordinator of clients' requests. Three bugs can be switched on.

    `early_ack`: a write is confirmed when only this node has it. `no_write_back`: a read returns the newest value that it
    found, whether or not a majority has it. `no_fsync`: a replica confirms values that are only in the kernel's memory.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.id = options.node
        self.peers: dict[int, str] = dict(options.peer)
        self.replica = Replica(options.data, syncs=not options.no_fsync, release=options.release)
        self.early_ack, self.no_write_back = options.early_ack, options.no_write_back
        self.numbers = itertools.count(1)
        self.answers: dict[int, dict[int, object]] = defaultdict(dict)  # by the number of the request, then by replica
        self.answer_arrived = asyncio.Condition()
        self.outgoing: dict[int, asyncio.Queue] = {peer: asyncio.Queue(1000) for peer in self.peers}
        self.writing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.background: set[asyncio.Task] = set()
        self.life = os.getpid()  # to recognize answers to requests of an earlier life

    # ---- messages between nodes ----

    def send(self, peer: int, message: dict) -> None:
        if not self.outgoing[peer].full():
            self.outgoing[peer].put_nowait(message | {"from": self.id})

    async def keep_sending(self, peer: int) -> None:
        """Connect to a peer and send it messages; connect again when the connection is lost."""
        host, _, port = self.peers[peer].rpartition(":")
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host, int(port))
                gone = asyncio.create_task(
                    reader.read()
                )  # the peer sends nothing here, so this returns when the connection ends
                while not gone.done():
                    getting = asyncio.create_task(self.outgoing[peer].get())
                    await asyncio.wait({getting, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not getting.done():
                        getting.cancel()
                        break
                    writer.write(json.dumps(getting.result()).encode() + b"\n")
                    await writer.drain()
                writer.close()
            await asyncio.sleep(RETRY_SECONDS)

    async def serve_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle the messages on the connection of a peer."""
        async for line in lines_of(reader):
            message = json.loads(line)
            peer = message["from"]
            if message["type"] == "answer":
                if message["life"] == self.life and message["number"] in self.answers:
                    await self.add_answer(message["number"], peer, message["found"])
            else:
                answer = {"type": "answer", "found": self.handle(message)}
                self.send(peer, {"number": message["number"], "life": message["life"]} | answer)
        writer.close()

    def handle(self, message: dict) -> list | None:
        """Read or store a value in this node's replica."""
        if message["type"] == "ask":
            return self.replica.get(message["key"])
        return self.replica.store(message["key"], message["found"])

    async def add_answer(self, number: int, replica: int, answer: object) -> None:
        self.answers[number][replica] = answer
        async with self.answer_arrived:
            self.answer_arrived.notify_all()

    async def ask_majority(self, message: dict) -> list:
        """Send a message to all replicas, this node's own included, and return the answers of a majority. Raises NoMajority."""
        number = next(self.numbers)
        message = message | {"number": number, "life": self.life}
        answers = self.answers[number]
        await self.add_answer(number, self.id, self.handle(message))
        enough, clock = (len(self.peers) + 1) // 2 + 1, asyncio.get_running_loop().time
        end = clock() + MAJORITY_SECONDS
        try:
            while len(answers) < enough:
                if clock() > end:
                    raise NoMajority
                for peer in self.peers.keys() - answers.keys():
                    self.send(peer, message)
                async with self.answer_arrived:
                    try:
                        arrived = self.answer_arrived.wait_for(lambda: len(answers) >= enough)
                        await asyncio.wait_for(arrived, RETRY_SECONDS)
                    except TimeoutError:
                        continue
            return list(answers.values())
        finally:
            del self.answers[number]

    # ---- requests of clients ----

    async def get(self, key: str) -> str | None:
        entries = await self.ask_majority({"type": "ask", "key": key})
        newest = max(entries, key=lambda entry: entry[0])
        if not self.no_write_back and any(entry[0] != newest[0] for entry in entries):
            await self.ask_majority({"type": "store", "key": key, "found": newest})
        return newest[1]

    async def set(self, key: str, value: str) -> None:
        async with self.writing[key]:  # two writes of one node must not choose the same stamp
            if self.early_ack:  # the bug: only this node's replica is asked, and the others are not waited for
                entry = [[self.replica.get(key)[0][0] + 1, self.id], value]
                self.replica.store(key, entry)
                self.background.add(asyncio.create_task(self.replicate(key, entry)))
                return
            newest = max((await self.ask_majority({"type": "ask", "key": key})), key=lambda entry: entry[0])
            entry = [[newest[0][0] + 1, self.id], value]
            await self.ask_majority({"type": "store", "key": key, "found": entry})

    async def replicate(self, key: str, entry: list) -> None:
        with contextlib.suppress(NoMajority):
            await self.ask_majority({"type": "store", "key": key, "found": entry})

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests on the connection of a client."""
        async for line in lines_of(reader):
            request = json.loads(line)
            try:
                match request["op"]:
                    case "get":
                        answer = {"value": await self.get(request["key"])}
                    case "set":
                        answer = {"value": await self.set(request["key"], request["value"])}
            except NoMajority:
                answer = {"error": "no majority has answered"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()


async def lines_of(reader: asyncio.StreamReader):
    """Yield complete lines until the connection ends."""
    try:
        while (line := await reader.readline()).endswith(b"\n"):
            yield line
    except ConnectionError:
        return


async def run(options: argparse.Namespace) -> None:
    node, stop = Node(options), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    for address, handler in ((options.listen, node.serve_peer), (options.client, node.serve_client)):
        host, _, port = address.rpartition(":")
        await asyncio.start_server(handler, host, int(port))
    sending = [asyncio.create_task(node.keep_sending(peer)) for peer in node.peers]
    await stop.wait()
    for task in sending:
        task.cancel()


def parse_peer(text: str) -> tuple[int, str]:
    number, _, address = text.partition("=")
    return int(number), address


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer", type=parse_peer, action="append", default=[])
    parser.add_argument("--early-ack", action="store_true")
    parser.add_argument("--no-write-back", action="store_true")
    parser.add_argument("--no-fsync", action="store_true")
    parser.add_argument("--release", type=int, choices=(1, 2), default=1)
    asyncio.run(run(parser.parse_args()))
