"""Swarm testing: draws ensemble size, timing, limits, workload and mix of faults from the seed too.

Every seed then leaves some faults out and overdoes others, which reaches what no single mix reaches (Groce and others, 2012).
What is drawn is a scenario like any other, so a failure can be kept as a file and run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from zab_chaos.faults.nemesis import DAMAGE, draw
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import BAD_PATH, OPERATIONS, Disk, Nemesis, Scenario, Workload, overrides
from zab_chaos.harness.explore.past import draw_disks
from zab_chaos.node.config import Limits, Timing
from zab_chaos.node.crash_points import ANY, DISK_STEPS, FILE_STEPS, POINTS

# Of a nemesis' work, in seconds. Many short runs that differ reach more than few long ones: most of what a seed decides, it
# decides at the start. Some stay long enough for histories and lives to add up. Never longer than the scenario.
DURATIONS = (3, 4, 4, 5, 5, 6, 6, 8, 8, 8, 10, 10, 15, 60)
HEALS = ((0.1, 0.5), (0.3, 1.5), (0.3, 1.5), (1.0, 5.0), (5.0, 20.0))  # seconds from a fault to its healing
LONG = (
    5.0  # who heals later than that runs for at least `LONG_RUN` seconds: what must work without the broken part does
)
LONG_RUN = 40.0
RATES = (5, 10, 20, 50, 100, 200)  # operations a second
MOST_OPERATIONS = 400  # that come due in a run: faults break more than load does, so long runs get a light one
CONVERGES_SECONDS = 60.0
KEEPS_QUORUM = 0.35  # how often no more is broken at once than a quorum survives
ORDINARY = 0.15  # how often the disk is one that keeps unsynced bytes when a process dies


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights for drawing faults and crash points; the default is 1."""

    faults: Mapping[str, float] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)

    def times(self, other: "Weights") -> "Weights":
        """Both."""
        return Weights(_product(self.faults, other.faults), _product(self.points, other.points))


def _product(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: a.get(name, 1.0) * b.get(name, 1.0) for name in [*a, *(name for name in b if name not in a)]}


EVEN = Weights()


@dataclass(frozen=True, slots=True)
class Focus:
    """What some seeds draw more of, `share` of them, and no seed of two. `rates`: operations a second at most, if it takes a
    light load."""

    name: str
    share: float
    weights: Weights
    rates: tuple[float, ...] = ()


def _near(weight: float, *names: str) -> dict[str, float]:
    """Weights for the crash points at these messages and records."""
    return {point: weight for point in POINTS if point.split(":")[1] in names}


