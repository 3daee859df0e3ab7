"""The backend `--on etcd`: runs etcd's own servers, and asks them through their JSON gateway."""

import base64
import http.client
import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar

from zab_chaos.harness.backends.system import (
    Append,
    BlockingClient,
    Create,
    Delete,
    Failed,
    Get,
    ListTransaction,
    Outcome,
    Place,
    ReadList,
    Request,
    Set,
    SystemBackend,
    Transaction,
    committed,
    done,
)

STALE_READS, SPLIT = "stale-reads", "split-transactions"  # two ways to use etcd wrongly


class Etcd(SystemBackend):
    """Runs the `etcd` that is on the PATH, one process for each node."""

    name = "etcd"
    operations = frozenset(
        {"get", "set", "cas", "create", "delete", "transaction", "multi-get", "list-append", "list-read"}
    )
    one_address = True
    survives_wipe = False
    opaque_versions = True  # a key's mod_revision, which counts the writes of all keys
    serves_with_majority = True
    data_files: ClassVar = {"log": "member/wal/*.wal", "snapshot": "member/snap/*.snap"}
    defects: ClassVar = {"no-fsync": "--unsafe-no-fsync", STALE_READS: STALE_READS, SPLIT: SPLIT}

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        addresses = {place.node: place.address, **place.peers}
        flags = {
            "name": f"node-{place.node}",
            "data-dir": place.data,
            "listen-peer-urls": f"http://{place.listen}",
            "initial-advertise-peer-urls": f"http://{place.address}",
            "initial-cluster": ",".join(f"node-{node}=http://{address}" for node, address in addresses.items()),
            "listen-client-urls": f"http://{place.client}",
            "advertise-client-urls": f"http://{place.client}",
        }
        command = ["etcd", *(f"--{flag}={value}" for flag, value in flags.items())]
        return command if defect in (None, STALE_READS, SPLIT) else [*command, defect]

    def client(self, place: Place, timeout: float) -> "EtcdClient":
        return EtcdClient(place.client, timeout, serializable=place.defect == STALE_READS, split=place.defect == SPLIT)

    def leader(self, places: Sequence[Place]) -> int | None:
        """Return the node that says that it leads, and in the highest term if several say so."""
        terms = {}
        for place in places:
            try:
                with closing(Connection(place.client, 0.5)) as connection:
                    status = connection.ask("maintenance/status", {})
            except OSError:
                continue
            if status.get("leader") == status["header"]["member_id"]:
                terms[int(status["raftTerm"])] = place.node
        return terms[max(terms)] if terms else None


class Connection:
    """A connection to a server. Methods raise OSError, also if the answer is an error."""

    def __init__(self, address: str, timeout: float) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=timeout)
        self._connection.connect()

    def send(self, verb: str, path: str, body: str | None = None) -> bytes:
        try:
            self._connection.request(verb, path, body)
            response = self._connection.getresponse()
            answer = response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(repr(error)) from error
        if response.status != http.HTTPStatus.OK:
            raise ConnectionError(answer.decode(errors="replace").strip())
        return answer

    def ask(self, method: str, question: dict[str, Any]) -> dict[str, Any]:
        """Send a question to the JSON gateway, and return the answer."""
        return json.loads(self.send("POST", f"/v3/{method}", json.dumps(question)))

    def close(self) -> None:
        self._connection.close()


class EtcdClient(BlockingClient):
    """Each write is a transaction of etcd, on condition of the key's mod_revision: 0 means that there is no such key.

    `serializable`: reads may be answered by a node that is behind. `split`: the steps of a transaction are sent one by one.
    """

    def __init__(self, address: str, timeout: float, *, serializable: bool = False, split: bool = False) -> None:
        self._connection = Connection(address, timeout)
        self._serializable = serializable
        self._split = split
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        if isinstance(request, Transaction):
            return self._transaction(request)
        if isinstance(request, ListTransaction):
            return self._on_lists(request)
        key = {"key": key_of(request.path)}
        if isinstance(request, Get):
            found = self._connection.ask("kv/range", self._action(request)["request_range"]).get("kvs")
            return done(value(found[0]), version(found[0])) if found else no_node(request)
        action = {"request_delete_range": key} if isinstance(request, Delete) else self._action(request)
        wanted = 0 if isinstance(request, Create) else request.version  # -1: any
        compare = [{**key, "target": "MOD", "mod_revision": wanted}] if wanted >= 0 else []
        transaction = {"compare": compare, "success": [action], "failure": [{"request_range": key}]}
        answer = self._connection.ask("kv/txn", transaction)
        (result,) = answer["responses"][0].values()
        if not answer.get("succeeded"):  # then the transaction has read the key instead
            if isinstance(request, Create):
                return Failed("node exists", f"there is a key {request.path}")
            if "kvs" not in result:
                return no_node(request)
            return Failed("bad version", f"{request.path} has version {version(result['kvs'][0])}")
        if isinstance(request, Delete):
            return done() if "deleted" in result else no_node(request)
        return done(version=int(answer["header"]["revision"]))

    def _transaction(self, request: Transaction) -> Outcome:
        actions = [self._action(step) for step in request.steps]
        results = []
        for part in [[action] for action in actions] if self._split else [actions]:
            results += self._connection.ask("kv/txn", {"success": part})["responses"]
        found = [result["response_range"].get("kvs") for result in results if "response_range" in result]
        return committed([value(kvs[0]) if kvs else None for kvs in found])

    def _on_lists(self, request: ListTransaction) -> Outcome:
        """Read the lists, which are values in JSON. Write those with new elements, on condition that none has changed since."""
        paths = list(dict.fromkeys(step.path for step in request.steps))
        asked = self._connection.ask("kv/txn", {"success": [self._action(Get(path)) for path in paths]})
        held = [result["response_range"].get("kvs") for result in asked["responses"]]
        lists = {path: json.loads(value(kvs[0])) if kvs else [] for path, kvs in zip(paths, held, strict=True)}
        revisions = {path: version(kvs[0]) if kvs else 0 for path, kvs in zip(paths, held, strict=True)}
        found = []
        for step in request.steps:
            if isinstance(step, ReadList):
                found.append(list(lists[step.path]))
            else:
                lists[step.path].append(step.element)
        changed = dict.fromkeys(step.path for step in request.steps if isinstance(step, Append))
        if changed:
            compare = [{"key": key_of(path), "target": "MOD", "mod_revision": it} for path, it in revisions.items()]
            puts = [self._action(Set(path, json.dumps(lists[path]).encode())) for path in changed]
            if not self._connection.ask("kv/txn", {"compare": compare, "success": puts}).get("succeeded"):
                return Failed("conflict", "another client has changed a list in between")
        return committed(found)

    def _action(self, step: Request) -> dict[str, Any]:
        """Return the part of a transaction that reads or writes a key."""
        key = key_of(step.path)
        if isinstance(step, Get):
            return {"request_range": {"key": key, "serializable": self._serializable}}
        return {"request_put": {"key": key, "value": encoded(step.data)}}

    def hang_up(self) -> None:
        self._connection.close()


def no_node(request: Request) -> Failed:
    return Failed("no node", f"there is no key {request.path}")


def key_of(path: str) -> str:
    return encoded(path.encode())


def value(kv: dict[str, str]) -> bytes:
    return base64.b64decode(kv.get("value", ""))


def version(kv: dict[str, str]) -> int:
    return int(kv["mod_revision"])


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
