"""The example for etcd (examples/etcd): its servers keep what they have confirmed, and two ways to use them do not."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.test_example_backend import ROOT, installed, judgements, shortened, zab
from tests.mounted import possible

EXAMPLE = ROOT / "examples" / "etcd"

pytestmark = [
    pytest.mark.servers,
    pytest.mark.processes,
    pytest.mark.toxiproxy,
    pytest.mark.skipif(
        shutil.which("etcd") is None, reason="there is no etcd on the PATH (apt-get install etcd-server)"
    ),
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path, EXAMPLE, "etcd = etcd_chaos:Etcd")


@pytest.mark.fuse
@pytest.mark.sample
def test_it_survives_a_power_cut_of_all_nodes(environment: dict[str, str], tmp_path: Path) -> None:
    possible()
    code, answer, _ = zab(environment, tmp_path, "run", str(EXAMPLE / "scenarios" / "outage.toml"), "--on", "etcd")
    assert (code, answer["verdict"]) == (0, "PASS"), answer["reasons"]
    assert judgements(answer)["fault took effect"] == "PASS"


def test_a_serializable_read_at_a_node_that_is_cut_off_is_stale(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["run", str(EXAMPLE / "scenarios" / "stale-read.toml"), "--on", "etcd", "--defect", "stale-reads"]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (1, "VIOLATION"), answer["reasons"]
    found = judgements(answer)
    assert (found["linearizable keys"], found["fault took effect"]) == ("VIOLATION", "PASS")


# Two followers send each other only heartbeats of their connections, about every two seconds.
BETWEEN_FOLLOWERS = """
[scenario]
name = "between-followers"
nodes = 3
duration = 10

[workload]
clients = 3
rate = 30
keys = 2

[[fault]]
at = 1
do = "partition"
shape = "bridge"
target = "leader"
for = 7
"""

UNCUT = """
from etcd_chaos import Etcd
from zab_chaos.faults.two_way_network import TwoWayNetwork

TwoWayNetwork.cut = lambda *_, **__: None
"""


@pytest.mark.parametrize(("cuts", "judged"), [(True, "PASS"), pytest.param(False, "UNKNOWN", marks=pytest.mark.sample)])
def test_a_cut_between_two_followers_is_confirmed_only_if_it_cuts(tmp_path: Path, cuts: bool, judged: str) -> None:
    environment = installed(tmp_path, EXAMPLE, "etcd = etcd_chaos:Etcd" if cuts else "etcd = uncut:Etcd")
    (tmp_path / "site" / "uncut.py").write_text(UNCUT)
    scenario = tmp_path / "between.toml"
    scenario.write_text(BETWEEN_FOLLOWERS)
    _, answer, said = zab(environment, tmp_path, "run", str(scenario), "--on", "etcd")
    assert (answer["verdict"], judgements(answer)["fault took effect"]) == (judged, judged), (answer["reasons"], said)
    (faults,) = tmp_path.glob("results/*/*/faults.jsonl")
    (heal,) = [line for line in map(json.loads, faults.read_text().splitlines()) if line["type"] == "heal"]
    assert [link["at_inject"] == link["at_heal"] for link in heal["evidence"]["links"]] == [cuts] * 2
    assert all(link["sent"] > 0 for link in heal["evidence"]["links"])


CONDITIONS = """
[scenario]
name = "conditions"
nodes = 3
duration = 6

[workload]
clients = 4
rate = 150
keys = 2
mix = { cas = 3, set = 1, get = 2, create = 1, delete = 1 }

[[fault]]
at = 1
do = "crash"
target = "leader"
for = 1

[expect]
min_acked = 20
"""

# Looks at the version first, and writes without a condition then, as some users of etcd do. In between it waits for another
# client that has seen the same version.
CARELESS = """
import threading
from collections import defaultdict
from contextlib import suppress
import etcd_chaos
from zab_chaos.harness.backends.system import Failed, Get, Ok, Set

both = defaultdict(lambda: threading.Barrier(2))

