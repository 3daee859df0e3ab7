"""Writes the files of legal runs without executing anything, in any number and length.

`python -m benchmarks.synthetic OUT [RUNS] [TRANSACTIONS] [BATCH]`. Three nodes lead in turn, and every write is proposed,
accepted, delivered and acknowledged in batches. The oracle finds no violation in such a run (a test checks that), so only the
judging is measured. One transaction has nine events: a broadcast, three accepts and three deliveries, which are in the lines
of their batch, and two lines of its client.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from zab_chaos.model import manifest
from zab_chaos.node.core import digest as dg

NODES = 3
EPOCHS = 4
EVENTS = 2 * NODES + 3  # of each transaction
CLIENTS = 10
KEYS = 100
TICK = 10_000  # nanoseconds between two lines
ZERO = 1_000_000_000


class SyntheticRun:
    """The lines of one run: of each node's trace, and of the other files."""

    def __init__(self, transactions: int, batch: int, epochs: int = EPOCHS) -> None:
        self.traces: list[list[bytes]] = [[] for _ in range(NODES)]
        self.operations: list[bytes] = []
        self.t = ZERO
        self.running = dg.EMPTY
        self.last = (0, 0)
        self.sent = [0] * NODES  # frames so far
        self.seqs = [0] * CLIENTS
        self.versions: dict[str, int] = {}
        for node in range(1, NODES + 1):
            self.event(
                node, "boot", disk="fresh", accepted_epoch=0, current_epoch=0, last_zxid=[0, 0], snapshot_zxid=[0, 0]
            )
        share = -(-transactions // epochs)
        for epoch in range(1, epochs + 1):
            count = min(share, transactions - share * (epoch - 1))
            if count > 0:
                self.elect(epoch)
                self.write(epoch, count, batch)
        self.load_ended = self.t
        self.t += 3 * TICK  # for the milestones up to `converged`
        for node in range(1, NODES + 1):
            self.event(node, "exit", code=0, why="asked to")

    def event(self, node: int, event: str, **fields: object) -> None:
        """Append an event to a node's trace."""
        trace = self.traces[node - 1]
        self.t += TICK
        line = {"t": self.t, "node": node, "life": 1, "n": len(trace) + 1, "event": event, **fields}
        trace.append(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def elect(self, epoch: int) -> None:
        """Append the election of the next node. No node lacks any transaction."""
        leader = (epoch - 1) % NODES + 1
        nodes, last = range(1, NODES + 1), list(self.last)
        leader_first = sorted(nodes, key=lambda node: node != leader)
        for node in nodes:
            self.event(node, "role", role="LOOKING", leader=None, why="turn")
            self.event(node, "vote", round=epoch, leader=leader, zxid=last, epoch=epoch - 1)
        for node in leader_first:
            self.event(node, "role", role="LEADING" if node == leader else "FOLLOWING", leader=leader, why="elected")
            self.work(node, epoch)
            self.event(node, "phase", phase="DISCOVERY", epoch=epoch - 1)
            self.event(node, "accepted_epoch", epoch=epoch, leader=leader)
        for node in leader_first[1:]:
            self.event(node, "confirmed", epoch=epoch, leader=leader)
        for node in leader_first:
            self.event(node, "phase", phase="SYNCHRONIZATION", epoch=epoch)
            self.event(node, "current_epoch", epoch=epoch, last_zxid=last)
        self.event(leader, "established", epoch=epoch, last_zxid=last, quorum=list(nodes))
        for node in nodes:
            self.event(node, "phase", phase="BROADCAST", epoch=epoch)
            self.event(node, "link", peer=node % NODES + 1, state="opened", session=epoch, why="")

    def work(self, node: int, epoch: int) -> None:
        """Append an event with the counters of a node's work."""
        frames = self.sent[node - 1]
        messages = {"ACK": frames, "COMMIT": frames, "PROPOSE": frames, "VOTE": 2 * epoch}
        self.event(node, "work", frames=2 * frames, messages=messages, syncs=frames)

    def write(self, epoch: int, count: int, batch: int) -> None:
        """Append so many transactions of an epoch. The lines of a batch are put together from common pieces, for speed."""
        leader = (epoch - 1) % NODES + 1
        for first in range(1, count + 1, batch):
            digests = [
                dg.blake2b(counter.to_bytes(8, "big")) for counter in range(first, min(first + batch, count + 1))
            ]
            begin = self.t + TICK
            body = f'"epoch":{epoch},"first":{first},"digests":"{dg.show_all(digests)}"'
            self.t += TICK * len(digests)  # meanwhile the clients send their requests
            asked = [self.request(first + i) for i in range(len(digests))]
            txns = ",".join(
                f'[{client},{seq},[["{op}","{path}",{version},{i}]]]'
                for i, (client, seq, op, path, version) in enumerate(asked)
            )
            self.line(leader, f'"broadcast",{body},"txns":[{txns}],"delivered":[{self.last[0]},{self.last[1]}]')
            for node in range(1, NODES + 1):
                self.line(node, f'"accept","in_epoch":{epoch},{body}')
                self.sent[node - 1] += 1
            for counter, digest in enumerate(digests, first):
                self.running = dg.fold(self.running, epoch << 32 | counter, digest)
            shown = dg.show(self.running)
            for node in range(1, NODES + 1):
                self.line(node, f'"deliver",{body},"digest":"{shown}","tree":"{shown}"')
            self.last = (epoch, first + len(digests) - 1)
            self.ask(begin, epoch, first, asked)

    def request(self, counter: int) -> tuple[int, int, str, str, int]:
        """Return a client's next write: client, number of the request, operation, path, and the version that results."""
        client, path = counter % CLIENTS + 1, f"/key-{counter % KEYS}"
        self.seqs[client - 1] += 1
        version = self.versions[path] = self.versions.get(path, -1) + 1
        return client, self.seqs[client - 1], "set" if version else "create", path, version

    def line(self, node: int, rest: str) -> None:
        """Append a line to a node's trace, given as JSON text from the event's name on."""
        trace = self.traces[node - 1]
        self.t += TICK
        trace.append(f'{{"t":{self.t},"node":{node},"life":1,"n":{len(trace) + 1},"event":{rest}}}\n'.encode())

    def ask(self, begin: int, epoch: int, first: int, asked: list[tuple[int, int, str, str, int]]) -> None:
        """Append the clients' lines of a batch: requests before its broadcast, answers after its delivery."""
        answers = []
        for i, (client, seq, op, path, version) in enumerate(asked):
            t, common = begin + i * TICK, f'"client":{client},"seq":{seq},"node":{client % NODES + 1}'
            request = f'"op":"{op}","path":"{path}","value":{i}'
            self.operations.append(f'{{"type":"invoke","t":{t},"due":{t},{common},{request}}}\n'.encode())
            self.t += TICK
            result = f'"zxid":[{epoch},{first + i}],"version":{version}' + (
                f',"path":"{path}"' if op == "create" else ""
            )
            answers.append(f'{{"type":"complete","t":{self.t},{common},"outcome":"ok",{result}}}\n'.encode())
        self.operations += answers

    def milestones(self) -> Iterator[dict[str, object]]:
        yield {"t": ZERO, "event": "started"}
        yield {"t": ZERO, "event": "workload-started"}
        yield {"t": self.load_ended + TICK, "event": "workload-stopped"}
        yield {"t": self.load_ended + 2 * TICK, "event": "safety-ended"}
        yield {"t": self.load_ended + 3 * TICK, "event": "converged", "zxid": list(self.last), "seconds": TICK / 1e9}
        yield {"t": self.t + TICK, "event": "stopped"}

    def save(self, folder: Path, seed: int = 1) -> None:
        """Write the run's folder, as results/README.md describes it."""
        (folder / "trace").mkdir(parents=True)
        said = {
            "run": folder.name, "scenario": "bench/synthetic", "seed": seed, "nodes": NODES, "backend": "synthetic",
            "defect": None, "outcome": "finished", "expect": {}, "command": "python -m benchmarks.synthetic",
        }  # fmt: skip
        (folder / "run.json").write_text(json.dumps(said), encoding="utf-8")
        for node, lines in enumerate(self.traces, 1):
            (folder / "trace" / f"node-{node}-1.jsonl").write_bytes(b"".join(lines))
        (folder / "ops.jsonl").write_bytes(b"".join(self.operations))
        (folder / "faults.jsonl").write_bytes(b"")
        milestones = "".join(json.dumps(line) + "\n" for line in self.milestones())
        (folder / "harness.jsonl").write_text(milestones, encoding="utf-8")
        manifest.seal(folder)


def campaign(out: Path, runs: int, transactions: int, batch: int) -> int:
    """Write so many equal runs below `out`, with different seeds. Return how many events they have together."""
    made = SyntheticRun(transactions, batch)
    for seed in range(1, runs + 1):
        made.save(out / f"run-{seed:06}", seed)
    return runs * transactions * EVENTS


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 4 or not all(word.isdigit() and int(word) > 0 for word in arguments[1:]):
        sys.stderr.write("usage: python -m benchmarks.synthetic OUT [RUNS] [TRANSACTIONS] [BATCH]\n")
        return 4
    runs, transactions, batch = [int(word) for word in arguments[1:]] + [10, 100_000, 100][len(arguments) - 1 :]
    events = campaign(Path(arguments[0]), runs, transactions, batch)
    sys.stdout.write(f"{runs} runs with {events:,} events in {arguments[0]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