# A node may have joined a later epoch than another one, and have a shorter history. That is rare while everybody writes: an
# epoch's first transaction puts it right. So in some seeds little is written, and nodes break where an epoch begins.
YOUNG = Focus(
    "young",
    share=0.25,
    weights=Weights({"crash-at": 12.0, "partition": 12.0}, _near(30.0, "NEWLEADER", "ACK-LD", "COMMIT-LD")),
    rates=(1, 2, 2, 5),
)
# A promise may be on a disk that is lost before its leader chooses a history, and a node that lost its disk may come back where
# the members go another way. Both take elections, and nodes that break and links that change at their steps.
FORGETFUL = Focus(
    "forgetful",
    share=0.2,
    weights=Weights(
        {"crash-at": 12.0, "pause-at": 4.0, "wipe": 4.0, "partition": 4.0, "slow-close": 4.0},
        _near(30.0, "EPOCH", "CEPOCH", "NEWEPOCH", "ACK-E", "ACK-LD", "CONFIRM", "ACK-CONFIRM", "MEMBER"),
    ),
)
# What one life has left in the page cache, the next one must have built on when the power goes. So in some seeds disks break,
# and soon again, and files are often begun, replaced and removed.
BREAKING = Focus(
    "breaking",
    share=0.3,
    weights=Weights(
        {"crash-at": 40.0, "crash": 20.0, "power-cut": 15.0, "disk-error": 5.0, "wipe": 10.0},
        _near(5.0, "SNAP", "SNAPSHOT") | {f"{step}:{ANY}": 40.0 if step in FILE_STEPS else 20.0 for step in DISK_STEPS},
    ),
)
# Who comes back after a short time may be sent a snapshot, with its clients' reads and writes under way. In some seeds nodes
# are cut off again and again, links are slow, files small, and clients stay, and write and read in turn.
LAGGING = Focus("lagging", share=0.12, weights=Weights({"partition": 10.0, "latency": 6.0, "flap": 4.0}))
TURNS = {"set": 1.0, "get": 1.0}
FOCUSES = (YOUNG, FORGETFUL, BREAKING, LAGGING)
PASTS = 0.1  # how often there is something on the disks at the start
# What a client knows from one node, a refusal too, it must not miss at the next one. So in some seeds clients go to another
# node with nearly each operation, and all of them have to do with few keys, so that conditions often fail.
RESTLESS = 0.15
RESTLESS_MIX = {"cas": 2.0, "check": 2.0, "delete": 1.0, "get": 2.0, "set": 1.0}
# Who waits for long, waits at one node. In some seeds clients soon give up what is not answered, also what they could not send.
IMPATIENT = 0.15
TIMEOUTS = (0.3, 0.5, 1.0, 3.0)  # seconds
# Who has been there for long has seen much, and is shown nothing older. In some seeds clients end their sessions, and come
# again as ones that know nothing.
VISITING = 0.15
STAY = 3.0  # operations between two such ends, on average
# What no state would allow is refused by itself, and is no transaction. In some seeds clients ask for such things, too.
ASTRAY = 0.08
ASTRAY_MIX = {"set": 2.0, "get": 1.0, BAD_PATH: 2.0}
# A node that is a quorum by itself waits for nobody's acknowledgement.
ALONE = 0.03
# What is sent to a peer fits into its queue, or ends the session. In some seeds hardly anything fits.
CROWDED = 0.2
QUEUES = (1, 2)  # frames


def draw_swarm(scenario: Scenario, seed: int, weights: Weights = EVEN) -> Scenario:
    """Draw the scenario of a seed. A fixed schedule keeps its faults and number of nodes, listed operations are kept too."""
    random = Random(f"swarm {seed}")
    timing = _timing(random, scenario.timing if scenario.faults else None)
    duration, heals = scenario.duration, random.choice(HEALS)
    if scenario.nemesis is not None:
        drawn_for = float(random.choice(DURATIONS))
        duration = min(duration, drawn_for if heals[0] < LONG else max(drawn_for, LONG_RUN))
    workload = _workload(random, duration)
    emphasis = Random(f"emphasis {seed}")
    focus = _focus(emphasis) if scenario.nemesis is not None else None
    if focus is not None:
        weights = weights.times(focus.weights)
        if focus.rates:
            workload = replace(workload, rate=min(workload.rate, float(emphasis.choice(focus.rates))))
    if Random(f"restless {seed}").random() < RESTLESS:
        workload = _restless(workload)
    elif Random(f"astray {seed}").random() < ASTRAY:
        workload = replace(workload, mix=ASTRAY_MIX, burst=max(workload.burst, 3))
    workload = _with_clients(Random(f"clients {seed}"), workload)
    drawn = replace(
        scenario,
        seed=seed,
        record=False,
        crash_states=True,
        duration=duration,
        workload=workload if not scenario.operations else scenario.workload,
        timing=timing,
        limits=_crowded(Random(f"queues {seed}"), _limits(random, scenario.limits)),
        expect=replace(scenario.expect, converges_within=CONVERGES_SECONDS, unavailable_at_most=None, min_acked=1),
    )
    if scenario.nemesis is not None:
        nodes = random.choice((3, 3, 3, 4, 5, 5, 7))
        nemesis = _nemesis(random, replace(scenario.nemesis, heal_after=heals), weights)
        disk = "ordinary" if random.random() < ORDINARY and set(nemesis.faults) != {"power-cut"} else scenario.disk
        if disk == "ordinary":
            nemesis = replace(
                nemesis, faults={name: one for name, one in nemesis.faults.items() if name != "power-cut"}
            )
        disks = _disks(scenario.disks, seed, nodes)
        drawn = replace(drawn, nodes=nodes, nemesis=nemesis, disk=disk, disks=disks)
        if focus is BREAKING:
            drawn = _with_disks_that_break(emphasis, drawn, weights)
        if focus is LAGGING:
            drawn = _with_nodes_that_lag(drawn, weights)
        elif Random(f"alone {seed}").random() < ALONE and not scenario.disks:
            drawn = _alone(drawn)
    return replace(drawn, source=drawn.to_toml())