class Client(etcd_chaos.EtcdClient):
    def ask(self, request):
        if isinstance(request, Set) and request.version >= 0:
            found = super().ask(Get(request.path))
            if not isinstance(found, Ok):
                return found
            if found.version != request.version:
                return Failed("bad version", "")
            with suppress(threading.BrokenBarrierError):
                both[request.path, request.version].wait(0.5)
            return super().ask(Set(request.path, request.data))
        return super().ask(request)

class Etcd(etcd_chaos.Etcd):
    def client(self, place, timeout):
        return Client(place.client, timeout, serializable=False)
"""


@pytest.mark.parametrize(("careless", "judged"), [(False, "PASS"), (True, "VIOLATION")])
def test_writes_on_condition_of_a_revision_are_judged(tmp_path: Path, careless: bool, judged: str) -> None:
    environment = installed(tmp_path, EXAMPLE, f"etcd = {'careless' if careless else 'etcd_chaos'}:Etcd")
    (tmp_path / "site" / "careless.py").write_text(CARELESS)
    scenario = tmp_path / "conditions.toml"
    scenario.write_text(CONDITIONS)
    _, answer, said = zab(environment, tmp_path, "run", str(scenario), "--on", "etcd")
    assert (answer["verdict"], judgements(answer)["linearizable keys"]) == (judged, judged), (answer["reasons"], said)
    (ops,) = tmp_path.glob("results/*/*/ops.jsonl")
    lines = [json.loads(line) for line in ops.read_text().splitlines()]
    conditional = {(one["client"], one["seq"]) for one in lines if one.get("op") == "set" and "version" in one}
    outcomes = {one.get("error") for one in lines if (one["client"], one["seq"]) in conditional and "outcome" in one}
    assert {None, "bad version"} <= outcomes


@pytest.mark.parametrize(
    ("defect", "judged"),
    [((), "PASS"), pytest.param(("--defect", "split-transactions"), "VIOLATION", marks=pytest.mark.sample)],
)
def test_transactions_are_judged_together(
    environment: dict[str, str], tmp_path: Path, defect: tuple[str, ...], judged: str
) -> None:
    scenario = shortened(EXAMPLE, "transactions", tmp_path, faults=1, seconds=4)
    _, answer, said = zab(environment, tmp_path, "run", scenario, "--on", "etcd", *defect)
    assert (answer["verdict"], judgements(answer)["linearizable keys"]) == (judged, judged), (answer["reasons"], said)
    (ops,) = tmp_path.glob("results/*/*/ops.jsonl")
    lines = [json.loads(line) for line in ops.read_text().splitlines()]
    committed = {(one["client"], one["seq"]) for one in lines if one.get("values") is not None}
    assert {one.get("op") for one in lines if (one["client"], one["seq"]) in committed} >= {"transaction", "multi-get"}


@pytest.mark.parametrize(
    ("scenario", "defect", "judged"),
    [
        ("lists", [], "PASS"),
        pytest.param("lists", ["--defect", "stale-reads"], "VIOLATION", marks=pytest.mark.sample),
        ("serializable-lists", ["--defect", "stale-reads"], "PASS"),
    ],
)
def test_transactions_on_lists_are_judged_by_the_level_that_is_asked_for(
    environment: dict[str, str], tmp_path: Path, scenario: str, defect: list[str], judged: str
) -> None:
    """A stale read at a node that is cut off has a place in an order of all transactions, but not in real time."""
    words = ["run", shortened(EXAMPLE, scenario, tmp_path, faults=1, seconds=6), "--on", "etcd", *defect]
    _, answer, said = zab(environment, tmp_path, *words)
    assert answer["verdict"] == judgements(answer)["isolation"] == judged, (answer["reasons"], said)
    (run,) = tmp_path.glob("results/*/*/run.json")
    level = "serializable" if scenario == "serializable-lists" else "strict-serializable"
    assert json.loads(run.read_text())["expect"]["isolation"] == level
    lines = [json.loads(line) for line in run.with_name("ops.jsonl").read_text().splitlines()]
    answers = {(one["client"], one["seq"]): one for one in lines if one["type"] == "complete"}
    kinds = [(one["op"], answers[one["client"], one["seq"]].get("error")) for one in lines if one["type"] == "invoke"]
    assert {("list-append", None), ("list-append", "conflict"), ("list-read", None)} <= set(kinds)


# A list that is read and written back without a condition, as some users of etcd do.
BLIND = """
import json
import etcd_chaos
from zab_chaos.harness.backends.system import Append, Get, Set, committed

