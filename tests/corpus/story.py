"""A small language for run folders: tell a run step by step, as it should go or as it must not, and write it down.

A `Story` keeps what a correct ensemble would keep (each node's log, what each has delivered), so a good run is told in
a few words; the low-level words (`broadcast`, `accept`, `deliver`, `event`) write whatever they are given. The formats
are those of results/README.md; any judge can read the folders.
"""

import json
from pathlib import Path
from typing import Any

from node.core import digest as dg

Zxid = tuple[int, int]
STEP = 1_000_000  # nanoseconds between two lines
NOTHING: Zxid = (0, 0)


def digest(zxid: Zxid, variant: str = "") -> int:
    """The digest of the transaction that is usually broadcast with this zxid, or of another one."""
    return dg.txn_digest(f"{zxid[0]}:{zxid[1]}{variant}".encode())


class Server:
    """What one node has: on its disk (`log`, epochs) and in its memory (`delivered`, in this life)."""

    def __init__(self) -> None:
        self.life = 0
        self.n = 0
        self.log: list[tuple[Zxid, int]] = []
        self.delivered: list[tuple[Zxid, int]] = []
        self.accepted_epoch = 0
        self.current_epoch = 0
        self.snapshot: Zxid = NOTHING
        self.amnesiac = False
        self.up = False

    @property
    def last(self) -> Zxid:
        return self.log[-1][0] if self.log else self.snapshot


