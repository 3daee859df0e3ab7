"""What a client may ask: conditional writes, and reads. Decoded once, at the door, into these types.

A write says what is to change and under which condition; the primary turns it into a transaction, which says what the
result is (`zab_chaos.node.tree.txns`). `version` is the version that the znode must have, or `ANY`.

On the way of every write they are told apart with `type(...) is`: `isinstance` takes five times as long for a class of msgspec.
"""

from typing import final

from zab_chaos.node.core.messages import Wire

ANY = -1  # no condition on the version


@final
class Create(Wire, frozen=True, tag="create", gc=False):
    """A new znode. `sequential`: the parent's counter, ten digits, is appended to the path."""

    path: str
    data: bytes = b""
    sequential: bool = False


@final
class Delete(Wire, frozen=True, tag="delete", gc=False):
    """Remove a znode that has no children."""

    path: str
    version: int = ANY


@final
class Set(Wire, frozen=True, tag="set", gc=False):
    """Replace a znode's data."""

    path: str
    data: bytes
    version: int = ANY


@final
class Check(Wire, frozen=True, tag="check", gc=False):
    """Change nothing, but fail unless the znode exists and has the version."""

    path: str
    version: int = ANY


Step = Create | Delete | Set | Check


@final
class Multi(Wire, frozen=True, tag="multi"):
    """Several writes, of which all take effect or none; each sees the effect of those before it."""

    steps: list[Step]


@final
class Get(Wire, frozen=True, tag="get", gc=False):
    """A znode's data and version."""

    path: str


@final
class Exists(Wire, frozen=True, tag="exists", gc=False):
    """Whether there is such a znode, and its version."""

    path: str


@final
class Children(Wire, frozen=True, tag="children", gc=False):
    """The names of a znode's children."""

    path: str


@final
class Fence(Wire, frozen=True, tag="fence", gc=False):
    """A node's, on behalf of a client: no write that it numbered up to this one's number takes effect after it.

    What may be outstanding of such writes, at whichever node, is ordered before the fence or refused.
    """


Write = Create | Delete | Set | Check | Multi
ForwardedRequest = Write | Fence  # what a node passes on to its leader
Read = Get | Exists | Children
Request = Write | Read
READS = (Get, Exists, Children)


def request_size(request: Request) -> int:
    """Bytes of data and characters of paths in a request: of a write, what is held against the limit on one request."""
    if type(request) is Set or type(request) is Create:
        return len(request.path) + len(request.data)
    if type(request) is Multi:
        return sum(map(request_size, request.steps))
    return len(request.path)
