"""The judge's own tree of znodes, made by the delivered transactions. It shares no code with the nodes' tree."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from zab_chaos.model.events import Effect, Invoke, RequestStep
from zab_chaos.model.oracle.evidence import show

RequestedStep = Invoke | RequestStep
ROOT = "/"
SYSTEM_PATH = "/zookeeper"  # ZooKeeper creates this znode, and those below it, without a transaction
_PLAIN = re.compile(r"(/[\w-][\w.-]*)+", re.ASCII)
_DOTS = frozenset({".", ".."})  # these are no names of znodes
DIGITS = 10  # least number of digits in the name of a sequential znode

NO_NODE, NODE_EXISTS, NO_PARENT = "no node", "node exists", "no parent"
BAD_VERSION, NOT_EMPTY = "bad version", "not empty"
STATE_ERRORS = frozenset({NO_NODE, NODE_EXISTS, NO_PARENT, BAD_VERSION, NOT_EMPTY})  # refusals that depend on the state


def is_zookeepers_own(path: str) -> bool:
    return f"{path}/".startswith(f"{SYSTEM_PATH}/")


@dataclass(slots=True, eq=False)
class Znode:
    """A znode. `value` is the CRC-32 of its data.

    `created_zxid`, `changed_zxid` and `children_zxid` are the transactions of its creation, of its last change, and of
    the last change of its list of children. `created_children` and `deleted_children` count the children that were ever
    created and deleted.
    """

    value: int | None
    created_zxid: int = 0
    changed_zxid: int = 0
    children_zxid: int = 0
    version: int = 0
    children: set[str] = field(default_factory=set)
    created_children: int = 0
    deleted_children: int = 0


class Znodes:
    """The tree. `apply` carries out every step, even one that is impossible in this state; `flaw` finds those."""

    def __init__(self) -> None:
        self.by_path: dict[str, Znode] = {ROOT: Znode(0)}

    def flaw(self, step: Effect, asked: RequestedStep | None) -> str | None:
        """Describe why a delivered step can't have been prepared in this state, None if it can. `asked` is the requested
        step."""
        op, path, version, _value = step
        node = self.by_path.get(path)
        if op == "create":
            return self._create_flaw(path, version, node, asked)
        if node is None:
            return f"{op}s {path}, which does not exist"
        if asked is not None and asked.version is not None and asked.version != node.version:
            return f"{op}s {path} at version {node.version}, on condition that it is at version {asked.version}"
        if op == "set":
            if version == node.version + 1:
                return None
            made = f"{show(node.changed_zxid)} made version {node.version}"
            return f"sets {path} to version {version} where {node.version + 1} was next: {made}"
        if op == "check":
            return None if version == node.version else f"finds {path} at version {version}, not {node.version}"
        return f"deletes {path}, which has children" if node.children else None

    def _create_flaw(
        self, path: str, version: int | None, node: Znode | None, asked: RequestedStep | None
    ) -> str | None:
        if node is not None:
            return f"creates {path}, which exists"
        if name_of(path) in _DOTS:
            return f"creates {path}, which is not a valid path"
        parent = self.by_path.get(parent_of(path))
        if parent is None:
            return f"creates {path}, whose parent does not exist"
        if version != 0:
            return f"creates {path} with version {version}"
        if asked is not None and asked.sequential and path != _numbered(asked.path, parent.created_children):
            made = f"{show(parent.children_zxid)} was the last to change the children of {parent_of(path)}"
            return f"creates {path} where number {parent.created_children} was next: {made}"
        return None

    def apply(self, zxid: int, step: Effect) -> None:
        """Apply a delivered step."""
        op, path, version, value = step
        if op == "create":
            self.by_path[path] = Znode(value, zxid, zxid, zxid)
            parent = self.by_path.get(parent_of(path))
            if parent is not None:
                parent.created_children += 1
                parent.children_zxid = zxid
                parent.children.add(name_of(path))
        elif op == "set":
            node = self.by_path.get(path) or self.by_path.setdefault(path, Znode(value))
            node.version, node.value, node.changed_zxid = version or 0, value, zxid
        elif op == "delete":
            self.by_path.pop(path, None)
            parent = self.by_path.get(parent_of(path))
            if parent is not None:
                parent.deleted_children += 1
                parent.children_zxid = zxid
                parent.children.discard(name_of(path))

    def expected_error(self, steps: Sequence[RequestedStep]) -> str | None:
        """Return the error with which a request of these steps must be refused in this state, None if it must succeed."""
        state = self._copy_of_part(steps) if len(steps) > 1 else self
        for number, step in enumerate(steps, 1):
            error = state._expected_error(step)
            if error is not None:
                return error
            if number < len(steps):
                state._perform(step)
        return None

    def _expected_error(self, asked: RequestedStep) -> str | None:
        if asked.op == "create":
            parent = self.by_path.get(parent_of(asked.path))
            if parent is None:
                return NO_PARENT
            path = _numbered(asked.path, parent.created_children) if asked.sequential else asked.path
            return NODE_EXISTS if path in self.by_path else None
        node = self.by_path.get(asked.path)
        if node is None:
            return NO_NODE
        if asked.version is not None and asked.version != node.version:
            return BAD_VERSION
        return NOT_EMPTY if asked.op == "delete" and node.children else None

    def _perform(self, asked: RequestedStep) -> None:
        """Apply a requested step that is not refused."""
        path = asked.path
        if asked.op == "create":
            numbered = _numbered(path, self.by_path[parent_of(path)].created_children) if asked.sequential else path
            self.apply(0, ("create", numbered, 0, asked.value))
        elif asked.op == "set":
            self.apply(0, ("set", path, self.by_path[path].version + 1, asked.value))
        elif asked.op == "delete":
            self.apply(0, ("delete", path, None, None))

    def _copy_of_part(self, steps: Sequence[RequestedStep]) -> "Znodes":
        """Copy the part of the state that these steps can depend on."""
        part = Znodes()
        for step in steps:
            above = self.by_path.get(parent_of(step.path))
            first = above.created_children if above is not None and step.sequential else 0
            numbered = [_numbered(step.path, first + n) for n in range(len(steps))] if step.sequential else [step.path]
            for path in (parent_of(step.path), *numbered):
                node = self.by_path.get(path)
                if node is not None:
                    part.by_path[path] = replace(node, children=set(node.children))
        return part


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _numbered(path: str, number: int) -> str:
    """Return the path of a sequential znode with this number."""
    return f"{path}{number:0{DIGITS}d}"


def without_number(path: str) -> str:
    """Return the path with which a sequential znode was requested. Meaningless for another znode."""
    return path[:-DIGITS]


def is_ordinary(asked: RequestedStep) -> bool:
    """Return whether the path, with its number if it gets one, and the version are certainly valid. Others may be valid,
    too."""
    path = _numbered(asked.path, 0) if asked.sequential else asked.path
    return _PLAIN.fullmatch(path) is not None and is_encodable(asked)


def is_encodable(asked: RequestedStep) -> bool:
    """Return whether a client can certainly send this step. Other steps may be encodable, too."""
    return asked.path.isascii() and abs(asked.version or 0) < 2**31


def is_impossible(asked: RequestedStep) -> bool:
    """Return whether the path makes this step impossible in every state. Other paths may do so, too."""
    path = asked.path
    ends_badly = path.endswith("/") and path != ROOT and not asked.sequential
    # A number follows the last name of a sequential znode.
    has_dots = not _DOTS.isdisjoint(path.split("/")[: -1 if asked.sequential else None])
    return (
        not path.startswith(ROOT) or "//" in path or ends_badly or has_dots or (asked.op == "delete" and path == ROOT)
    )


def is_sequential_name(path: str, asked: str) -> bool:
    """Return whether `path` is `asked` followed by the number of a sequential znode."""
    number = path[len(asked) :]
    return path.startswith(asked) and len(number) >= DIGITS and number.isdecimal() and number.isascii()