class Client(etcd_chaos.EtcdClient):
    def ask(self, request):
        found, steps = [], getattr(request, "steps", None)
        if steps is None:
            return super().ask(request)
        for step in steps:
            held = super().ask(Get(step.path))
            elements = json.loads(getattr(held, "data", None) or "[]")
            if isinstance(step, Append):
                super().ask(Set(step.path, json.dumps([*elements, step.element]).encode()))
            else:
                found.append(elements)
        return committed(found)

class Etcd(etcd_chaos.Etcd):
    isolation = "read-committed"

    def client(self, place, timeout):
        return Client(place.client, timeout)
"""


def test_lost_appends_are_found_at_a_weak_level_too(tmp_path: Path) -> None:
    environment = installed(tmp_path, EXAMPLE, "etcd = blind:Etcd")
    (tmp_path / "site" / "blind.py").write_text(BLIND)
    scenario = shortened(EXAMPLE, "lists", tmp_path, faults=0, seconds=3)
    _, answer, said = zab(environment, tmp_path, "run", scenario, "--on", "etcd")
    assert answer["verdict"] == judgements(answer)["isolation"] == "VIOLATION", (answer["reasons"], said)


# Reads of the node's own copy, in a backend that says so. Or of the copies of all nodes, in turn.
SERIALIZABLE = """
import itertools
import etcd_chaos
from zab_chaos.harness.backends.system import Get

class Client(etcd_chaos.EtcdClient):
    def __init__(self, places, place, timeout):
        self.others = [etcd_chaos.EtcdClient(one.client, timeout, serializable=True) for one in places]
        self.next = itertools.cycle(self.others)
        super().__init__(place.client, timeout)

    def ask(self, request):
        return next(self.next).ask(request) if isinstance(request, Get) else super().ask(request)

    def hang_up(self):
        for one in self.others:
            one.close()
        super().hang_up()

class Etcd(etcd_chaos.Etcd):
    stale_reads = True

    def client(self, place, timeout):
        return etcd_chaos.EtcdClient(place.client, timeout, serializable=True)

class Roaming(Etcd):
    places = {}

    def command(self, place, defect):
        self.places[place.node] = place
        return super().command(place, defect)

    def client(self, place, timeout):
        return Client(self.places.values(), place, timeout)
"""


CUT_OFF = """
[scenario]
name = "cut-off"
nodes = 3
duration = 3

[workload]
clients = 3
rate = 60
keys = 1
mix = { get = 3, set = 1 }
timeout = 1

[[fault]]
at = 0.5
do = "partition"
target = "follower"
for = 2
"""


@pytest.mark.parametrize(("backend", "judged"), [("Etcd", "PASS"), ("Roaming", "VIOLATION")])
def test_reads_may_be_stale_if_the_backend_says_so_but_no_session_goes_back(
    tmp_path: Path, backend: str, judged: str
) -> None:
    environment = installed(tmp_path, EXAMPLE, f"etcd = serializable:{backend}")
    (tmp_path / "site" / "serializable.py").write_text(SERIALIZABLE)
    scenario = tmp_path / "cut-off.toml"
    scenario.write_text(CUT_OFF)
    _, answer, said = zab(environment, tmp_path, "run", str(scenario), "--on", "etcd")
    assert (answer["verdict"], judgements(answer)["linearizable keys"]) == (judged, judged), (answer["reasons"], said)
