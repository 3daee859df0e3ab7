"""What is asked of a foreign system's nodes at the end of a run, to see whether they have converged. All of it is recorded."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import contains
from typing import cast

from zab_chaos.faults.scenario import LISTS
from zab_chaos.harness.backends.ensemble_state import listed_nodes
from zab_chaos.harness.backends.system.lists import ListKeys
from zab_chaos.harness.client.transaction import Committed, ListTransaction, Outcome, ReadList, Request, Transaction
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.results.final_state import is_conclusive
from zab_chaos.harness.workload.open_loop import reason
from zab_chaos.model.events import FINAL_CLIENTS
from zab_chaos.node.tree import requests
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.refusal import STATE_ERRORS
from zab_chaos.node.tree.requests import Check, Create, Delete, Exists, Get, Set

TIMEOUT_SECONDS = 3.0  # of a request
KINDS = ("get", "set", "exists", "cas", "check", "create", "sequential", "delete", "multi-get", "transaction", *LISTS)
MAX_KEYS = 200  # of the workload's keys that are written, and of the other keys and of the lists that are read


class FinalChecks:
    """Reads the workload's keys, and those of the others and of the lists that were written last, through each node: all
    answers must be the same. Then some node must serve each kind of operation that the load has sent, and a write of each of
    the workload's keys and of its lists that are in use. Then all are read again."""

    def __init__(
        self,
        line: Callable[[int, int, float], SocketLine],
        nodes: Callable[[], Sequence[int]],
        written: Callable[[], Sequence[str]],
        keys: Sequence[str],
        kinds: Sequence[str],
        *,
        creates: bool,
        appended: Callable[[], Sequence[str]],
        lists: ListKeys,
    ) -> None:
        """`line`: a new client, by its number, its node and its timeout. `written`: the keys that clients have written, in the
        order of the latest write. `keys`: those of the workload. `kinds`: of the operations that the load has sent. `creates`:
        what is to be deleted has to be created before. `appended`: the keys to whose lists clients have appended, in the order
        of the latest append. `lists`: the keys of those that are in use."""
        self._line = line
        self._nodes = nodes
        self._written = written
        self._keys = keys
        self._kinds = kinds
        self._creates = creates
        self._appended = appended
        self._lists = lists
        self._clients = 0  # the number of clients used so far
        self.differ = False  # whether two nodes have last shown different values
        self.begin()

    def begin(self) -> None:
        """Begin again: the faults are healed. The nodes of an ensemble in a test were asked already when it was new."""
        self._unwritten = list(self._keys[-MAX_KEYS:]) if "set" in self._kinds else []
        self._unappended = self._lists.keys[-MAX_KEYS:] if "list-append" in self._kinds else []
        self._unserved = [kind for kind in self._kinds if kind not in ("get", "set", "list-append")]

    def disagreement(self) -> str | None:
        """Return in words why the nodes have not converged; None if they have. What a node has served is not asked again."""
        why = self._difference()
        if why is None and (self._unserved or self._unwritten or self._unappended):
            why = self._unserved_kind() or self._unwritable_key() or self._unwritable_list() or self._difference()
        return why

    def _difference(self) -> str | None:
        """Return in words the first key that can't be read through all nodes with the same value, or None."""
        self.differ = False
        workload = set(self._keys)
        others = [path for path in self._written() if path not in workload][-MAX_KEYS:]
        asked: dict[str, Request] = {path: Get(path) for path in (*self._keys, *others)}
        asked |= {path: ListTransaction([ReadList(path)]) for path in self._appended()[-MAX_KEYS:]}
        held = self._ask(self._nodes(), asked)
        for path in asked:
            found = {node: answers[path] for node, answers in held.items() if path in answers}
            unread = [node for node, outcome in found.items() if not _is_conclusive(outcome)]
            if unread:
                return f"{path} can't be read through {listed_nodes(unread)}: {_words(found[unread[0]])}"
            if len({_value(outcome) for outcome in found.values()}) > 1:
                self.differ = True
                return f"{path} is not the same through {listed_nodes(self._nodes())}"
        return None

    def _unserved_kind(self) -> str | None:
        """Ask for the kinds of operations that are still unserved, and return in words the first one that no node serves."""
        outcome: Outcome | None = None
        for kind in list(self._unserved):
            for node in self._nodes():
                outcome = self._ask_for(kind, node)
                if _is_served(outcome):
                    self._unserved.remove(kind)
                    break
            else:
                return f"no node serves an operation of the kind {kind}: {_words(outcome)}"
        return None

    def _ask_for(self, kind: str, node: int) -> Outcome:
        """Ask a node for an operation of this kind, after what it needs, and return the last outcome."""
        line = self._connect(node)
        path, other = (self._keys[0], self._keys[-1]) if self._keys else ("", "")  # without keys there are only lists
        value = f"end-{self._clients}".encode()
        child = Create(f"{path}/end-{self._clients}", value)
        try:
            match kind:
                case "cas":
                    held = _answer(line, Get(path))
                    version = held.version if isinstance(held, Ok) else None
                    return held if version is None else _answer(line, Set(path, value, version))
                case "delete" if self._creates:
                    created = _answer(line, child)
                    return _answer(line, Delete(child.path)) if _is_served(created) else created
                case _:
                    others: dict[str, Request] = {
                        "create": child,
                        "sequential": Create(f"{path}/end-", value, sequential=True),
                        "delete": Delete(path),
                        "exists": Exists(path),
                        "check": Check(path),
                        "transaction": Transaction([Get(path), Set(other, value)]),
                        "multi-get": Transaction([Get(key) for key in dict.fromkeys((path, other))]),
                        "list-read": ListTransaction([ReadList(self._lists.path(key)) for key in self._lists.keys[:2]]),
                    }
                    return _answer(line, others[kind])
        finally:
            line.close()

    def _unwritable_key(self) -> str | None:
        """Write the keys that are still unwritten, and return in words the first one that no node could write, or None."""
        for node in self._nodes():
            value = f"end-{self._clients}".encode()
            answers = self._ask([node], {path: Set(path, value) for path in self._unwritten})[node]
            self._unwritten = [
                path for path in self._unwritten if path not in answers or not _is_conclusive(answers[path])
            ]
            if not self._unwritten:
                return None
        path = self._unwritten[0]
        return f"no node takes a write of {path}: {_words(answers[path])}"

    def _unwritable_list(self) -> str | None:
        """Append to the lists that still need it, and return in words the first one to which no node could append, or None."""
        outcome: Outcome | None = None
        for node in self._nodes():
            while self._unappended:
                append = self._lists.append(self._unappended[0])
                outcome = self._ask([node], {append.path: ListTransaction([append])})[node][append.path]
                if not isinstance(outcome, Committed):
                    break
                self._unappended.pop(0)
            else:
                return None
        return f"no node takes an append to {append.path}: {_words(outcome)}"

    def _ask(self, nodes: Sequence[int], asked: Mapping[str, Request]) -> dict[int, dict[str, Outcome]]:
        """Send the requests for these keys to all of these nodes at a time, and return for each the outcome of each key, up to
        the first one that is not conclusive."""
        found: dict[int, dict[str, Outcome]] = {node: {} for node in nodes}
        lines = {node: self._connect(node) for node in nodes}
        for path, request in asked.items():
            for node in lines:
                lines[node].submit(cast(requests.Request, request), partial(found[node].__setitem__, path))
            for node in list(lines):
                lines[node].wait(partial(contains, found[node], path), 2 * TIMEOUT_SECONDS)
                if not _is_conclusive(found[node][path]):
                    lines.pop(node).close()
        for line in lines.values():
            line.close()
        return found

    def _connect(self, node: int) -> SocketLine:
        self._clients += 1
        return self._line(FINAL_CLIENTS + self._clients, node, TIMEOUT_SECONDS)


def _answer(line: SocketLine, request: Request) -> Outcome:
    found: list[Outcome] = []
    line.submit(cast(requests.Request, request), found.append)  # a client of a foreign system also takes transactions
    line.wait(lambda: bool(found), 2 * TIMEOUT_SECONDS)
    return found[0]


def _is_served(outcome: Outcome) -> bool:
    """Return whether a request was carried out, or refused because of the state."""
    return isinstance(outcome, Ok | Committed) or (isinstance(outcome, Failed) and outcome.error in STATE_ERRORS)


def _is_conclusive(outcome: Outcome) -> bool:
    return isinstance(outcome, Committed) or is_conclusive(outcome)


def _words(outcome: Outcome | None) -> str:
    if isinstance(outcome, Failed | Unknown):
        return f"{'failed' if isinstance(outcome, Failed) else 'unknown'}, {reason(outcome)}"
    return "no answer"


def _value(outcome: Outcome) -> object:
    """Return what the read of a key has found, so that it can be compared: a value, or a list with its elements as text."""
    if isinstance(outcome, Committed):
        return str([[*found] for found in outcome.values if found is not None])
    return outcome.data if isinstance(outcome, Ok) else None
