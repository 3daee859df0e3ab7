"""A builder of run folders: the tests tell a run step by step, as it should go or as it must not.

A `Story` has the state of a correct ensemble (each node's log, what each has delivered), so a good run takes a few calls. The
low-level methods (`broadcast`, `accept`, `deliver`, `event`) write whatever they are given. The formats are those of
results/README.md, so any judge can read the folders.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.corpus.contents import Step, children_of, prepared, state_of
from zab_chaos.model import manifest
from zab_chaos.node.core import digest as dg

Zxid = tuple[int, int]
STEP = 1_000_000  # nanoseconds between two lines
NOTHING: Zxid = (0, 0)


def digest(zxid: Zxid, variant: str = "") -> int:
    """Return the digest of the usual transaction with this zxid, or of a `variant` of it."""
    return dg.blake2b(f"{zxid[0]}:{zxid[1]}{variant}".encode())


class Server:
    """The state of one node: its disk (`log`, epochs), and what it has delivered in this life."""

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
    """One run. Node ids are 1..nodes. Each line is one millisecond later than the one before."""

    def __init__(self, nodes: int = 3, **expect: Any) -> None:
        self.servers = {number: Server() for number in range(1, nodes + 1)}
        self.t = 1_000_000_000
        self.traces: dict[tuple[int, int], list[str]] = {}
        self.files: dict[str, list[str]] = {"ops.jsonl": [], "faults.jsonl": [], "harness.jsonl": []}
        self.run: dict[str, Any] = {"run": "corpus", "nodes": nodes, "outcome": "finished", "expect": expect}
        self.leader = 0
        self.members: list[int] = []
        self.seqs: dict[int, int] = {}
        self.asked: dict[tuple[int, int], dict[str, Any]] = {}  # by (client, seq): the invoke line
        self.waiting: list[tuple[int, int]] = []  # writes without a transaction
        self.txns: dict[Zxid, list[Any]] = {}  # broadcast transactions: [client, seq, steps]
        self.fault_ids = 0
        self.open_sessions: dict[tuple[int, int], dict[int, int]] = {}  # by (node, life) and peer: its number

    # ---- lines ----

    def now(self) -> int:
        self.t += STEP
        return self.t

    def event(self, node: int, name: str, **fields: Any) -> None:
        """Write a trace event with these fields."""
        server = self.servers[node]
        server.n += 1
        line = {"t": self.now(), "node": node, "life": server.life, "n": server.n, "event": name, **fields}
        self.traces.setdefault((node, server.life), []).append(json.dumps(line) + "\n")
        if name == "link":
            sessions = self.open_sessions.setdefault((node, server.life), {})
            sessions.pop(fields["peer"], None)
            if fields["state"] == "opened":
                sessions[fields["peer"]] = fields["session"]

    def write_line(self, file: str, **fields: Any) -> None:
        self.files[file].append(json.dumps({"t": self.now(), **fields}) + "\n")

    def milestone(self, event: str, **fields: Any) -> None:
        self.write_line("harness.jsonl", event=event, **fields)

    # ---- lives ----

    def boot(self, node: int, disk: str = "recovered", **fields: Any) -> None:
        """Begin a new life with the content of the disk. `fields` replace those of the event."""
        server = self.servers[node]
        server.life, server.n, server.up = server.life + 1, 0, True
        server.delivered = [it for it in server.log if it[0] <= server.snapshot]
        server.amnesiac = disk == "amnesiac"
        content = {
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
        self.event(node, "boot", **{**content, **fields})

    def pid(self, node: int) -> int:
        return 1000 * node + self.servers[node].life

    def crash(self, *nodes: int, do: str = "crash", heal: bool = True, **fields: Any) -> None:
        """Kill nodes with SIGKILL, confirmed. `fields` replace those of the fault's line."""
        evidence = {str(node): {"pid": self.pid(node), "exit": -9} for node in nodes}
        for node in nodes:
            self.servers[node].up = False
        self.inject(do, nodes, **{"evidence": evidence, **fields})
        if heal:
            self.heal()

    def wipe(self, *nodes: int, do: str = "wipe", **fields: Any) -> None:
        """Kill nodes and lose their disks. `do` is the fault's name in the log; `fields` replace those of its line."""
        self.crash(*nodes, do=do, **fields)
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

    def open_links(self, node: int, peers: list[int]) -> None:
        """Open a node's side of its links to these peers."""
        for peer in peers:
            self.event(node, "link", peer=peer, state="opened", session=1, why="")

    # ---- the protocol ----

    def start(self) -> None:
        """Start a new ensemble on empty disks."""
        self.milestone("started")
        for node in self.servers:
            self.boot(node, "fresh")

    def elect(self, leader: int, epoch: int, members: list[int] | None = None, *, deliver: bool = True) -> None:
        """Carry out all four steps of recovery: promises, the leader's history, its establishment, and (`deliver`) delivery."""
        self.leader, self.members = leader, members or [n for n, server in self.servers.items() if server.up]
        for node in [leader, *(n for n in self.members if n != leader)]:
            self.event(node, "role", role="LEADING" if node == leader else "FOLLOWING", leader=leader, why="elected")
            self.event(node, "phase", phase="DISCOVERY", epoch=epoch)
            self.promise(node, epoch)
        self.choose(epoch, *(node for node in self.members if node != leader))
        for node in [leader, *(n for n in self.members if n != leader)]:
            self.synchronize(node, epoch)
        self.establish(leader, epoch)
        for node in self.members if deliver else ():
            self.serve((node,), epoch)
            self.admit(node)

    def admit(self, node: int, **fields: Any) -> None:
        """Make a node that had lost its disk a member again."""
        if self.servers[node].amnesiac:
            self.servers[node].amnesiac = False
            others = [n for n in self.members if n != node and self.servers[n].up and not self.servers[n].amnesiac]
            epoch = self.servers[node].current_epoch
            self.confirm(epoch, *(n for n in others if n != self.leader))
            self.event(node, "member", **{"epoch": epoch, "quorum": others, **fields})

    def promise(self, node: int, epoch: int) -> None:
        self.servers[node].accepted_epoch = epoch
        self.event(node, "accepted_epoch", epoch=epoch, leader=self.leader)

    def confirm(self, epoch: int, *nodes: int) -> None:
        """Let nodes confirm to the leader that they still follow it in this epoch."""
        for node in nodes:
            self.event(node, "confirmed", epoch=epoch, leader=self.leader)

    def choose(self, epoch: int, *others: int) -> None:
        """Let the leader choose the history of its epoch, when these nodes have confirmed that they follow it."""
        self.confirm(epoch, *others)
        self.event(self.leader, "phase", phase="SYNCHRONIZATION", epoch=epoch)

    def leads(self, node: int) -> None:
        self.leader = node
        self.event(node, "role", role="LEADING", leader=node, why="elected")

    def synchronize(self, node: int, epoch: int) -> None:
        """Carry out NEWLEADER: the node takes over the leader's history and joins the epoch."""
        server, history = self.servers[node], self.servers[self.leader].log
        common = [it for it in server.log if it in history]
        if len(common) < len(server.log):
            self.truncate(node, common[-1][0] if common else NOTHING)
        for zxid, value in history[len(common) :]:
            self.accept(node, zxid, value, in_epoch=epoch)
        server.current_epoch = epoch
        self.event(node, "current_epoch", epoch=epoch, last_zxid=list(server.last))

    def establish(self, leader: int, epoch: int, **fields: Any) -> None:
        quorum = [node for node in self.members if not self.servers[node].amnesiac]
        content = {"epoch": epoch, "last_zxid": list(self.servers[leader].last), "quorum": quorum}
        self.event(leader, "established", **{**content, **fields})

    def join(self, node: int) -> None:
        """Let a node follow the established leader again."""
        epoch = self.servers[self.leader].current_epoch
        self.event(node, "role", role="FOLLOWING", leader=self.leader, why="elected")
        if self.servers[node].accepted_epoch < epoch:
            self.promise(node, epoch)
        self.synchronize(node, epoch)
        self.serve((node,), epoch)
        self.members = sorted({*self.members, node})
        self.admit(node)

    def join_with_a_snapshot(self, node: int, zxid: Zxid) -> None:
        """Let a node follow the established leader again, which sends it a snapshot of all that it has delivered."""
        server, leader = self.servers[node], self.servers[self.leader]
        self.event(node, "role", role="FOLLOWING", leader=self.leader, why="elected")
        server.log, server.delivered = list(leader.log), list(leader.delivered)
        self.snapshot(node, "installed", zxid)
        self.event(node, "current_epoch", epoch=server.current_epoch, last_zxid=list(server.last))
        self.event(node, "phase", phase="BROADCAST", epoch=server.current_epoch)
        self.snapshot(node, "restored", zxid)
        self.members = sorted({*self.members, node})

    def serve(self, nodes: Iterable[int], epoch: int) -> None:
        """Carry out COMMIT-LD: the nodes enter broadcast and deliver their logs."""
        for node in nodes:
            self.event(node, "phase", phase="BROADCAST", epoch=epoch)
            self.catch_up(node)

    def catch_up(self, node: int) -> None:
        """Deliver everything in the log that was not delivered in this life."""
        server = self.servers[node]
        done = server.delivered[-1][0] if server.delivered else server.snapshot
        for zxid, value in [it for it in server.log if it[0] > done]:
            self.deliver(node, zxid, value)

    def broadcast(
        self,
        node: int,
        zxid: Zxid,
        value: int | None = None,
        delivered: Zxid | None = None,
        of: tuple[int, int] | None = None,
        txn: list[Any] | None = None,
    ) -> None:
        """Broadcast a transaction.

        `of` is the request (client, seq), by default the one that has waited longest. `txn` is the transaction, [client, seq,
        steps], if it differs from what was requested.
        """
        done = self.servers[node].delivered
        before = delivered if delivered is not None else (done[-1][0] if done else NOTHING)
        digests = dg.show_all([digest(zxid) if value is None else value])
        if zxid not in self.txns:
            self.txns[zxid] = txn if txn is not None else self.prepare(node, of)
        fields = {"digests": digests, "txns": [self.txns[zxid]], "delivered": list(before)}
        self.event(node, "broadcast", epoch=zxid[0], first=zxid[1], **fields)

    def prepare(self, node: int, of: tuple[int, int] | None = None) -> list[Any]:
        """Return the transaction that a primary makes of a write. If no write waits, client 9 sends one and gets no answer."""
        if of is None:
            of = self.waiting[0] if self.waiting else (9, self.invoke(9))
        self.waiting.remove(of)
        line = self.asked[of]
        return [*of, prepared(line.get("steps", [line]), self.history(node))]

    def history(self, node: int, upto: Zxid | None = None) -> list[Step]:
        """Return the steps of all transactions in a node's log, in order."""
        log = self.servers[node].log
        return [step for zxid, _ in log if upto is None or zxid <= upto for step in self.txns[zxid][2]]

    def accept(self, node: int, zxid: Zxid, value: int | None = None, in_epoch: int | None = None) -> None:
        server = self.servers[node]
        value = digest(zxid) if value is None else value
        server.log.append((zxid, value))
        under = server.current_epoch if in_epoch is None else in_epoch
        self.event(node, "accept", in_epoch=under, epoch=zxid[0], first=zxid[1], digests=dg.show_all([value]))

    def deliver(self, node: int, zxid: Zxid, value: int | None = None, **fields: Any) -> None:
        """Deliver one transaction. The digests are those of everything that the node has delivered in this life."""
        server = self.servers[node]
        value = digest(zxid) if value is None else value
        server.delivered.append((zxid, value))
        running = self.running(node)
        digests = {"digest": dg.show(running), "tree": tree(running)}
        self.event(node, "deliver", epoch=zxid[0], first=zxid[1], digests=dg.show_all([value]), **{**digests, **fields})

    def deliver_batch(self, node: int, *zxids: Zxid, variant: str = "") -> None:
        """Deliver transactions with consecutive zxids in one event, the last one in a `variant` of it."""
        values = [*map(digest, zxids[:-1]), digest(zxids[-1], variant)]
        self.servers[node].delivered += zip(zxids, values, strict=True)
        running = self.running(node)
        said = {"digests": dg.show_all(values), "digest": dg.show(running), "tree": tree(running)}
        self.event(node, "deliver", epoch=zxids[0][0], first=zxids[0][1], **said)

    def running(self, node: int) -> int:
        """Return the running digest of what a node has delivered in this life."""
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
        digests = {"digest": dg.show(self.running(node)), "tree": tree(self.running(node))}
        self.event(node, "snapshot", kind=kind, zxid=list(zxid), **{**digests, **fields})

    # ---- clients ----

    def invoke(self, client: int = 1, op: str | None = None, path: str = "/a", **fields: Any) -> int:
        """Let a client send a request. Return its seq.

        Without `op` it is a create if no client has requested to create the path yet, otherwise a set. Every write has
        another value.
        """
        seq = self.seqs[client] = self.seqs.get(client, 0) + 1
        if op is None:
            created = any(line["op"] == "create" and line["path"] == path for line in self.asked.values())
            op = "set" if created else "create"
        line = {"client": client, "seq": seq, "node": self.leader or 1, "op": op, "path": path}
        if op in ("create", "set"):
            line["value"] = 1000 * client + seq
        self.asked[client, seq] = line | fields
        if op not in ("get", "exists", "children"):
            self.waiting.append((client, seq))
        self.write_line("ops.jsonl", type="invoke", **{"due": self.t, **self.asked[client, seq]})
        return seq

    def complete(self, client: int, seq: int, zxid: Zxid | None = None, outcome: str = "ok", **fields: Any) -> None:
        """Answer a request. The answer to a successful write shows what its transaction did; `fields` replace parts of it."""
        line = {"type": "complete", "client": client, "seq": seq, "node": self.leader or 1, "outcome": outcome}
        if zxid is not None:
            line["zxid"] = list(zxid)
        if outcome == "ok":
            line |= self.result_of(client, seq)
        elif (client, seq) in self.waiting:
            self.waiting.remove((client, seq))
        line |= fields
        self.write_line("ops.jsonl", **{name: value for name, value in line.items() if value is not None})

    def result_of(self, client: int, seq: int) -> dict[str, Any]:
        """Return the fields of the answer to a write: what its transaction did."""
        steps = next((txn[2] for txn in self.txns.values() if txn[:2] == [client, seq]), None)
        if steps is None:
            return {}
        op, path, version, _ = steps[-1]
        if self.asked[client, seq]["op"] == "multi":
            return {"version": version, "steps": [[step[1], step[2]] for step in steps]}
        return {"version": version, "path": path if op == "create" else None}

    def write(self, count: int = 1, client: int = 1, **fields: Any) -> Zxid:
        """Carry out writes: all members accept and deliver them, and they are acknowledged. Return the last zxid."""
        zxid = NOTHING
        for _ in range(count):
            seq = self.invoke(client, **fields)
            zxid = self.commit((client, seq))
            self.complete(client, seq, zxid)
        return zxid

    def commit(self, of: tuple[int, int] | None = None, txn: list[Any] | None = None) -> Zxid:
        """Broadcast a write that all members accept and deliver. No client gets an answer. See `broadcast`."""
        zxid = self.propose(of=of, txn=txn)
        for node in self.members:
            self.deliver(node, zxid)
        return zxid

    def propose(
        self, to: list[int] | None = None, of: tuple[int, int] | None = None, txn: list[Any] | None = None
    ) -> Zxid:
        """Broadcast a write that the nodes `to` (by default all members) accept. No node delivers it. See `broadcast`."""
        epoch, counter = self.servers[self.leader].last
        current = self.servers[self.leader].current_epoch
        zxid = (current, counter + 1 if epoch == current else 1)
        self.broadcast(self.leader, zxid, of=of, txn=txn)
        for node in self.members if to is None else to:
            self.accept(node, zxid)
        return zxid

    def read(self, client: int = 1, zxid: Zxid | None = None, op: str = "get", path: str = "/a", **fields: Any) -> None:
        """Send a read and answer it correctly at a zxid of the leader's log, by default the last one delivered."""
        seq = self.invoke(client, op, path)
        self.answer_read(
            client, seq, zxid if zxid is not None else self.servers[self.leader].delivered[-1][0], **fields
        )

    def answer_read(self, client: int, seq: int, zxid: Zxid, **fields: Any) -> None:
        """Answer a read correctly at a zxid. `fields` replace parts of the answer."""
        op, path = self.asked[client, seq]["op"], self.asked[client, seq]["path"]
        steps = self.history(self.leader, zxid)
        found = state_of(steps).get(path, ["create", "/", 0, 0] if path == "/" else None)
        if found is None and op != "exists":
            self.complete(client, seq, zxid, "failed", **{"error": "no node", **fields})
            return
        answer: dict[str, Any] = {} if found is None else {"version": found[2]}
        if op == "get" and found is not None:
            answer["value"] = found[3]
        elif op == "children":
            answer["children"] = children_of(path, steps)
        self.complete(client, seq, zxid, **{**answer, **fields})

    # ---- the end ----

    def exit(self, node: int, *, frames: bool = True) -> None:
        """End a node that was asked to. `frames`: it says which it took in the sessions that are open at both ends."""
        for peer, session in self.open_sessions.get((node, self.servers[node].life), {}).items() if frames else ():
            life = self.servers[peer].life
            if self.open_sessions.get((peer, life), {}).get(node) == session:
                run = {"incarnation": life, "session": session, "first": 0, "last": 9, "ended": "exit"}
                self.event(node, "channel", peer=peer, **run)
        self.event(node, "exit", code=0, why="asked to")

    def settle(
        self,
        *,
        converged: bool = True,
        seconds: float = 0.5,
        invoked: int | None = None,
        leaves: float | None = None,
        held: str | None = None,
        why: str = "different zxids",
        late: Zxid | None = None,
        frames: bool = True,
    ) -> None:
        """End the run: the workload ends, everything is healed, and the nodes converge, or do not (`why`).

        `invoked` is the number of operations that the workload counted. `leaves`: node 2 leaves its leader that many
        seconds later, while the nodes are left alone from 1 s to 5 s later. `held`: what they still hold of the clients at
        the end of a time in which they were left alone. `late` is a transaction that the leader
        delivers after the nodes have converged and before the milestone is written. `frames`: as for `exit`.
        """
        self.milestone("workload-stopped", invoked=len(self.asked) if invoked is None else invoked)
        self.milestone("safety-ended")
        self.t += int(seconds * 1e9)
        last = self.servers[self.leader].delivered[-1:] if self.leader else []
        if late is not None:
            self.deliver(self.leader, late)
        if converged:
            self.milestone("converged", zxid=list(last[0][0]) if last else [0, 0], seconds=seconds)
        else:
            ends = {str(node): list(server.last) for node, server in self.servers.items()}
            self.milestone("not-converged", nodes=ends, why=why)
        if leaves is not None:
            end = self.t + 5_000_000_000
            self.t += int(leaves * 1e9)
            self.event(2, "role", role="LOOKING", leader=None, why="broadcast took too long")
            self.t = end
            self.milestone("left-alone", seconds=4)
        if held is not None:
            self.t += 5_000_000_000
            self.milestone("left-alone", seconds=4, why=held)
        for node, server in self.servers.items():
            if server.up:
                self.exit(node, frames=frames)
        self.milestone("stopped")

    def skip_at(self, left_out: int) -> None:
        """Let client 1 write twice. Of three nodes, `left_out` does not deliver the first write."""
        for number in (1, 2):
            seq = self.invoke()
            zxid = self.propose()
            for node in (1, 2, 3):
                if (node, number) != (left_out, 1):
                    self.deliver(node, zxid)
            self.complete(1, seq, zxid)

    def save(self, folder: Path) -> None:
        """Write the run's folder."""
        (folder / "trace").mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(self.run, indent=2) + "\n")
        (folder / "scenario.toml").write_text('[scenario]\nname = "corpus"\n')
        for (node, life), lines in self.traces.items():
            (folder / "trace" / f"node-{node}-{life}.jsonl").write_text("".join(lines))
        for name, lines in self.files.items():
            (folder / name).write_text("".join(lines))
        manifest.seal(folder)


def tree(running: int) -> str:
    """Return the digest of a tree: any function of the history serves here."""
    return dg.show(running ^ 0x5A5A5A5A5A5A5A5A)


def ensemble(nodes: int = 3, writes: int = 3, **expect: Any) -> Story:
    """Return a story with a good beginning: node 1 leads epoch 1, and all nodes have delivered some writes."""
    story = Story(nodes, **expect)
    story.start()
    story.elect(1, epoch=1)
    story.write(writes)
    return story
