"""Measures our nodes and Apache ZooKeeper's servers in the same run, alternating, each through its own client.

Both ensembles run at the same time, without proxies, on the same disk, with fsync. While one is measured, the other only sends
heartbeats. kazoo is pure Python and becomes the bottleneck at high rates; therefore the processor time of servers and client
is given separately.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.ensemble import BenchmarkEnsemble, Ensemble, follower
from benchmarks.figures import Figure, MissingRequirement, Scale, median, percentile
from benchmarks.load import Writer
from benchmarks.startup import until_first_write
from zab_chaos.harness.errors import HarnessError
from zab_chaos.pipeline.naming import format_number

MIB = 2**20

Makers = Mapping[str, Callable[[], Ensemble]]


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
        BenchmarkEnsemble.name: lambda: BenchmarkEnsemble(folder, scale.nodes),
        f"ZooKeeper {release.version}": lambda: ZooKeeper(folder, scale.nodes, release),
    }
    return [*_starts(makers, scale), *_under_load(makers, scale), *_failovers(makers, scale)]


def _starts(makers: Makers, scale: Scale) -> list[Figure]:
    """Measure the seconds from the first spawn to the first acknowledged write."""
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(scale.starts):
        for name, make in makers.items():
            seconds[name].append(until_first_write(make()))
    return [median(f"start, {name}", "s", seconds[name]) for name in makers]


def _under_load(makers: Makers, scale: Scale) -> list[Figure]:
    """Measure throughput, latency and memory of ensembles that run at the same time."""
    with ExitStack() as stack:
        ensembles = {name: stack.enter_context(make()) for name, make in makers.items()}
        leaders = {}
        for name, contender in ensembles.items():
            leaders[name] = contender.start()
            with contender.writer(leaders[name], scale.keys) as writer:
                writer.create_keys(scale.keys)
        figures: list[Figure] = []
        followers = {name: follower(ensembles[name].cluster, leader) for name, leader in leaders.items()}
        for place, nodes in (("the leader", leaders), ("a follower", followers)):
            figures += _throughput(place, ensembles, nodes, scale)
        figures += _latency(ensembles, followers, scale)
        return figures + _memory(ensembles, leaders)


def _throughput(
    place: str, ensembles: Mapping[str, Ensemble], nodes: Mapping[str, int], scale: Scale
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
                servers, client = ensembles[name].processor_seconds(), time.process_time()
                found[name]["rate"].append(writer.writes(scale.writes, scale.keys, scale.payload).rate)
                for whose, spent in (
                    ("servers", ensembles[name].processor_seconds() - servers),
                    ("client", time.process_time() - client),
                ):
                    found[name][whose].append(spent / scale.writes * 1e6)
    kinds = (
        ("rate", f"throughput at {place}", "writes/s"),
        ("servers", f"servers' processor time at {place}", "µs a write"),
        ("client", f"client's processor time at {place}", "µs a write"),
    )
    return [median(f"{words}, {name}", unit, found[name][kind]) for kind, words, unit in kinds for name in ensembles]


def _latency(ensembles: Mapping[str, Ensemble], nodes: Mapping[str, int], scale: Scale) -> list[Figure]:
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


def _memory(ensembles: Mapping[str, Ensemble], leaders: Mapping[str, int]) -> list[Figure]:
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


def _failover(contender: Ensemble, scale: Scale, *, first: bool) -> float:
    leader = contender.settle()
    with contender.writer(follower(contender.cluster, leader), 1) as writer:
        if first:
            writer.create_keys(scale.keys)
        load = writer.steady_load(scale)
        _, killed = load.fail_over(lambda: contender.cluster.kill(leader))
    contender.cluster.start(leader)
    contender.settle()
    return (load.reached_ns - killed) / 1e6


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
