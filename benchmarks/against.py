"""Measures our nodes and Apache ZooKeeper's servers in the same run, alternating, each through its own client.

Both ensembles run at the same time, without proxies, on the same disk, with fsync. While one is measured, the other only sends
heartbeats. kazoo is pure Python and becomes the bottleneck at high rates; therefore the processor time of servers and client
is given separately.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from benchmarks.ensemble import BenchmarkEnsemble, follower, processor_seconds
from benchmarks.failover import WRITES_BEFORE_KILL, SteadyLoad
from benchmarks.figures import Figure, MissingRequirement, Scale, median, percentile
from benchmarks.load import ClosedLoop, LoadResult, create_keys
from benchmarks.startup import until_first_write
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.errors import HarnessError
from zab_chaos.node.tree.outcomes import Ok
from zab_chaos.pipeline.naming import format_number

OURS = "zab-chaos"
MIB = 2**20


class Writer(Protocol):
    """A client that writes to one contender. `measure_fail_over` returns milliseconds."""

    def create_keys(self, keys: int) -> None: ...
    def writes(self, count: int, keys: int, payload: int) -> LoadResult: ...
    def measure_fail_over(self, kill: Callable[[], int], scale: Scale) -> float: ...


class Contender(Protocol):
    """An ensemble that is measured. On entry none of its nodes is up. `settle` waits for a leader and returns it."""

    name: str

    @property
    def cluster(self) -> ProcessCluster: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: Any) -> None: ...
    def start(self) -> None: ...
    def settle(self) -> int: ...
    def first_write(self) -> bool: ...
    def writer(self, node: int, outstanding: int) -> Any: ...
    def memory(self) -> dict[int, int]: ...


class OurWriter:
    """Our client, which keeps a number of writes outstanding."""

    def __init__(self, client: Client, outstanding: int) -> None:
        self._client = client
        self._loop = ClosedLoop(client, outstanding)

    def create_keys(self, keys: int) -> None:
        create_keys(self._client, keys)

    def writes(self, count: int, keys: int, payload: int) -> LoadResult:
        return self._loop.writes(count, keys, payload)

    def measure_fail_over(self, kill: Callable[[], int], scale: Scale) -> float:
        """Return the milliseconds from the kill of the leader to the first acknowledged write of a later epoch, under load."""
        load = SteadyLoad(self._client, scale)
        load.until(lambda: load.answered >= WRITES_BEFORE_KILL)
        epoch, killed = load.epoch, time.monotonic_ns()
        kill()
        load.until(lambda: load.epoch > epoch)
        return (load.reached_ns - killed) / 1e6


class OurNodes(BenchmarkEnsemble):
    """An ensemble of our nodes as a Contender."""

    name = OURS

    def first_write(self) -> bool:
        with self.unbound_client() as client:
            return isinstance(client.create("/first", b"1"), Ok)

    @contextmanager
    def writer(self, node: int, outstanding: int) -> Iterator[OurWriter]:
        with self.client(node) as client:
            yield OurWriter(client, outstanding)


Makers = Mapping[str, Callable[[], Contender]]


def against(folder: Path, scale: Scale) -> list[Figure]:
    """Return figures of both, named "what, who".

    Raises MissingRequirement without Java or a release of ZooKeeper, and HarnessError.
    """
    try:
        from benchmarks.zookeeper import ZooKeeper
        from zab_chaos.harness.backends.zookeeper import releases

        releases.find_java()
        release = releases.locate(releases.newest())
    except HarnessError as error:
        raise MissingRequirement(str(error)) from error
    makers: Makers = {
        OURS: lambda: OurNodes(folder, scale.nodes),
        f"ZooKeeper {release.version}": lambda: ZooKeeper(folder, scale.nodes, release),
    }
    return [*_starts(makers, scale), *_under_load(makers, scale), *_failovers(makers, scale)]


def _starts(makers: Makers, scale: Scale) -> list[Figure]:
    """Measure the seconds from the first spawn to the first acknowledged write."""
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(scale.starts):
        for name, make in makers.items():
            with make() as contender:
                seconds[name].append(until_first_write(contender.start, contender.first_write))
    return [median(f"start, {name}", "s", seconds[name]) for name in makers]


def _under_load(makers: Makers, scale: Scale) -> list[Figure]:
    """Measure throughput, latency and memory of ensembles that run at the same time."""
    with ExitStack() as stack:
        ensembles = {name: stack.enter_context(make()) for name, make in makers.items()}
        leaders = {}
        for name, contender in ensembles.items():
            contender.start()
            leaders[name] = contender.settle()
            with contender.writer(leaders[name], scale.keys) as writer:
                writer.create_keys(scale.keys)
        figures: list[Figure] = []
        followers = {name: follower(ensembles[name].cluster, leader) for name, leader in leaders.items()}
        for place, nodes in (("the leader", leaders), ("a follower", followers)):
            figures += _throughput(place, ensembles, nodes, scale)
        figures += _latency(ensembles, followers, scale)
        return figures + _memory(ensembles, leaders)


def _throughput(
    place: str, ensembles: Mapping[str, Contender], nodes: Mapping[str, int], scale: Scale
) -> list[Figure]:  # fmt: skip
    """Measure the writes per second of one client, and the processor time of servers and client for each write."""
    found: dict[str, dict[str, list[float]]] = {name: {"rate": [], "servers": [], "client": []} for name in ensembles}
    with ExitStack() as stack:
        writers: dict[str, Writer] = {
            name: stack.enter_context(contender.writer(nodes[name], scale.outstanding))
            for name, contender in ensembles.items()
        }
        for writer in writers.values():
            writer.writes(scale.warm_up, scale.keys, scale.payload)
        for _ in range(scale.rounds):
            for name, writer in writers.items():
                servers, client = processor_seconds(ensembles[name].cluster), time.process_time()
                found[name]["rate"].append(writer.writes(scale.writes, scale.keys, scale.payload).rate)
                for whose, spent in (
                    ("servers", processor_seconds(ensembles[name].cluster) - servers),
                    ("client", time.process_time() - client),
                ):
                    found[name][whose].append(spent / scale.writes * 1e6)
    kinds = (
        ("rate", f"throughput at {place}", "writes/s"),
        ("servers", f"servers' processor time at {place}", "µs a write"),
        ("client", f"client's processor time at {place}", "µs a write"),
    )
    return [median(f"{words}, {name}", unit, found[name][kind]) for kind, words, unit in kinds for name in ensembles]


def _latency(ensembles: Mapping[str, Contender], nodes: Mapping[str, int], scale: Scale) -> list[Figure]:
    """Measure the latency of a single outstanding write at a follower, in rounds that alternate."""
    delays: dict[str, list[float]] = {name: [] for name in ensembles}
    with ExitStack() as stack:
        writers: dict[str, Writer] = {
            name: stack.enter_context(contender.writer(nodes[name], 1)) for name, contender in ensembles.items()
        }
        for writer in writers.values():
            writer.writes(scale.single // 5, scale.keys, scale.payload)
        for _ in range(scale.rounds):
            for name, writer in writers.items():
                count = max(1, scale.single // scale.rounds)
                delays[name] += writer.writes(count, scale.keys, scale.payload).latencies_ms
    return [
        Figure(name=f"latency at a follower p{percent}, {name}", value=percentile(delays[name], percent), unit="ms")
        for percent in (50, 99)
        for name in ensembles
    ]


def _memory(ensembles: Mapping[str, Contender], leaders: Mapping[str, int]) -> list[Figure]:
    """Measure the leaders' resident memory after all these writes."""
    seen = {name: contender.memory() for name, contender in ensembles.items()}
    return [
        Figure(name=f"memory of the leader, {name}", value=seen[name][leaders[name]] / MIB, unit="MiB")
        for name in ensembles
    ]


