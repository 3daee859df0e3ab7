"""ZooKeeper's rules for the paths of znodes (`PathUtils.validatePath`)."""

import re
from functools import lru_cache

ROOT = "/"

# Control characters, surrogates and private use, and the last block of Unicode's first plane. ZooKeeper refuses them because
# they can't be shown or can't be encoded.
_FORBIDDEN = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]")


REMEMBERED = 1024  # characters of a path; 4,096 paths of the largest requests would take gigabytes


def path_error(path: str) -> str | None:
    """Return what is wrong with `path`, in words, or None if it is valid."""
    return _remembered_error(path) if len(path) <= REMEMBERED else _error(path)


def _error(path: str) -> str | None:
    if not path.startswith("/"):
        return f"the path {path!r} does not begin with '/'"
    if path == ROOT:
        return None
    if path.endswith("/"):
        return f"the path {path!r} ends with '/'"
    found = _FORBIDDEN.search(path)
    if found:
        return f"the path {path!r} has a character that is not allowed, {found.group()!a} at position {found.start()}"
    for name in path[1:].split("/"):
        if name in ("", ".", ".."):
            return f"the path {path!r} has the name {name!r} in it; names must not be empty, '.' or '..'"
    return None


_remembered_error = lru_cache(maxsize=4096)(_error)


def parent_of(path: str) -> str:
    """Return the path of the parent znode. `path` is valid and not the root."""
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    """Return the last name in `path`."""
    return path.rpartition("/")[2]
