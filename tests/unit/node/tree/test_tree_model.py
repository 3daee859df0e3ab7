"""The tree and its primary against a naive dictionary, and properties of every history."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.tree.outcomes import Failed, Ok
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.refusal import Refusal
from zab_chaos.node.tree.requests import Check, Children, Create, Delete, Exists, Get, Multi, Set, Write
from zab_chaos.node.tree.tree import StateError, Tree
from zab_chaos.node.tree.txns import Origin


def origins() -> Iterator[Origin]:
    """Yield origins of three clients in turn, each with ascending seqs."""
    for seq in itertools.count(1):
        yield Origin(1, 1, seq % 3, seq)


paths = st.sampled_from(["/", "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a", "/a/a/b", "/a/n-0000000001", "bad"])
datas = st.binary(max_size=3)
versions = st.sampled_from([-1, -1, -1, 0, 1, 2])
steps = st.one_of(
    st.builds(Create, paths, datas),
    st.builds(Create, st.sampled_from(["/a/n-", "/", "/a/a/"]), datas, st.just(True)),
    st.builds(Delete, paths, versions),
    st.builds(Set, paths, datas, versions),
    st.builds(Check, paths, versions),
)
writes = st.one_of(steps, steps, steps, st.builds(Multi, st.lists(steps, min_size=1, max_size=4)))


class Naive:
    """One dictionary: path -> [data, version, children ever created]. Every write takes effect at once."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[Any]] = {"/": [b"", 0, 0]}

    def write(self, request: Write) -> bool:
        before = copy.deepcopy(self.nodes)
        done = all(self.step(each) for each in (request.steps if isinstance(request, Multi) else [request]))
        if not done:
            self.nodes = before
        return done

    def step(self, step: Any) -> bool:
        if isinstance(step, Create):
            return self.create(step)
        node = self.nodes.get(step.path)
        if node is None or step.version not in (-1, node[1]):
            return False
        if isinstance(step, Set):
            node[:2] = [step.data, node[1] + 1]
        if isinstance(step, Delete):
            if step.path == "/" or self.children(step.path):
                return False
            del self.nodes[step.path]
        return True

    def create(self, step: Create) -> bool:
        parent = self.nodes.get(step.path[: step.path.rfind("/")] or "/") if step.path.startswith("/") else None
        if parent is None:
            return False
        path = step.path + (f"{parent[2]:010d}" if step.sequential else "")
        if path in self.nodes:
            return False
        parent[2] += 1
        self.nodes[path] = [step.data, 0, 0]
        return True

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(
            p[len(prefix) :] for p in self.nodes if p.startswith(prefix) and "/" not in p[len(prefix) :] and p != "/"
        )


def check_equal(tree: Tree, naive: Naive) -> None:
    assert {path: [n.data, n.version, n.sequence] for path, n in tree.znodes.items()} == naive.nodes
    for path in ["/", "/a", "/a/a", "/b", "/nothing"]:
        node = naive.nodes.get(path)
        got, exists, children = tree.read(Get(path)), tree.read(Exists(path)), tree.read(Children(path))
        if node is None:
            assert isinstance(got, Failed)
            assert isinstance(children, Failed)
            assert exists == Ok(tree.zxid)
        else:
            assert got == Ok(tree.zxid, node[1], data=node[0])
            assert exists == Ok(tree.zxid, node[1])
            assert children == Ok(tree.zxid, node[1], children=naive.children(path))


def run(requests: list[Write]) -> tuple[list[bytes], list[Tree]]:
    """Return the transactions of the requests that were not refused, and the tree before all and after each."""
    tree = Tree()
    primary = Primary(tree)
    txns: list[bytes] = []
    origin = origins()
    trees = [copy.deepcopy(tree)]
    for request in requests:
        data = primary.prepare(request, next(origin), tree.zxid, zxid(1, len(txns) + 1))
        if isinstance(data, bytes):
            txns.append(data)
            tree.apply(zxid(1, len(txns)), data)
            primary.delivered(data)
            trees.append(copy.deepcopy(tree))
    return txns, trees


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(st.tuples(writes, st.integers(0, 3)), max_size=25))
def test_the_tree_equals_a_dictionary_whatever_is_outstanding(requests: list[tuple[Write, int]]) -> None:
    """The number says how many outstanding transactions are delivered before the request is judged."""
    tree, naive = Tree(), Naive()
    primary = Primary(tree)
    flying: list[bytes] = []
    counter = 0
    origin = origins()

    def deliver(count: int) -> None:
        nonlocal counter
        for data in flying[:count]:
            counter += 1
            tree.apply(zxid(1, counter), data)
            primary.delivered(data)
        del flying[:count]

    for request, count in requests:
        deliver(count)
        prepared = primary.prepare(request, next(origin), tree.zxid, zxid(1, counter + len(flying) + 1))
        assert isinstance(prepared, bytes) == naive.write(request), prepared
        if not isinstance(prepared, Refusal):
            flying.append(prepared)
    deliver(len(flying))
    check_equal(tree, naive)
    assert primary._futures == {}


