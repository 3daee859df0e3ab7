"""A replicated key-value store: atomic registers by quorums (Attiya, Bar-Noy, Dolev, 1995), one process a node.

    python store.py --node 1 --listen HOST:PORT --client HOST:PORT --data DIR --peer 2=HOST:PORT --peer 3=HOST:PORT

Whoever is asked coordinates. A write asks a majority for the highest stamp, and stores the value with a higher one at a
majority; a read asks a majority, and stores what it found at a majority before it answers. A replica has synced what it
says it has stored. Messages are lines of JSON; a node sends over connections of its own and reads from the others'.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections import Counter, defaultdict
from pathlib import Path

AGAIN_SECONDS = 0.2  # until who has not answered is asked once more
PATIENCE_SECONDS = 2.0  # for a majority
NOTHING = [[0, 0], None]  # a key's stamp and value before the first write


class NoMajority(Exception):
    """Too few replicas have answered in time."""


class Replica:
    """What one node has stored: by key, [stamp, value], in memory and in a file."""

    def __init__(self, folder: Path, syncs: bool) -> None:
        self.held: dict[str, list] = {}
        self.syncs = syncs
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        content = (folder / "log").read_bytes()
        whole = content.rfind(b"\n") + 1  # a line that a crash has cut was never confirmed
        os.ftruncate(self._file, whole)
        for line in content[:whole].splitlines():
            key, found = json.loads(line)
            self.held[key] = found

    def get(self, key: str) -> list:
        return self.held.get(key, NOTHING)

    def store(self, key: str, found: list) -> None:
        if found[0] > self.get(key)[0]:
            os.write(self._file, json.dumps([key, found]).encode() + b"\n")
            if self.syncs:
                os.fsync(self._file)
            self.held[key] = found


class Node:
    """One of them. Three bugs can be switched on. `early_ack`: a write is confirmed when this node alone has it.
    `no_write_back`: a read answers with what it has found, whether a majority has that or not. `no_fsync`: what a replica
    says it has stored is in the kernel's memory only.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.id = options.node
        self.peers: dict[int, str] = dict(options.peer)
        self.replica = Replica(options.data, syncs=not options.no_fsync)
        self.early_ack, self.no_write_back = options.early_ack, options.no_write_back
        self.received: Counter[int] = Counter()  # messages of this life, by peer
        self.numbers = itertools.count(1)
        self.answers: dict[int, dict[int, object]] = defaultdict(dict)  # by request, then by replica
        self.news = asyncio.Condition()
        self.outgoing: dict[int, asyncio.Queue] = {peer: asyncio.Queue(1000) for peer in self.peers}
        self.writing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.background: set[asyncio.Task] = set()
        self.life = os.getpid()  # an answer to an earlier life is none to this one

    # ---- between the nodes ----

    def send(self, peer: int, message: dict) -> None:
        if not self.outgoing[peer].full():
            self.outgoing[peer].put_nowait(message | {"from": self.id})

    async def keep_sending(self, peer: int) -> None:
        """Connect, send, and again when the connection is gone."""
        host, _, port = self.peers[peer].rpartition(":")
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                gone = asyncio.create_task(reader.read())  # nobody answers here: it returns at the end
                while not gone.done():
                    getting = asyncio.create_task(self.outgoing[peer].get())
                    await asyncio.wait({getting, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not getting.done():
                        getting.cancel()
                        break
                    writer.write(json.dumps(getting.result()).encode() + b"\n")
                    await writer.drain()
                writer.close()
            except OSError:
                await asyncio.sleep(AGAIN_SECONDS)

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One peer's connection."""
        async for line in lines_of(reader):
            message = json.loads(line)
            peer = message["from"]
            self.received[peer] += 1
            if message["type"] == "answer":
                if message["life"] == self.life and message["number"] in self.answers:
                    await self.answered(message["number"], peer, message["found"])
            else:
                self.send(
                    peer, {k: message[k] for k in ("number", "life")} | {"type": "answer", "found": self.do(message)}
                )
        writer.close()

    def do(self, message: dict) -> list | None:
        if message["type"] == "ask":
            return self.replica.get(message["key"])
        return self.replica.store(message["key"], message["found"])

    async def answered(self, number: int, replica: int, found: object) -> None:
        self.answers[number][replica] = found
        async with self.news:
            self.news.notify_all()

    async def majority(self, message: dict) -> list:
        """Have it done by this replica and then by others; what a majority said. Raises NoMajority."""
        number = next(self.numbers)
        message = message | {"number": number, "life": self.life}
        answers = self.answers[number]
        await self.answered(number, self.id, self.do(message))
        enough, clock = (len(self.peers) + 1) // 2 + 1, asyncio.get_running_loop().time
        end = clock() + PATIENCE_SECONDS
        try:
            while len(answers) < enough:
                if clock() > end:
                    raise NoMajority
                for peer in self.peers.keys() - answers.keys():
                    self.send(peer, message)
                async with self.news:
                    try:
                        await asyncio.wait_for(self.news.wait_for(lambda: len(answers) >= enough), AGAIN_SECONDS)
                    except TimeoutError:
                        continue
            return list(answers.values())
        finally:
            del self.answers[number]

    # ---- for clients ----

    async def get(self, key: str) -> str | None:
        found = await self.majority({"type": "ask", "key": key})
        newest = max(found, key=lambda one: one[0])
        if not self.no_write_back and any(one[0] != newest[0] for one in found):
            await self.majority({"type": "store", "key": key, "found": newest})
        return newest[1]

    async def set(self, key: str, value: str) -> None:
        async with self.writing[key]:  # two writes of one node must not choose one stamp
            if self.early_ack:  # the bug: this node's own copy decides, and nobody waits for the others
                found = [[self.replica.get(key)[0][0] + 1, self.id], value]
                self.replica.store(key, found)
                self.background.add(asyncio.create_task(self.tell(key, found)))
                return
            newest = max((await self.majority({"type": "ask", "key": key})), key=lambda one: one[0])
            found = [[newest[0][0] + 1, self.id], value]
            await self.majority({"type": "store", "key": key, "found": found})

    async def tell(self, key: str, found: list) -> None:
        with contextlib.suppress(NoMajority):
            await self.majority({"type": "store", "key": key, "found": found})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection."""
        async for line in lines_of(reader):
            asked = json.loads(line)
            try:
                match asked["op"]:
                    case "get":
                        answer = {"value": await self.get(asked["key"])}
                    case "set":
                        answer = {"value": await self.set(asked["key"], asked["value"])}
                    case "received":
                        answer = {"received": dict(self.received)}
            except NoMajority:
                answer = {"error": "no majority has answered"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()


async def lines_of(reader: asyncio.StreamReader):
    """Whole lines, until the connection ends."""
    try:
        while (line := await reader.readline()).endswith(b"\n"):
            yield line
    except ConnectionError:
        return


async def run(options: argparse.Namespace) -> None:
    node, stop = Node(options), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    for address, handler in ((options.listen, node.hear), (options.client, node.serve)):
        host, _, port = address.rpartition(":")
        await asyncio.start_server(handler, host, int(port))
    sending = [asyncio.create_task(node.keep_sending(peer)) for peer in node.peers]
    await stop.wait()
    for task in sending:
        task.cancel()


def peer(said: str) -> tuple[int, str]:
    number, _, address = said.partition("=")
    return int(number), address


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer", type=peer, action="append", default=[])
    parser.add_argument("--early-ack", action="store_true")
    parser.add_argument("--no-write-back", action="store_true")
    parser.add_argument("--no-fsync", action="store_true")
    asyncio.run(run(parser.parse_args()))