class Story:
    """One run. Node ids are 1..nodes; every line is written one millisecond after the one before."""

    def __init__(self, nodes: int = 3, **expect: Any) -> None:
        self.servers = {number: Server() for number in range(1, nodes + 1)}
        self.t = 1_000_000_000
        self.traces: dict[tuple[int, int], list[str]] = {}
        self.files: dict[str, list[str]] = {"ops.jsonl": [], "faults.jsonl": [], "harness.jsonl": []}
        self.run: dict[str, Any] = {"run": "corpus", "nodes": nodes, "outcome": "finished", "expect": expect}
        self.leader = 0
        self.members: list[int] = []
        self.seqs: dict[int, int] = {}
        self.fault_ids = 0

    # ---- lines ----

    def now(self) -> int:
        self.t += STEP
        return self.t

    def event(self, node: int, name: str, **fields: Any) -> None:
        """Any trace event, as given."""
        server = self.servers[node]
        server.n += 1
        line = {"t": self.now(), "node": node, "life": server.life, "n": server.n, "event": name, **fields}
        self.traces.setdefault((node, server.life), []).append(json.dumps(line) + "\n")

    def write_line(self, file: str, **fields: Any) -> None:
        self.files[file].append(json.dumps({"t": self.now(), **fields}) + "\n")

    def milestone(self, event: str, **fields: Any) -> None:
        self.write_line("harness.jsonl", event=event, **fields)

    # ---- lives ----

    def boot(self, node: int, disk: str = "recovered", **fields: Any) -> None:
        """A new life, with what the disk holds; `fields` replace what the node says of it."""
        server = self.servers[node]
        server.life, server.n, server.up = server.life + 1, 0, True
        server.delivered = [it for it in server.log if it[0] <= server.snapshot]
        server.amnesiac = disk == "amnesiac"
        held = {
            "disk": disk,
            "accepted_epoch": server.accepted_epoch,
            "current_epoch": server.current_epoch,
            "last_zxid": list(server.last),
            "snapshot_zxid": list(server.snapshot),
            "torn_bytes": 0,
            "faithful": True,
            "nodes": len(self.servers),
            "defect": None,
            "pid": self.pid(node),
        }
        self.event(node, "boot", **{**held, **fields})

    def pid(self, node: int) -> int:
        return 1000 * node + self.servers[node].life

    def crash(self, *nodes: int, do: str = "crash", heal: bool = True, **fields: Any) -> None:
        """SIGKILL, confirmed; `fields` replace what the fault log says."""
        evidence = {str(node): {"pid": self.pid(node), "exit": -9} for node in nodes}
        for node in nodes:
            self.servers[node].up = False
        self.inject(do, nodes, **{"evidence": evidence, **fields})
        if heal:
            self.heal()

    def wipe(self, *nodes: int) -> None:
        """The disks are lost."""
        self.crash(*nodes, do="wipe")
        for node in nodes:
            life = self.servers[node].life
            self.servers[node] = Server()
            self.servers[node].life = life

    def inject(self, do: str, nodes: Any = (), **fields: Any) -> None:
        self.fault_ids += 1
        line = {"type": "inject", "id": self.fault_ids, "do": do, "target": "one", "nodes": list(nodes), "params": {}}
        self.write_line("faults.jsonl", **{**line, "confirmed": True, "evidence": {}, **fields})

    def heal(self, **fields: Any) -> None:
        line = {"type": "heal", "id": self.fault_ids, "confirmed": True, "evidence": {}}
        self.write_line("faults.jsonl", **{**line, **fields})

    # ---- the protocol ----

    def start(self) -> None:
        """A new ensemble."""
        self.milestone("started")
        for node in self.servers:
            self.boot(node, "fresh")

    def elect(self, leader: int, epoch: int, members: list[int] | None = None) -> None:
        """All four steps of recovery: promises, the leader's history, its establishment, delivery."""
        self.leader, self.members = leader, members or [n for n, server in self.servers.items() if server.up]
        for node in self.members:
            self.event(node, "role", role="LEADING" if node == leader else "FOLLOWING", leader=leader, why="elected")
            self.event(node, "phase", phase="DISCOVERY", epoch=epoch)
            self.promise(node, epoch)
        for node in [leader, *(n for n in self.members if n != leader)]:
            self.synchronize(node, epoch)
        self.establish(leader, epoch)
        for node in self.members:
            self.event(node, "phase", phase="BROADCAST", epoch=epoch)
            self.catch_up(node)
            if self.servers[node].amnesiac:
                self.servers[node].amnesiac = False
                self.event(node, "member", epoch=epoch)

    def promise(self, node: int, epoch: int) -> None:
        self.servers[node].accepted_epoch = epoch
        self.event(node, "accepted_epoch", epoch=epoch, leader=self.leader)

    def synchronize(self, node: int, epoch: int) -> None:
        """NEWLEADER: the leader's history becomes the node's own."""
        server, history = self.servers[node], self.servers[self.leader].log
        common = [it for it in server.log if it in history]
        if len(common) < len(server.log):
            self.truncate(node, common[-1][0] if common else NOTHING)
        for zxid, value in history[len(common) :]:
            self.accept(node, zxid, value, in_epoch=epoch)
        server.current_epoch = epoch
        self.event(node, "current_epoch", epoch=epoch, last_zxid=list(server.last))

    def establish(self, leader: int, epoch: int, **fields: Any) -> None:
        held = {"epoch": epoch, "last_zxid": list(self.servers[leader].last), "quorum": self.members}
        self.event(leader, "established", **{**held, **fields})

    def join(self, node: int) -> None:
        """A node comes back to the established leader."""
        epoch = self.servers[self.leader].current_epoch
        self.event(node, "role", role="FOLLOWING", leader=self.leader, why="elected")
        self.promise(node, epoch)
        self.synchronize(node, epoch)
        self.event(node, "phase", phase="BROADCAST", epoch=epoch)
        self.catch_up(node)
        self.members = sorted({*self.members, node})
        if self.servers[node].amnesiac:
            self.servers[node].amnesiac = False
            self.event(node, "member", epoch=epoch)

    def catch_up(self, node: int) -> None:
        """Deliver what is in the log and was not delivered in this life."""
        server = self.servers[node]
        done = server.delivered[-1][0] if server.delivered else server.snapshot
        for zxid, value in [it for it in server.log if it[0] > done]:
            self.deliver(node, zxid, value)

    def broadcast(self, node: int, zxid: Zxid, value: int | None = None, delivered: Zxid | None = None) -> None:
        done = self.servers[node].delivered
        before = delivered if delivered is not None else (done[-1][0] if done else NOTHING)
        digests = dg.show_all([digest(zxid) if value is None else value])
        self.event(node, "broadcast", epoch=zxid[0], first=zxid[1], digests=digests, delivered=list(before))

    def accept(self, node: int, zxid: Zxid, value: int | None = None, in_epoch: int | None = None) -> None:
        server = self.servers[node]
        value = digest(zxid) if value is None else value
        server.log.append((zxid, value))
        under = server.current_epoch if in_epoch is None else in_epoch
        self.event(node, "accept", in_epoch=under, epoch=zxid[0], first=zxid[1], digests=dg.show_all([value]))

    def deliver(self, node: int, zxid: Zxid, value: int | None = None, **fields: Any) -> None:
        """Deliver one transaction; the digests are those of what the node has delivered in this life."""
        server = self.servers[node]
        value = digest(zxid) if value is None else value
        server.delivered.append((zxid, value))
        running = self.running(node)
        said = {"digest": dg.show(running), "tree": tree(running)}
        self.event(node, "deliver", epoch=zxid[0], first=zxid[1], digests=dg.show_all([value]), **{**said, **fields})

    def running(self, node: int) -> int:
        """The running digest of what a node has delivered."""
        running = dg.EMPTY
        for (epoch, counter), value in self.servers[node].delivered:
            running = dg.fold(running, epoch << 32 | counter, value)
        return running

    def truncate(self, node: int, keep: Zxid) -> None:
        server = self.servers[node]
        last = server.last
        server.log = [it for it in server.log if it[0] <= keep]
        self.event(node, "truncate", keep=list(keep), last=list(last))

    def take_snapshot(self, node: int) -> None:
        server = self.servers[node]
        server.snapshot = server.delivered[-1][0]
        self.snapshot(node, "taken", server.snapshot)

    def snapshot(self, node: int, kind: str, zxid: Zxid, **fields: Any) -> None:
        said = {"digest": dg.show(self.running(node)), "tree": tree(self.running(node))}
        self.event(node, "snapshot", kind=kind, zxid=list(zxid), **{**said, **fields})

    # ---- clients ----

    def invoke(self, client: int = 1, op: str = "set") -> int:
        """A client sends; the number that it gives the request."""
        seq = self.seqs[client] = self.seqs.get(client, 0) + 1
        self.write_line("ops.jsonl", type="invoke", due=self.t, client=client, seq=seq, node=1, op=op, path="/a")
        return seq

    def complete(self, client: int, seq: int, zxid: Zxid | None = None, outcome: str = "ok", **fields: Any) -> None:
        line = {"type": "complete", "client": client, "seq": seq, "node": 1, "outcome": outcome}
        if zxid is not None:
            line["zxid"] = list(zxid)
        self.write_line("ops.jsonl", **{**line, **fields})

    def write(self, count: int = 1, client: int = 1) -> Zxid:
        """Writes that go well: proposed, accepted and delivered by all members, and acknowledged."""
        zxid = NOTHING
        for _ in range(count):
            seq = self.invoke(client)
            zxid = self.propose()
            for node in self.members:
                self.deliver(node, zxid)
            self.complete(client, seq, zxid)
        return zxid

    def propose(self, to: list[int] | None = None) -> Zxid:
        """The leader broadcasts, and `to` (all members) accept. Nobody delivers."""
        epoch, counter = self.servers[self.leader].last
        current = self.servers[self.leader].current_epoch
        zxid = (current, counter + 1 if epoch == current else 1)
        self.broadcast(self.leader, zxid)
        for node in self.members if to is None else to:
            self.accept(node, zxid)
        return zxid

    def read(self, client: int = 1, zxid: Zxid | None = None) -> None:
        seq = self.invoke(client, "get")
        self.complete(client, seq, zxid if zxid is not None else self.servers[self.leader].delivered[-1][0])

    # ---- the end ----

    def settle(self, *, converged: bool = True, seconds: float = 0.5) -> None:
        """The workload ends, everything is healed, the nodes converge (or not)."""
        self.milestone("workload-stopped")
        self.milestone("safety-ended")
        self.t += int(seconds * 1e9)
        last = self.servers[self.leader].delivered[-1:] if self.leader else []
        if converged:
            self.milestone("converged", zxid=list(last[0][0]) if last else [0, 0], seconds=seconds)
        else:
            self.milestone("not-converged", nodes={str(n): list(s.last) for n, s in self.servers.items()})
        for node, server in self.servers.items():
            if server.up:
                self.event(node, "exit", code=0, why="asked to")
        self.milestone("stopped")

    def save(self, folder: Path) -> None:
        """Write the run's folder."""
        (folder / "trace").mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(self.run, indent=2) + "\n")
        (folder / "scenario.toml").write_text('[scenario]\nname = "corpus"\n')
        for (node, life), lines in self.traces.items():
            (folder / "trace" / f"node-{node}-{life}.jsonl").write_text("".join(lines))
        for name, lines in self.files.items():
            (folder / name).write_text("".join(lines))


def tree(running: int) -> str:
    """A tree's digest: any function of the history will do here."""
    return dg.show(running ^ 0x5A5A5A5A5A5A5A5A)


def ensemble(nodes: int = 3, writes: int = 3, **expect: Any) -> Story:
    """A good beginning: node 1 leads epoch 1, and some writes are everywhere."""
    story = Story(nodes, **expect)
    story.start()
    story.elect(1, epoch=1)
    story.write(writes)
    return story