def children(tree: Tree) -> dict[str, set[str]]:
    return {path: node.children for path, node in tree.znodes.items()}


def test_a_redelivered_delete_removes_later_children() -> None:
    """The tree is ahead: /a has children that were created after the delete that is redelivered here.

    They are created again later.
    """
    history: list[Write] = [Create("/a"), Delete("/a"), Create("/a"), Create("/a/b"), Create("/a/b/c")]
    txns, trees = run(history)
    tree = copy.deepcopy(trees[-1])
    tree.apply(zxid(1, 2), txns[1])
    assert list(tree.znodes) == ["/"]
    for number, data in enumerate(txns[2:], 3):
        tree.apply(zxid(1, number), data)
    assert (tree.digest, children(tree)) == (trees[-1].digest, children(trees[-1]))


@settings(max_examples=60)
@given(st.lists(writes, max_size=20))
def test_any_suffix_may_be_redelivered_in_order(requests: list[Write]) -> None:
    """LADIS 2008: multiple delivery is fine as long as the order is preserved.

    In every state m, everything from every k <= m on is delivered again: the final state is the same.
    """
    txns, trees = run(requests)
    final = trees[-1]
    for reached in range(len(trees)):
        for again in range(reached + 1):
            tree = copy.deepcopy(trees[reached])
            for number, data in enumerate(txns[again:], again + 1):
                tree.apply(zxid(1, number), data)
            assert (tree.digest, tree.dump(), tree.zxid) == (final.digest, final.dump(), final.zxid)
            assert children(tree) == children(final)


@settings(max_examples=60)
@given(st.lists(writes, max_size=20))
def test_the_digest_and_the_dump_depend_on_the_state_only(requests: list[Write]) -> None:
    _, trees = run(requests)
    by_digest: dict[int, bytes] = {}
    for tree in trees:
        loaded = Tree()
        loaded.load(tree.dump(), tree.zxid)
        assert (loaded.digest, loaded.dump(), loaded.zxid) == (tree.digest, tree.dump(), tree.zxid)
        assert loaded.read(Children("/")) == tree.read(Children("/"))
        assert by_digest.setdefault(tree.digest, tree.dump()) == tree.dump()


def test_every_part_of_a_znode_is_in_the_digest() -> None:
    histories: list[list[Write]] = [
        [Create("/a", b"x")],
        [Create("/b", b"x")],
        [Create("/a", b"y")],
        [Create("/a", b"x"), Set("/a", b"x")],
        [Create("/a", b"x"), Create("/a/b"), Delete("/a/b")],
        [Create("/a", b"x"), Delete("/a")],
    ]
    assert len({run(history)[1][-1].digest for history in histories}) == len(histories)


TWO: list[Write] = [Create("/a", b"1"), Create("/b", b"2")]


def test_two_histories_with_one_state_have_one_digest() -> None:
    one = run([Create("/a", b"1"), Create("/b", b"2")])[1][-1]
    other = run([Create("/b", b"0"), Delete("/b"), Create("/b", b"2"), Create("/a", b"1")])[1][-1]
    assert one.digest != other.digest  # the root has had three children, not two
    one, other = (run([*ways, Create("/c"), Set("/c", b"")])[1][-1] for ways in (TWO, TWO[::-1]))
    assert (one.digest, one.dump()) == (other.digest, other.dump())


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (b"", "is not a tree"),
        (b"\xc1 nonsense", "is not a tree"),
        (msgspec.msgpack.encode((1, [])), "format 1"),
        (msgspec.msgpack.encode((5, [], [], 0)), "format 5"),
        (msgspec.msgpack.encode((2, [], [])), "the root is missing"),
        (msgspec.msgpack.encode((2, [("/", b"", 0, 0)], [(7, 1), (7, 2)])), "its clients"),
        (msgspec.msgpack.encode((3, [])), "is not a tree"),
        (msgspec.msgpack.encode((3, [], [], 0)), "the root is missing"),
        (msgspec.msgpack.encode((3, [("/", b"", 0, 0), ("/a/b", b"", 0, 0)], [], 0)), "/a/b comes without its parent"),
        (msgspec.msgpack.encode((3, [("/", b"", 0, 0), ("/", b"", 0, 0)], [], 0)), "/ is in it twice"),
        (msgspec.msgpack.encode((3, [("/", b"", -1, 0)], [], 0)), "negative"),
        (msgspec.msgpack.encode((3, [("x", b"", 0, 0)], [], 0)), "does not begin"),
        (msgspec.msgpack.encode((3, [("/", b"", 0, 0)], [(7, 1, 1), (7, 2, 2)], 0)), "its clients"),
        (msgspec.msgpack.encode((3, [("/", b"", 0, 0)], [(7, -1, 1)], 0)), "its clients"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(state: bytes, words: str) -> None:
    tree = run([Create("/a")])[1][-1]
    before = tree.dump()
    with pytest.raises(StateError, match=words):
        tree.load(state, Zxid(9))
    assert (tree.dump(), tree.zxid) == (before, zxid(1, 1))
