"""The paths of znodes (ZooKeeper's PathUtils)."""

import tracemalloc

import pytest

from zab_chaos.node.tree.outcomes import Failed
from zab_chaos.node.tree.paths import name_of, parent_of, path_error
from zab_chaos.node.tree.refusal import WORDS_MAX, bad_version, brief
from zab_chaos.node.tree.requests import Get
from zab_chaos.node.tree.tree import Tree


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a.b", "/..a", "/a..", "/ä/日本", "/with space", "/-_=+"])
def test_a_valid_path_has_no_error(path: str) -> None:
    assert path_error(path) is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "does not begin"),
        ("a", "does not begin"),
        ("/a/", "ends with"),
        ("//", "ends with"),
        ("//a", "the name ''"),
        ("/a//b", "the name ''"),
        ("/./a", "the name '.'"),
        ("/a/..", "the name '..'"),
        ("/a\0b", r"'\x00' at position 2"),
        ("/\x1f", r"'\x1f'"),
        ("/\x9f", r"'\x9f'"),
        ("/\ud800", r"'\ud800'"),
        ("/\uf8ff", r"'\uf8ff'"),
        ("/\uffff", r"'\uffff'"),
    ],
)
def test_the_error_of_an_invalid_path_names_the_fault(path: str, words: str) -> None:
    assert words in (path_error(path) or "")


def test_long_paths_are_not_kept_in_memory() -> None:
    """Any client may ask for many different ones."""
    tracemalloc.start()
    for number in range(20):
        assert path_error(f"/{number}{'a' * 1_000_000}/") is not None
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_parents_and_names() -> None:
    assert (parent_of("/a"), name_of("/a")) == ("/", "a")
    assert (parent_of("/a/b/c"), name_of("/a/b/c")) == ("/a/b", "c")


def test_a_refusal_says_little_of_a_long_path() -> None:
    tree = Tree()
    for path in ("/" + "x" * 10**6, "\U000e0001" * 10**6, "/" + "\x01" * 10**6):
        refused = tree.read(Get(path))
        assert isinstance(refused, Failed)
        assert len(refused.words) <= WORDS_MAX + len("...")


def test_a_shortened_refusal_keeps_its_beginning_and_its_end() -> None:
    words = brief(bad_version("/" + "x" * 1000, 7, 8).words)
    assert words.startswith("/xxx")
    assert words.endswith("xxx is at version 8, not 7")
    assert brief("short") == "short"