def _focus(random: Random) -> Focus | None:
    lot = random.random()
    for focus in FOCUSES:
        if lot < focus.share:
            return focus
        lot -= focus.share
    return None


def _disks(given: tuple[Disk, ...], seed: int, nodes: int) -> tuple[Disk, ...]:
    """In some seeds the ensemble has a past."""
    random = Random(f"past {seed}")
    return draw_disks(random, nodes) if random.random() < PASTS and not given else given


def in_words(scenario: Scenario) -> str:
    """Describe in one line what was drawn."""
    work, nemesis = scenario.workload, scenario.nemesis
    parts = [
        f"{scenario.nodes} nodes for {scenario.duration:g} s",
        f"{work.rate:g} operations/s of {work.clients} clients, {work.keys} keys, {work.payload_bytes} bytes",
        "mix " + " ".join(sorted(work.mix)),
        " ".join(
            f"{name}={value}" for name, value in (overrides(scenario.timing) | overrides(scenario.limits)).items()
        ),
    ]
    if nemesis is not None:
        steps = len(draw(nemesis, scenario.nodes, scenario.duration, scenario.seed, scenario.faithful))
        parts.append(f"{steps} faults of {', '.join(sorted(nemesis.faults))}")
    return "; ".join(part for part in parts if part)


def _timing(random: Random, given: Timing | None) -> Timing:
    """Draw timeouts, unless there is a fixed schedule, which may depend on its own."""
    heartbeat = random.choice((50, 100, 100, 200))
    timing = Timing(
        heartbeat_ms=heartbeat,
        timeout_ms=heartbeat * random.choice((4, 8, 8, 16)),
        finalize_ms=random.choice((10, 40, 40, 200)),
        sync_timeout_ms=random.choice((2000, 5000)),
    )
    return given if given is not None else timing


def _limits(random: Random, given: Limits) -> Limits:
    """Draw small limits, so that snapshots and new segments occur in short runs."""
    changes = {
        "snapshot_bytes": random.choice((2**10, 2**11, 2**12, 2**14, 2**24)),
        "segment_bytes": random.choice((2**12, 2**13, 2**16, 2**18)),
        "outstanding": random.choice((1, 10, 1000, 1000)),
        "counter_max": random.choice((5, 20, 100, given.counter_max, given.counter_max, given.counter_max)),
        "waiting": random.choice((12, 40, given.waiting, given.waiting, given.waiting)),
    }
    return _with(given, changes)


def _crowded(random: Random, given: Limits) -> Limits:
    """In some seeds hardly anything fits into the queues to the peers."""
    return _with(given, {"queue_frames": random.choice(QUEUES)}) if random.random() < CROWDED else given


def _with(given: Limits, changes: Mapping[str, int]) -> Limits:
    names = type(given).__struct_fields__
    return Limits(**({name: getattr(given, name) for name in names} | dict(changes)))


