"""The metrics of a run that was worked out by hand, and of a simulated one, compared with plain Python on the same files."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.analyzed import Analyzed
from tests.integration.handmade import MS
from zab_chaos.model.oracle.oracle import judge as oracle
from zab_chaos.pipeline import metrics
from zab_chaos.pipeline.columns import Table
from zab_chaos.pipeline.metric_columns import METRICS

pytestmark = pytest.mark.timeout(600)  # the first test waits for the analysis; a busy machine takes its time


@pytest.mark.parametrize("table", METRICS, ids=lambda table: table.name)
def test_the_columns_are_the_documented_ones(analyzed: Analyzed, table: Table) -> None:
    assert analyzed.types[table.name] == [(column.name, column.type) for column in table.columns]


# ---- worked out by hand: see handmade.py ----


def test_latency_by_hand(analyzed: Analyzed) -> None:
    found = {row["of"]: row for row in analyzed.rows("latency", analyzed.hand)}
    assert {of: row["number"] for of, row in found.items()} == {"all": 5, "writes": 4, "reads": 1}
    assert [found["writes"][name] for name in ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")] == [20] + 4 * [620]
    assert [found["all"][name] for name in ("p50_ms", "p90_ms")] == [20, 620]
    assert found["reads"]["p50_ms"] == 5


def test_throughput_by_hand(analyzed: Analyzed) -> None:
    """The first operation was due at 100 ms, so second 1 begins at 1100 ms."""
    found = sorted(
        (row["second"], row["ok"], row["failed"], row["unknown"]) for row in analyzed.rows("throughput", analyzed.hand)
    )
    assert found == [(0, 3, 1, 0), (1, 0, 0, 0), (2, 2, 0, 1)]


def test_the_rate_by_hand(analyzed: Analyzed) -> None:
    """The load lasts from 50 to 3500 ms."""
    assert analyzed.numbers(analyzed.hand)["acked_per_second"] == pytest.approx(5 / 3.45)


@pytest.mark.parametrize(
    ("load", "operations", "rate"),
    [
        pytest.param((0, 100), [(20, "ok"), (95, "ok")], 20, id="short"),
        pytest.param((0, 2500), [(due, "ok") for due in range(0, 2500, 25)], 40, id="not whole seconds"),
        pytest.param((0, 4000), [(20, "ok"), (900, "unknown"), (950, None)], 0.25, id="outage at the end"),
        pytest.param((0, 4000, 9500), [(20, "ok"), (3900, "ok")], 0.5, id="load that is stopped later"),
        pytest.param((50, 1050, 1500), [(2, "ok"), (70, "ok"), (1070, "ok")], 1, id="keys and final checks"),
        pytest.param((0, None, 500), [(20, "ok")], 2, id="interrupted"),
        pytest.param((0, 1000), [(10, None), (20, "unknown"), (30, "failed")], 0, id="none succeeded"),
        pytest.param((0, 1000), [], None, id="no operations"),
        pytest.param((50, 1050), [(2, "ok")], None, id="keys only"),
        pytest.param((), [(20, "ok")], None, id="no load"),
        pytest.param((0,), [(20, "ok")], None, id="killed"),
    ],
)
def test_the_rate_has_the_loads_duration(
    spark: Any, load: tuple[int | None, ...], operations: list[tuple[int, str | None]], rate: float | None
) -> None:
    """Times are milliseconds. `load`: when it started, all was healed, and it stopped. `operations`: (due, outcome)."""
    asked = [(1, due * MS, outcome == "ok") for due, outcome in operations]
    names = ("workload-started", "safety-ended", "workload-stopped")
    said = [(1, event, t * MS) for event, t in zip(names, load, strict=False) if t is not None]
    milestones = spark.createDataFrame(said, "run int, event string, t bigint")
    rows: Any = SimpleNamespace(
        operations=spark.createDataFrame(asked, "run int, due bigint, ok boolean"), of=lambda _: milestones
    )
    assert [row["rate"] for row in metrics.acked_per_second(rows).collect()] == ([] if rate is None else [rate])


def test_unavailability_by_hand(analyzed: Analyzed) -> None:
    """Due at 2000, done at 2620. The write of 2100 never came back, and waits from the last success, at 2700, to the end."""
    found = [(row["begin"], row["seconds"]) for row in analyzed.rows("unavailability", analyzed.hand)]
    assert sorted(found) == [(pytest.approx(1.9), pytest.approx(0.62)), (pytest.approx(2.6), pytest.approx(0.8))]
    assert analyzed.numbers(analyzed.hand)["longest_unavailability_s"] == pytest.approx(0.8)


def test_recovery_by_hand(analyzed: Analyzed) -> None:
    """The first new commit after 220 ms is at 2610 ms. From 2700 ms to the end one write waits, whatever else happens."""
    names = ("do", "role", "nodes", "seconds", "stood_still")
    found = {int(row["id"]): tuple(row[name] for name in names) for row in analyzed.rows("recovery", analyzed.hand)}
    still = pytest.approx(0.8)
    assert found == {
        1: ("slow-disk", None, [3], pytest.approx(2.31), 0),
        2: ("slow-disk", "looking", [3], pytest.approx(2.115), 0),
        3: ("crash", "leader", [1], pytest.approx(0.61), still),  # it began before the next fault
        4: ("slow-disk", None, [1], None, still),
        5: ("slow-disk", None, [1], None, still),
        6: ("slow-disk", "several", [1, 2, 3], None, still),
        7: ("stop", "follower", [3], None, still),
        8: ("slow-disk", None, [1, 2, 3], None, still),
    }


def test_hits_by_hand(analyzed: Analyzed) -> None:
    """A node is down after its end was traced or confirmed, or after a fault ended it. Its next life starts without a role."""
    found = {(int(row["id"]), row["node"]): row["was"] for row in analyzed.rows("hits", analyzed.hand)}
    assert found == {
        (1, 3): "starting",
        (2, 3): "LOOKING",
        (3, 1): "LEADING BROADCAST",
        (4, 1): "down",
        (5, 1): "starting",
        (6, 1): "FOLLOWING BROADCAST",
        (6, 2): "down",
        (6, 3): "FOLLOWING BROADCAST",
        (7, 3): "FOLLOWING BROADCAST",
        (8, 1): "down",
        (8, 2): "down",
        (8, 3): "down",
    }
    faults = analyzed.numbers(analyzed.hand)["faults"]
    assert [(fault["id"], fault["role"], fault["was"]) for fault in faults[-3:]] == [
        (6, "several", ["FOLLOWING BROADCAST", "down", "FOLLOWING BROADCAST"]),
        (7, "follower", ["FOLLOWING BROADCAST"]),
        (8, None, ["down", "down", "down"]),
    ]


def test_elections_by_hand(analyzed: Analyzed) -> None:
    found = {row["epoch"]: row for row in analyzed.rows("elections", analyzed.hand)}
    assert found.keys() == {1, 2}
    assert (found[1]["node"], found[1]["rounds"], found[1]["messages"]) == (1, 2, 4 + 3)
    assert (found[1]["seconds"], found[1]["looking"]) == (pytest.approx(0.05), pytest.approx(0.02))
    assert (found[2]["node"], found[2]["rounds"], found[2]["messages"]) == (2, 1, 5 + 2)
    assert (found[2]["seconds"], found[2]["looking"]) == (pytest.approx(0.2), pytest.approx(0.1))
    means = [analyzed.numbers(analyzed.hand)[name] for name in ("election_s", "election_rounds", "election_messages")]
    assert means == [pytest.approx(0.125), 1.5, 7]


def test_catching_up_by_hand(analyzed: Analyzed) -> None:
    names = ("kind", "transactions", "cut", "bytes", "seconds")
    found = {
        (row["node"], row["epoch"]): tuple(row[name] for name in names)
        for row in analyzed.rows("catching_up", analyzed.hand)
    }
    assert found == {
        (1, 1): ("nothing", 0, 0, 0, pytest.approx(0.02)),
        (2, 1): ("nothing", 0, 0, 0, pytest.approx(0.02)),
        (3, 1): ("difference", 5, 0, 0, pytest.approx(0.02)),
        (2, 2): ("nothing", 0, 0, 0, pytest.approx(0.03)),
        (3, 2): ("snapshot", 0, 0, 512, pytest.approx(0.04)),
        (1, 2): ("truncation", 1, 2, 0, pytest.approx(0.02)),
    }
    assert analyzed.numbers(analyzed.hand)["catch_up_s"] == pytest.approx((0.02 + 0.04 + 0.02) / 3)


def test_what_a_write_costs_by_hand(analyzed: Analyzed) -> None:
    """Six transactions were committed. Last counts: node 1 20 and 4 frames, 6 and 2 syncs; node 2 20, 6; node 3 15, 5."""
    found = {row["kind"]: (row["number"], row["per_write"]) for row in analyzed.rows("messages", analyzed.hand)}
    sent = {"VOTE": 5 + 1 + 8 + 3, "PROPOSE": 7, "COMMIT": 5, "ACK": 2 + 3, "FORWARD": 2, "ANSWER": 3}
    assert found == {kind: (number, pytest.approx(number / 6)) for kind, number in sent.items()}
    numbers = analyzed.numbers(analyzed.hand)
    assert (numbers["delivered"], numbers["frames"], numbers["syncs"]) == (6, 59, 19)
    assert numbers["messages_per_write"] == pytest.approx((7 + 5 + 5 + 2 + 3) / 6)
    assert (numbers["frames_per_write"], numbers["syncs_per_write"]) == (pytest.approx(59 / 6), pytest.approx(19 / 6))


def test_batches_by_hand(analyzed: Analyzed) -> None:
    """Sizes 1 1 1 1 1 (2:1 three times), 2, 4, 4, 5."""
    (row,) = analyzed.rows("batches", analyzed.hand)
    assert (row["number"], row["transactions"], row["p50"], row["p90"], row["max"]) == (9, 20, 1, 5, 5)
    assert analyzed.numbers(analyzed.hand)["transactions_per_batch"] == pytest.approx(20 / 9)


def test_the_rest_by_hand(analyzed: Analyzed) -> None:
    numbers = analyzed.numbers(analyzed.hand)
    names = ("acked", "failed", "unknown", "writes_acked", "writes_failed", "writes_unknown")
    assert [numbers[name] for name in names] == [5, 1, 2, 4, 0, 2]
    assert numbers["unknown_share"] == 2 / 8
    assert (numbers["elections"], numbers["epochs"], numbers["lives"]) == (2, 2, 4)
    assert numbers["converged_s"] == pytest.approx(0.25)


def test_a_run_without_operations_has_no_share_of_unknown_ones(analyzed: Analyzed) -> None:
    verdicts = [it.json["metrics"] for it in analyzed.analysis.verdicts if it.json["properties"]]
    idle = [it for it in verdicts if it["acked"] + it["failed"] + it["unknown"] == 0]
    assert idle
    assert all(it["unknown_share"] is None for it in idle)


# ---- a simulated run, in plain Python ----


class Plain:
    """The run's files, read line by line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = sorted(
            (line for path in (folder / "trace").glob("*.jsonl") for line in self.lines(f"trace/{path.name}")),
            key=lambda line: (line["t"], line["node"], line["life"], line["n"]),
        )
        self.ops = {}
        for line in self.lines("ops.jsonl"):
            self.ops.setdefault((line["client"], line["seq"]), {}).update({line["type"]: line})

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.events if line["event"] == event]

    def done(self, writes: bool | None = None) -> list[tuple[int, int]]:
        """Return (due, answered) of the successful operations."""
        return [
            (it["invoke"]["due"], it["complete"]["t"])
            for it in self.ops.values()
            if it.get("complete", {}).get("outcome") == "ok"
            and (writes is None or (it["invoke"]["op"] in ("set", "create", "delete", "multi")) == writes)
        ]

    def growth(self) -> list[tuple[int, int]]:
        """Return (time, transactions that no node had delivered before) of each delivery that has any."""
        known: set[tuple[int, int]] = set()
        found = []
        for line in self.of("deliver"):
            new = {(line["epoch"], line["first"] + i) for i in range(count(line))} - known
            known |= new
            if new:
                found.append((line["t"], len(new)))
        return found


