"""The checker that equal histories make equal states (LADIS 2008, section 2: digests as sanity checks)."""

from typing import ClassVar

from zab_chaos.model.events import Boot, Deliver, FinalZnode, Snapshot, TreeDiffers, packed
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import BY_NODES, Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.znodes import ROOT, Znode, Znodes, is_zookeepers_own
from zab_chaos.node.core import digest as dg


class StateEquality(Checker):
    """LADIS 2008: replicas that have delivered the same messages are in the same state.

    Verifies:

    - The running digest that a node reports at a zxid (with a delivery or a snapshot) is the one computed here from the
      delivered history.
    - The digest of the tree at a zxid is the same wherever it is reported, and no server found by itself that its tree
      differs from that of its leader.
    - A snapshot holds nothing but delivered transactions (ZOOKEEPER-1549, 4837).
    - Where the tree itself is on record, the data, version, owner, zxids and count of child changes of each znode are
      what the delivered transactions make of them.

    Does not compare trees at zxids that only one node reported, nor trees whose digests collide.
    """

    name = "state equality"
    source = "LADIS 2008"
    statement = "Nodes that have delivered up to the same zxid have the same digests of history and tree."
    judged_from = BY_NODES | {"tree.jsonl"}
    what: ClassVar[str] = "tree"

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._trees: dict[int, Deliver | Snapshot] = {}  # by zxid: the first event that shows a tree

    def on_deliver(self, delivery: Delivery) -> None:
        event = delivery.event
        self._check_history(delivery.last, delivery.running_digest, event.digest, event)
        self._check_tree(delivery.last, event)

    def on_snapshot(self, event: Snapshot) -> None:
        zxid, history = packed(event.zxid), self.facts.history
        expected = history.digest_at(zxid)
        lost = event.kind == "restored" and self.facts.nodes[event.node].position.diverged
        if lost or (expected is None and history.forked_delivery(zxid) is None):
            self._report_unknown_state(event, zxid, event.kind)
        elif event.kind == "taken":
            delivered = self.facts.nodes[event.node].position.last
            if zxid > delivered:
                self.findings.add(
                    f"node {event.node} took a snapshot at {show(zxid)} when it had delivered up to {show(delivered)}: "
                    f"the snapshot holds what was not committed",
                    [event],
                    {event.node},
                )
        if event.digest is not None:
            self._check_history(zxid, expected, event.digest, event)
        if event.tree is not None:
            self._check_tree(zxid, event)

    def on_differs(self, event: TreeDiffers) -> None:
        self.checked += 1
        self.findings.add(
            f"node {event.node} found that its tree differs from its leader's at {show(event.zxid)}",
            [event],
            {event.node},
        )

    def on_boot(self, event: Boot) -> None:
        zxid = packed(event.snapshot_zxid)
        if self.facts.nodes[event.node].position.diverged:
            self._report_unknown_state(event, zxid, "restored")
        elif event.digest is not None:
            self._check_history(zxid, self.facts.history.digest_at(zxid), event.digest, event)

    def _check_history(self, zxid: int, expected: int | None, digest: str, event: Boot | Deliver | Snapshot) -> None:
        if expected is None:
            return  # the zxid is not in the history: agreement or the check of snapshots reports that
        self.checked += 1
        if dg.show(expected) != digest:
            author = self.facts.history.first_delivery(self.facts.history.index(zxid) or 0) if zxid else None
            (found,) = dg.read_all(digest)
            other = None if self.findings.full else self.facts.history.zxid_with(found)
            self.findings.add(
                f"node {event.node} has the history's digest {digest} at {show(zxid)}, but the history delivered up to there "
                f"has {dg.show(expected)}"
                + (f"; {digest} is its digest at {show(other)}" if other is not None else ""),
                [author if author is not event else None, event],
            )

    def _check_tree(self, zxid: int, event: Deliver | Snapshot) -> None:
        self.checked += 1
        first = self._trees.setdefault(zxid, event)
        if first.tree != event.tree:
            self.findings.add(
                f"at {show(zxid)} the {self.what} of node {event.node} has digest {event.tree}, but that of node "
                f"{first.node} has {first.tree}",
                [first, event],
                frozenset(),
            )

    # ---- the tree itself ----

    def at_end(self) -> None:
        if not self.facts.tree:
            return
        state = self._state_at(packed(self.facts.tree[0].zxid))
        if state is None:
            return
        final = {znode.path: znode for znode in self.facts.tree}
        for path in sorted(final.keys() | {path for path in state.by_path if not is_zookeepers_own(path)}):
            self._compare(path, final.get(path), state.by_path.get(path))

    def _state_at(self, upto: int) -> Znodes | None:
        """Apply the delivered transactions up to a zxid. Return None if the content of one is not known."""
        state = Znodes()
        for zxid, txn in zip(self.facts.history.zxids, self.facts.effects.txns, strict=True):
            if zxid > upto:
                break
            if txn is None:
                return None
            for step in txn[2]:
                state.apply(zxid, step)
        return state

    def _compare(self, path: str, final: FinalZnode | None, made: Znode | None) -> None:
        self.checked += 1
        if final is not None and made is not None:
            right = _expected_fields(path, made)
            wrong = [
                f"{name} {value}, not {right[name]}"
                for name, value in _final_fields(final).items()
                if value != right[name]
            ]
            creator = self.facts.effects.txn_at(made.created_zxid)
            # A negative owner marks a container or a TTL znode.
            if final.owner > 0 and creator is not None and creator[0] != final.owner:
                wrong.append(f"owner {final.owner:#x}, which did not make it,")
            if wrong:
                by = self.facts.effects.broadcast(made.changed_zxid)
                self.findings.add(
                    f"all servers show {path} with {', '.join(wrong)} as the history makes it", [by, final]
                )
        elif made is not None:
            by = self.facts.effects.broadcast(made.changed_zxid)
            self.findings.add(
                f"no server shows {path} in the end, which the history has since {show(made.created_zxid)}",
                [by, self.facts.tree[0]],
            )
        else:
            self.findings.add(f"all servers show {path} in the end, which the history does not have", [final])

    def _report_unknown_state(self, event: Boot | Snapshot, zxid: int, done: str) -> None:
        did = {"taken": "took", "installed": "installed", "restored": "restored"}[done]
        self.checked += 1
        self.findings.add(
            f"node {event.node} {did} a snapshot at {show(zxid)}, which is not in the delivered history",
            [event],
        )


def _final_fields(final: FinalZnode) -> dict[str, object]:
    return {
        "data": final.value, "version": final.version, "czxid": show(final.created), "mzxid": show(final.changed),
        "cversion": final.children_version, "pzxid": show(final.children_changed),
    }  # fmt: skip


def _expected_fields(path: str, made: Znode) -> dict[str, object]:
    """Return the fields that servers should show. The root has ZooKeeper's own child in addition, and its cversion starts
    at -1."""
    children = made.created_children + made.deleted_children - (path == ROOT)
    return {
        "data": made.value, "version": made.version, "czxid": show(made.created_zxid), "mzxid": show(made.changed_zxid),
        "cversion": children, "pzxid": show(made.children_zxid),
    }  # fmt: skip