def _workload(random: Random, duration: float) -> Workload:
    kinds = [name for name in OPERATIONS if name not in ("set", BAD_PATH)]
    operations = random.sample(kinds, random.randint(1, 7))
    mix = {"set": 4.0, **{name: float(random.randint(1, 3)) for name in operations}}
    return Workload(
        clients=random.randint(1, 8),
        rate=float(min(random.choice(RATES), max(1, MOST_OPERATIONS // duration))),
        keys=random.choice((1, 2, 4, 8, 20)),
        payload_bytes=random.choice((16, 128, 128, 1024)),
        mix=mix,
        max_outstanding=random.choice((1, 8, 64)),
        burst=random.choice((1, 1, 3, 10)),
        moves=random.choice((0.0, 0.5, 2.0, 5.0)),
    )


def _restless(given: Workload) -> Workload:
    return replace(given, moves=given.rate, mix=RESTLESS_MIX, keys=min(given.keys, 2), clients=max(given.clients, 3))


def _with_clients(random: Random, given: Workload) -> Workload:
    """In some seeds clients behave in another way."""
    lot, timeout = random.random(), random.choice(TIMEOUTS)
    if lot < IMPATIENT:
        return replace(given, timeout=timeout)
    return replace(given, visits=given.rate / STAY) if lot < IMPATIENT + VISITING else given


def _nemesis(random: Random, given: Nemesis, weights: Weights) -> Nemesis:
    """Draw a nemesis: half of the kinds of fault, new weights and intervals, with a first fault soon after the start."""
    kinds = sorted(name for name, kind in KINDS.items() if kind.draw is not None)
    lots = {name: random.random() ** (1 / weights.faults.get(name, 1.0)) for name in kinds}
    chosen = sorted(sorted(kinds, key=lots.__getitem__, reverse=True)[: max(1, len(kinds) // 2)])
    every = random.choice(((0.1, 0.5), (0.2, 1.0), (0.5, 2.0), (0.5, 4.0)))
    faults = {name: float(random.choice((1, 1, 3, 10))) * weights.faults.get(name, 1.0) for name in chosen}
    keeps = random.random() < KEEPS_QUORUM
    return replace(given, faults=faults, every=every, keep_quorum=keeps, points=weights.points)


def _alone(drawn: Scenario) -> Scenario:
    """With one node, which may break."""
    assert drawn.nemesis is not None
    return replace(drawn, nodes=1, disks=(), nemesis=replace(drawn.nemesis, keep_quorum=False))


def _with_disks_that_break(random: Random, drawn: Scenario, weights: Weights) -> Scenario:
    """Mostly such faults, soon after one another, on disks that lose what is not synced; small files."""
    assert drawn.nemesis is not None
    often = {name: weights.faults[name] for name in BREAKING.weights.faults}
    often |= {name: 60.0 * weights.faults.get(name, 1.0) if drawn.nemesis.keep_quorum else 0.0 for name in DAMAGE}
    limits = {
        "snapshot_bytes": random.choice((2**9, 2**11, 2**13)),
        "segment_bytes": random.choice((2**9, 2**10, 2**12)),
    }
    if drawn.nemesis.keep_quorum:  # disks are damaged, and a lost sector shows only between two syncs of one segment
        limits = {"snapshot_bytes": 2**13, "segment_bytes": 2**15}
    nemesis = replace(
        drawn.nemesis,
        faults={**drawn.nemesis.faults, **often},
        every=random.choice(((0.1, 0.5), (0.2, 1.0))),
        heal_after=random.choice(HEALS[:3]),
    )
    workload = replace(drawn.workload, burst=random.choice((1, 3, 10)))
    return replace(drawn, disk="faithful", nemesis=nemesis, workload=workload, limits=_with(drawn.limits, limits))


def _with_nodes_that_lag(drawn: Scenario, weights: Weights) -> Scenario:
    """Only such faults, which nodes notice at once; few clients, with several requests under way at one node."""
    assert drawn.nemesis is not None
    nemesis = replace(
        drawn.nemesis,
        faults={name: weights.faults[name] for name in LAGGING.weights.faults},
        every=(0.2, 1.0),
        heal_after=HEALS[1],
        keep_quorum=True,
    )
    workload = Workload(
        clients=3,
        rate=float(min(50, max(1, MOST_OPERATIONS // drawn.duration))),
        keys=drawn.workload.keys,
        payload_bytes=1024,
        mix=TURNS,
        burst=4,
        sessions=drawn.workload.sessions,
    )
    timing = msgspec.structs.replace(drawn.timing, heartbeat_ms=50, timeout_ms=200)
    limits = _with(drawn.limits, {"snapshot_bytes": 2**10, "segment_bytes": 2**12})
    return replace(drawn, nemesis=nemesis, workload=workload, timing=timing, limits=limits)