@pytest.fixture(scope="module")
def plain(analyzed: Analyzed) -> Plain:
    return Plain(analyzed.simulated)


def count(batch: dict[str, Any]) -> int:
    """Return the number of transactions in a batch."""
    return len(batch["digests"]) // 16


def nearest_rank(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e6


def test_the_simulated_run_has_enough_events(plain: Plain) -> None:
    """Otherwise the following tests would compare nothing."""
    assert len(plain.of("established")) >= 3
    assert {line["kind"] for line in plain.of("snapshot")} >= {"installed", "taken"}
    assert len(plain.done(True)) > 100


def test_latency_and_throughput(analyzed: Analyzed, plain: Plain) -> None:
    found = {row["of"]: row for row in analyzed.rows("latency", analyzed.simulated)}
    for of, writes in (("all", None), ("writes", True), ("reads", False)):
        took = [answered - due for due, answered in plain.done(writes)]
        assert found[of]["number"] == len(took)
        shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
        for name, share in shares.items():
            assert found[of][name] == pytest.approx(nearest_rank(took, share)), (of, name)
            assert of != "all" or analyzed.numbers(analyzed.simulated)[f"latency_{name}"] == found[of][name]
    begin = min(it["invoke"]["due"] for it in plain.ops.values())
    seconds = Counter((t - begin) // 10**9 for _, t in plain.done())
    told = {row["second"]: row["ok"] for row in analyzed.rows("throughput", analyzed.simulated) if row["ok"]}
    assert told == seconds


def test_the_rate_is_that_of_the_load(analyzed: Analyzed, plain: Plain) -> None:
    """The keys are created before it, the final checks follow."""
    times = {line["event"]: line["t"] for line in plain.lines("harness.jsonl")}
    begin, end = times["workload-started"], times["safety-ended"]
    acked = [due for due, _ in plain.done() if begin <= due <= end]
    assert len(acked) < len(plain.done())
    assert analyzed.numbers(analyzed.simulated)["acked_per_second"] == pytest.approx(len(acked) * 1e9 / (end - begin))


def test_recovery_and_pauses(analyzed: Analyzed, plain: Plain) -> None:
    """Pauses are checked by their definition: no write succeeded in them, and one was waiting at their begin."""
    faults = [line for line in plain.lines("faults.jsonl") if line["type"] == "inject"]
    found = {row["id"]: row for row in analyzed.rows("recovery", analyzed.simulated)}
    waits = [
        (it["invoke"]["due"], it.get("complete", {}).get("t", 2**62))
        for it in plain.ops.values()
        if it["invoke"]["op"] in ("set", "create")
    ]
    done = sorted(answered for _, answered in plain.done(True))
    stopped = next(line["t"] for line in plain.lines("harness.jsonl") if line["event"] == "workload-stopped")
    pauses = []
    for before, after in zip([0, *done], [*done, stopped], strict=True):
        waiting = [max(due, before) for due, answered in waits if answered > before and due < after]
        if waiting and before < after:
            pauses.append((min(waiting), after))
    listed = sorted(row["seconds"] for row in analyzed.rows("unavailability", analyzed.simulated))
    assert listed == pytest.approx(sorted((end - begin) / 1e9 for begin, end in pauses if end - begin >= 1e8))
    assert len(faults) == len(found) == 4
    for line, until in zip(faults, [*(line["t"] for line in faults[1:]), 2**62], strict=True):
        row = found[str(line["id"])]
        following = min(t for t, _ in plain.growth() if t > line["t"])
        assert row["seconds"] == pytest.approx((following - line["t"]) / 1e9)
        still = max(end - begin for begin, end in pauses if end > line["t"] and begin < until)
        assert row["stood_still"] == pytest.approx(still / 1e9)
        roles = [it["role"] for it in plain.of("role") if it["node"] == line["nodes"][0] and it["t"] <= line["t"]]
        assert row["role"] == {"LEADING": "leader", "FOLLOWING": "follower"}[roles[-1]]
    assert analyzed.numbers(analyzed.simulated)["longest_unavailability_s"] == pytest.approx(
        max(end - begin for begin, end in pauses) / 1e9
    )


def test_hits(analyzed: Analyzed, plain: Plain) -> None:
    """Each node was hit in the role and phase that it had traced last."""
    found = {(int(row["id"]), row["node"]): row["was"] for row in analyzed.rows("hits", analyzed.simulated)}
    injects = [line for line in plain.lines("faults.jsonl") if line["type"] == "inject"]
    assert found.keys() == {(line["id"], node) for line in injects for node in line["nodes"]}
    for line in injects:
        for node in line["nodes"]:
            told = [it for it in plain.events if it["node"] == node and it["t"] < line["t"]]
            last = {event: it[event] for it in told for event in ("role", "phase") if it["event"] == event}
            assert found[line["id"], node] == f"{last['role']} {last['phase']}"


def test_elections(analyzed: Analyzed, plain: Plain) -> None:
    found = {row["epoch"]: row for row in analyzed.rows("elections", analyzed.simulated)}
    assert found.keys() == {line["epoch"] for line in plain.of("established")}
    for line in plain.of("established"):
        own = [it for it in plain.events if (it["node"], it["life"]) == (line["node"], line["life"])]
        own = [it for it in own if it["t"] <= line["t"]]
        begin = max(it["t"] for it in own if it["event"] == "role" and it["role"] == "LOOKING")
        row = found[line["epoch"]]
        assert row["seconds"] == pytest.approx((line["t"] - begin) / 1e9)
        assert row["rounds"] == len({it["round"] for it in own if it["event"] == "vote" and it["t"] >= begin})
        before: dict[tuple[int, int], int] = defaultdict(int)
        after: dict[tuple[int, int], int] = defaultdict(int)
        for it in plain.of("work"):
            if it["t"] <= begin:
                before[it["node"], it["life"]] = it["messages"].get("VOTE", 0)
            if it["t"] <= line["t"]:
                after[it["node"], it["life"]] = it["messages"].get("VOTE", 0)
        assert row["messages"] == sum(after.values()) - sum(before.values())


def test_catching_up(analyzed: Analyzed, plain: Plain) -> None:
    """The lines of a life from its last `role` to `current_epoch` show what it received."""
    found = {(row["node"], row["life"], row["epoch"]): row for row in analyzed.rows("catching_up", analyzed.simulated)}
    joins = plain.of("current_epoch")
    assert found.keys() == {(line["node"], line["life"], line["epoch"]) for line in joins}
    for line in joins:
        own = [it for it in plain.events if (it["node"], it["life"]) == (line["node"], line["life"])]
        own = own[: own.index(line)]
        begin = max(i for i, it in enumerate(own) if it["event"] == "role" and it["role"] != "LOOKING")
        synchronizing, taken, names = False, 0, set()
        for it in own[begin:]:
            if it["event"] == "phase":
                synchronizing = it["phase"] == "SYNCHRONIZATION"
            elif it["event"] == "accept" and synchronizing:
                taken += count(it)
                names.add("difference")
            elif it["event"] == "truncate":
                names.add("truncation")
            elif it["event"] == "snapshot" and it["kind"] == "installed":
                names.add("snapshot")
        kind = next((name for name in ("snapshot", "truncation", "difference") if name in names), "nothing")
        row = found[line["node"], line["life"], line["epoch"]]
        assert (row["kind"], row["transactions"]) == (kind, taken)
        assert (row["bytes"] > 0) == (kind == "snapshot")
    numbers = analyzed.numbers(analyzed.simulated)
    lacking = [row["seconds"] for row in found.values() if row["kind"] != "nothing"]
    assert numbers["catch_up_s"] == pytest.approx(sum(lacking) / len(lacking))
    for it in numbers["catch_up"]:
        of_kind = [row for row in found.values() if row["kind"] == it["kind"]]
        assert it["times"] == len(of_kind)
        for name in ("transactions", "cut", "bytes"):
            assert it[name] == sum(row[name] for row in of_kind)


def test_costs(analyzed: Analyzed, plain: Plain) -> None:
    last = {(it["node"], it["life"]): it for it in plain.of("work")}
    sent: Counter[str] = Counter()
    for it in last.values():
        sent.update(it["messages"])
    committed = sum(number for _, number in plain.growth())
    numbers = analyzed.numbers(analyzed.simulated)
    assert {row["kind"]: row["number"] for row in analyzed.rows("messages", analyzed.simulated)} == sent
    broadcast = sum(sent[kind] for kind in ("FORWARD", "ANSWER", "PROPOSE", "ACK", "COMMIT"))
    assert numbers["messages_per_write"] == pytest.approx(broadcast / committed)
    assert numbers["syncs_per_write"] == pytest.approx(sum(it["syncs"] for it in last.values()) / committed)
    assert numbers["frames_per_write"] == pytest.approx(sum(it["frames"] for it in last.values()) / committed)
    sizes = sorted(count(it) for it in plain.of("accept") if it["digests"])
    (row,) = analyzed.rows("batches", analyzed.simulated)
    assert (row["number"], row["transactions"], row["max"]) == (len(sizes), sum(sizes), sizes[-1])
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert row[name] == sizes[math.ceil(share * len(sizes)) - 1]


@pytest.mark.parametrize(
    ("case", "longest"),
    [("recovery-writes-are-answered-or-not-wanted", 0), ("recovery-writes-are-refused-again-and-again", 3)],
)
def test_refused_writes_and_pauses(case: str, longest: float, analyzed: Analyzed) -> None:
    """The first case has only pauses of a few milliseconds, which are not listed."""
    listed = [row["seconds"] for row in analyzed.rows("unavailability", analyzed.corpus / case)]
    assert max(listed, default=0) == pytest.approx(longest, abs=0.02)
    assert analyzed.numbers(analyzed.corpus / case)["longest_unavailability_s"] == pytest.approx(longest, abs=0.02)


def test_the_tables_agree_with_the_verdict(analyzed: Analyzed) -> None:
    """Numbers that both the tables and the oracle have are equal."""
    told = oracle(analyzed.simulated).metrics
    (latency,) = [row for row in analyzed.rows("latency", analyzed.simulated) if row["of"] == "all"]
    assert (latency["p50_ms"], latency["p99_ms"]) == (told["latency_p50_ms"], told["latency_p99_ms"])
    seconds = {row["id"]: row["seconds"] for row in analyzed.rows("recovery", analyzed.simulated)}
    assert seconds == {str(fault["id"]): pytest.approx(fault["seconds"]) for fault in told["faults"]}
    longest = max(row["seconds"] for row in analyzed.rows("unavailability", analyzed.simulated))
    assert longest == pytest.approx(told["longest_unavailability_s"])
    sums = [sum(row[name] for row in analyzed.rows("throughput", analyzed.simulated)) for name in ("ok", "failed")]
    assert sums == [told["acked"], told["failed"]]
    assert len(analyzed.rows("elections", analyzed.simulated)) == told["epochs"]
    for row in analyzed.rows("messages", analyzed.simulated):
        assert row["per_write"] == pytest.approx(row["number"] / told["delivered"])
