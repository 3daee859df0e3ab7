"""The requests of clients: conditional writes, and reads. They are decoded into these types once, when they arrive.

A write says what is to change and under which condition. The primary turns it into a transaction, which says what the
result is (`zab_chaos.node.tree.txns`). `version` is the version that the znode must have, or `ANY`.

Code on the path of every write distinguishes them with `type(...) is`: `isinstance` takes five times as long for a msgspec
class.
"""

from typing import final

from zab_chaos.node.core.messages import Wire

ANY = -1  # no condition on the version


@final
class Create(Wire, frozen=True, tag="create", gc=False):
    """Create a znode. `sequential`: the parent's counter, ten digits, is appended to the path."""

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
    """Several writes, of which all take effect or none; each sees the effects of those before it."""

    steps: list[Step]


@final
class Get(Wire, frozen=True, tag="get", gc=False):
    """Read a znode's data and version."""

    path: str


@final
class Exists(Wire, frozen=True, tag="exists", gc=False):
    """Read whether a znode exists, and its version."""

    path: str


@final
class Children(Wire, frozen=True, tag="children", gc=False):
    """Read the names of a znode's children."""

    path: str


@final
class Fence(Wire, frozen=True, tag="fence", gc=False):
    """A fence, which a node requests for one of its clients: no write of the client with this seq or a lower one takes
    effect later.

    Such writes that are outstanding, at whichever node, are ordered before the fence or refused.
    """


Write = Create | Delete | Set | Check | Multi
ForwardedRequest = Write | Fence  # what a node forwards to its leader
Read = Get | Exists | Children
Request = Write | Read
READS = frozenset((Get, Exists, Children))

# A step of a Multi also has a name, a version and lengths; otherwise a million steps would count as nearly nothing.
STEP_BYTES = 32


def request_size(request: Request) -> int:
    """Return the bytes of data and characters of paths in a request, which a write's size limit applies to.

    Each step of a Multi counts `STEP_BYTES` more.
    """
    if type(request) is Set or type(request) is Create:
        return len(request.path) + len(request.data)
    if type(request) is Multi:
        return sum([STEP_BYTES + request_size(step) for step in request.steps])
    return len(request.path)
