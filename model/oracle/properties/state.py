"""Equal histories make equal states (LADIS 2008, section 2: digests as sanity checks)."""

from zab_chaos.model.events import Boot, Deliver, FinalZnode, Snapshot, TreeDiffers, packed
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.znodes import ROOT, Znode, Znodes
from zab_chaos.node.core import digest as dg

OWN = "/zookeeper"  # ZooKeeper's own znodes, which it makes without a transaction


class StateEquality(Checker):
    """LADIS 2008: replicas that have delivered the same messages are in the same state.

    Verifies that the running digest which a node reports at a zxid (with a delivery or a snapshot) is the one computed
    here from the history; that the tree's digest at a zxid is the same wherever it is reported; that no server has itself found
    its tree to be another one than its leader's; that a snapshot holds
    nothing but delivered transactions (ZOOKEEPER-1549, 4837); and, where the tree itself is on record, that each znode's
    data, version, owner, zxids and count of changes of its children are what the delivered transactions make of them. Does not
    compare trees at zxids that only one node reported, nor trees whose digests collide.
    """

    name = "state equality"
    source = "LADIS 2008"
    statement = "Nodes that have delivered up to the same zxid have the same digests of history and tree."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._trees: dict[int, tuple[str, Deliver | Snapshot]] = {}

    def on_deliver(self, delivery: Delivery) -> None:
        event = delivery.event
        self._history(delivery.last, delivery.running_digest, event.digest, event)
        self._tree(delivery.last, event.tree, event)

    def on_snapshot(self, event: Snapshot, known: bool) -> None:
        zxid = packed(event.zxid)
        if not known:
            self._unknown(event, zxid)
        if event.kind == "taken":
            delivered = self.facts.nodes[event.node].position.last
            if zxid > delivered:
                self.findings.add(
                    f"node {event.node} took a snapshot at {show(zxid)} when it had delivered up to {show(delivered)}: "
                    f"the snapshot holds what was not committed",
                    [event],
                )
        if event.digest is not None:
            self._history(zxid, self.facts.history.digest_at(zxid), event.digest, event)
        if event.tree is not None:
            self._tree(zxid, event.tree, event)

    def on_differs(self, event: TreeDiffers) -> None:
        self.checked += 1
        self.findings.add(
            f"node {event.node} has itself found its tree to be another one than its leader's at {show(event.zxid)}",
            [event],
        )

    def on_boot(self, event: Boot, known: bool) -> None:
        zxid = packed(event.snapshot_zxid)
        if not known:
            self._unknown(event, zxid)
        elif event.digest is not None:
            self._history(zxid, self.facts.history.digest_at(zxid), event.digest, event)

    def _history(self, zxid: int, expected: int | None, digest: str, event: Boot | Deliver | Snapshot) -> None:
        if expected is None:
            return  # not a point of the history: agreement or the snapshot's own check has more to say
        self.checked += 1
        if dg.show(expected) != digest:
            author = self.facts.history.first_delivery(self.facts.history.index(zxid) or 0) if zxid else None
            self.findings.add(
                f"node {event.node} has digest {digest} at {show(zxid)}, but the history delivered up to there has "
                f"{dg.show(expected)}",
                [author if author is not event else None, event],
            )

    def _tree(self, zxid: int, tree: str, event: Deliver | Snapshot) -> None:
        self.checked += 1
        known, first = self._trees.setdefault(zxid, (tree, event))
        if known != tree:
            self.findings.add(
                f"at {show(zxid)} the tree of node {event.node} has digest {tree}, but that of node {first.node} has "
                f"{known}",
                [first, event],
            )

    # ---- the tree itself ----

    def at_end(self) -> None:
        if not self.facts.tree:
            return
        state = self._made_by_history(packed(self.facts.tree[0].zxid))
        if state is None:
            return
        kept = {znode.path: znode for znode in self.facts.tree}
        for path in sorted(kept.keys() | {path for path in state.by_path if not path.startswith(OWN)}):
            self._compare(path, kept.get(path), state.by_path.get(path))

    def _made_by_history(self, upto: int) -> Znodes | None:
        """None where nothing says what some transaction does."""
        state = Znodes()
        for zxid, txn in zip(self.facts.history.zxids, self.facts.effects.txns, strict=True):
            if zxid > upto:
                break
            if txn is None:
                return None
            for step in txn[2]:
                state.apply(zxid, step)
        return state

    def _compare(self, path: str, kept: FinalZnode | None, made: Znode | None) -> None:
        self.checked += 1
        if kept is not None and made is not None:
            right = _told(path, made)
            wrong = [
                f"{name} {shown}, not {right[name]}" for name, shown in _shown(kept).items() if shown != right[name]
            ]
            maker = self.facts.effects.txn_at(made.created_zxid)
            if kept.owner > 0 and maker is not None and maker[0] != kept.owner:  # below 0 stand containers and TTLs
                wrong.append(f"owner {kept.owner:#x}, which did not make it,")
            if wrong:
                by = self.facts.effects.broadcast(made.changed_zxid)
                self.findings.add(
                    f"all servers show {path} with {', '.join(wrong)} as the history makes it", [by, kept]
                )
        elif made is not None:
            by = self.facts.effects.broadcast(made.changed_zxid)
            self.findings.add(
                f"no server shows {path} in the end, which the history has since {show(made.created_zxid)}", [by]
            )
        else:
            self.findings.add(f"all servers show {path} in the end, which the history does not have", [kept])

    def _unknown(self, event: Boot | Snapshot, zxid: int) -> None:
        self.checked += 1
        self.findings.add(
            f"node {event.node} restored a snapshot at {show(zxid)}, which is no point of the delivered history",
            [event],
        )


def _shown(kept: FinalZnode) -> dict[str, object]:
    return {
        "data": kept.value, "version": kept.version, "czxid": show(kept.created), "mzxid": show(kept.changed),
        "cversion": kept.children_version, "pzxid": show(kept.children_changed),
    }  # fmt: skip


def _told(path: str, made: Znode) -> dict[str, object]:
    """What is to be shown. The root has one child more than was ever created, ZooKeeper's own, and counts from there."""
    children = made.created_children + made.deleted_children - (path == ROOT)
    return {
        "data": made.value, "version": made.version, "czxid": show(made.created_zxid), "mzxid": show(made.changed_zxid),
        "cversion": children, "pzxid": show(made.children_zxid),
    }  # fmt: skip