def _failovers(makers: Makers, scale: Scale) -> list[Figure]:
    """Measure the milliseconds from SIGKILL of the leader under load to the client's first answer in the next epoch."""
    answers: dict[str, list[float]] = {name: [] for name in makers}
    with ExitStack() as stack:
        ensembles = {name: stack.enter_context(make()) for name, make in makers.items()}
        for contender in ensembles.values():
            contender.start()
        for number in range(scale.failovers):
            for name, contender in ensembles.items():
                answers[name].append(_failover(contender, scale, first=number == 0))
    return [
        figure
        for name in makers
        for figure in (
            median(f"fail-over p50, {name}", "ms", answers[name]),
            Figure(name=f"fail-over max, {name}", value=max(answers[name]), unit="ms"),
        )
    ]


def _failover(contender: Contender, scale: Scale, *, first: bool) -> float:
    leader = contender.settle()
    with contender.writer(follower(contender.cluster, leader), 1) as writer:
        if first:
            writer.create_keys(scale.keys)
        took: float = writer.measure_fail_over(lambda: contender.cluster.kill(leader), scale)
    contender.cluster.start(leader)
    contender.settle()
    return took


# ---- the comparison in the report ----

Pair = tuple[str, str, dict[str, dict[str, Any]]]  # what, unit, each contender's figure


def pairs(report: Mapping[str, Any]) -> list[Pair]:
    """Return the figures of a report of `zab bench --against zookeeper` side by side, in their order."""
    found: dict[str, Pair] = {}
    for figure in report["measurements"].get("against", {"figures": []})["figures"]:
        what, _, who = figure["name"].rpartition(", ")
        found.setdefault(what, (what, figure["unit"], {}))[2][who] = figure
    return list(found.values())


WIDTH, ROW, BAR, LEFT, RIGHT = 720, 52, 14, 290, 110
INK, COLOURS = "#767e88", ("#3d9ad6", "#d55e00")  # visible on white and on black


def picture(report: Mapping[str, Any]) -> str | None:
    """Return an SVG with two bars for each measured value, to one scale. None for a report without such figures."""
    rows = pairs(report)
    if not rows:
        return None
    names = list(rows[0][2])
    parts = [
        _text(LEFT + 210 * place, 18, f"■ {name}", "start", colour)
        for place, (name, colour) in enumerate(zip(names, COLOURS, strict=False))
    ]
    for number, (what, unit, figures) in enumerate(rows):
        top = 36 + ROW * number
        parts.append(_text(LEFT - 10, top + BAR + 4, what, "end"))
        most = max(figure["value"] for figure in figures.values()) or 1.0
        for place, name in enumerate(names):
            value = figures[name]["value"] if name in figures else 0.0
            length, y = (WIDTH - LEFT - RIGHT) * value / most, top + place * (BAR + 4)
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[place % 2]}"/>')
            parts.append(_text(LEFT + length + 6, y + BAR - 2, f"{format_number(value)} {unit}", "start"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {36 + ROW * len(rows)}" role="img" '
        f'aria-label="our nodes and ZooKeeper\'s side by side" font-family="sans-serif" font-size="13">\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, words: str, anchor: str, colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'
