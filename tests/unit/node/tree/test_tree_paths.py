"""The paths of znodes (ZooKeeper's PathUtils)."""

import pytest

from zab_chaos.node.tree.paths import name_of, parent_of, path_error


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


def test_parents_and_names() -> None:
    assert (parent_of("/a"), name_of("/a")) == ("/", "a")
    assert (parent_of("/a/b/c"), name_of("/a/b/c")) == ("/a/b", "c")
