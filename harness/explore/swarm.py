"""Swarm testing: ensemble size, timing, limits, workload and the mix of faults are drawn from the seed, too.

Every seed leaves some faults out and has too much of others, which reaches states that no single mix reaches (Groce and others,
2012). What is drawn is a scenario like any other, so a failing one can be stored as a file and run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from msgspec import structs

from zab_chaos.faults.abilities import NOT_OURS
from zab_chaos.faults.nemesis import DAMAGE
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import (
    AT_ROOT,
    BAD_PATH,
    NUMBERED,
    OPERATIONS,
    REFUSED,
    REPLACE,
    SELDOM,
    FaultStep,
    InitialDisk,
    Nemesis,
    Scenario,
    Workload,
    overrides,
)
from zab_chaos.harness.explore.disk_histories import draw_disks, with_lone_promise
from zab_chaos.node.config import Limits, Timing
from zab_chaos.node.crash_points import ANY, DISK_STEPS, FILE_STEPS, FORWARDING, POINTS
from zab_chaos.pipeline.naming import plural

# The seconds for which a nemesis works; never longer than the scenario. Many different short runs reach more than a few
# long ones, because most of what a seed decides is decided at the start. Some runs are long enough for long histories and
# many lives.
DURATIONS = (3, 4, 4, 5, 5, 6, 6, 8, 8, 8, 10, 10, 15, 60)
HEALS = ((0.1, 0.5), (0.3, 1.5), (0.3, 1.5), (1.0, 5.0), (5.0, 20.0))  # seconds from a fault to its healing
# If faults are healed only after LONG_FAULT seconds, the run takes at least LONG_RUN seconds: long enough for the ensemble
# to work without its broken part.
LONG_FAULT = 5.0
LONG_RUN = 40.0
RATES = (5, 10, 20, 50, 100, 200)  # operations a second
MOST_OPERATIONS = 400  # due in one run: faults find more bugs than load does, so a long run gets a light load
CONVERGES_SECONDS = 60.0
KEEPS_QUORUM = 0.35  # the probability that a quorum always stays up
ORDINARY = 0.15  # the probability of an ordinary disk, which keeps unsynced bytes when a process dies
# On real processes: the share of the other seeds with an ordinary disk on a file system whose power can be cut. A faithful disk
# says itself what is synced, so it does not show what the ordinary one forgets.
MOUNTED_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights for drawing faults and crash points; the default is 1."""

    faults: Mapping[str, float] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)

    def times(self, other: "Weights") -> "Weights":
        """Return the products of both weights."""
        return Weights(_product(self.faults, other.faults), _product(self.points, other.points))


def _product(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: a.get(name, 1.0) * b.get(name, 1.0) for name in [*a, *(name for name in b if name not in a)]}


EVEN = Weights()


@dataclass(frozen=True, slots=True)
class Focus:
    """Faults and crash points that a `share` of the seeds draws more often. A seed has one focus at most.

    `rates`: the operations a second from which the upper limit of the load is drawn, if the focus needs a light load.
    """

    name: str
    share: float
    weights: Weights
    rates: tuple[float, ...] = ()


def _near(weight: float, *names: str) -> dict[str, float]:
    """Return this weight for each crash point at one of these messages or records."""
    return {point: weight for point in POINTS if point.split(":")[1] in names}


# A node may have joined a later epoch than another node, and yet have a shorter history. Under load that is rare, because
# the first transaction of the epoch ends it. So some seeds write little, and break nodes where an epoch begins.
YOUNG = Focus(
    "young",
    share=0.25,
    weights=Weights({"crash-at": 12.0, "partition": 12.0}, _near(30.0, "NEWLEADER", "ACK-LD", "COMMIT-LD")),
    rates=(1, 2, 2, 5),
)
# A disk with a promise may be lost before the leader chooses a history, and a node that has lost its disk may come back
# while the members follow another leader. Both need elections, with nodes and links that fail during their steps.
FORGETFUL = Focus(
    "forgetful",
    share=0.2,
    weights=Weights(
        {"crash-at": 12.0, "pause-at": 4.0, "wipe": 4.0, "partition": 4.0, "slow-close": 4.0},
        _near(30.0, "EPOCH", "CEPOCH", "NEWEPOCH", "ACK-E", "ACK-LD", "CONFIRM", "ACK-CONFIRM", "MEMBER"),
    ),
)
# A bug may need a life that builds on what an earlier life left in the page cache, and then a power cut. So in some seeds
# disks fail repeatedly after short intervals, and files are often created, replaced and removed.
BREAKING = Focus(
    "breaking",
    share=0.3,
    weights=Weights(
        {"crash-at": 40.0, "crash": 20.0, "power-cut": 15.0, "disk-error": 5.0, "wipe": 10.0},
        _near(5.0, "SNAP", "SNAPSHOT") | {f"{step}:{ANY}": 40.0 if step in FILE_STEPS else 20.0 for step in DISK_STEPS},
    ),
)
# A node that was cut off for a short time may be sent a snapshot while its clients' reads and writes are under way. In some
# seeds nodes are cut off again and again, links are slow, files are small, and clients stay at their node, writing and
# reading in turn.
LAGGING = Focus("lagging", share=0.12, weights=Weights({"partition": 10.0, "latency": 6.0, "flap": 4.0}))
TURNS = {"set": 1.0, "get": 1.0}
# A node that lost its disk comes back while other nodes, links and disks are slow, and one of them is lost at the same time.
# Clients write one thing at a time, so that no later write makes up for a step that is missing. Faults come in bursts: before
# the next one there is time for the judge to see that nobody is served.
REJOINING = Focus(
    "rejoining",
    share=0.06,
    weights=Weights(
        {
            "wipe": 30.0,
            "crash-at": 8.0,
            "pause-at": 12.0,
            "pause": 4.0,
            "latency": 8.0,
            "slow-disk": 8.0,
            "partition": 8.0,
        },
        _near(30.0, "CONFIRM", "MEMBER", "ACK") | _near(100.0, "ACK-CONFIRM"),
    ),
)
REJOINING_BURSTS = (4, 6, 8)
REJOINING_SECONDS = 20.0
# What a client has sent may be held back for less than a second, while the client goes on at another node and is forgotten.
# In some seeds two clients move with every few operations and soon give up, nodes remember one of them, and links stand still
# for a moment.
OVERTAKING = Focus(
    "overtaking", share=0.03, weights=Weights({"stall": 8.0, "crash": 6.0, "pause": 4.0, "latency": 4.0})
)
OVERTAKING_TIMEOUTS = (0.1, 0.2, 0.3)
# Among many faults, nobody is to blame if something takes long. In some seeds there is mostly one fault at a time, for long.
CALM = Focus("calm", share=0.06, weights=Weights())
CALM_EVERY, CALM_HEALS = (3.0, 12.0), (3.0, 20.0)
FOCUSES = (YOUNG, FORGETFUL, BREAKING, LAGGING)
LATER_FOCUSES = (REJOINING, OVERTAKING, CALM)  # which are drawn first, from all seeds
WITH_FEW_CLIENTS = (LAGGING, REJOINING, OVERTAKING)  # which have a load of their own
HISTORY_SHARE = 0.1  # of the seeds: the disks hold something at the start
# What a client was told by one node (also by a refusal) must hold at the next node. So in some seeds clients move to
# another node with nearly every operation, and use few keys, so that conditions often fail.
RESTLESS_SHARE = 0.15
RESTLESS_MIX = {"cas": 2.0, "check": 2.0, "delete": 1.0, "get": 2.0, "set": 1.0}
# A client that waits for long stays at one node. In some seeds clients soon give up unanswered requests, also unsent ones.
IMPATIENT_SHARE = 0.15
TIMEOUTS = (0.3, 0.5, 1.0, 3.0)  # seconds
# A session that has seen much is shown nothing older, which hides stale reads. In some seeds clients often end their
# sessions and begin new ones.
VISITING_SHARE = 0.15
OPERATIONS_PER_VISIT = 3.0  # on average
VISITORS_KNOWN = (1, 12)  # then: so few clients are remembered that nodes forget some in nearly every run
# A write that was delayed must not pass its client's fence, also when the client has been forgotten since. And a client that
# was forgotten must be served again. In some of these seeds sessions are longer, clients often leave their node and ask for
# bad paths, too, nodes remember hardly any client, and those that come back get a snapshot.
WANDERING_SHARE = 0.5
OPERATIONS_PER_LONG_VISIT = 10.0
WANDERERS_KNOWN = (1, 3, 3)
WANDERERS_SNAPSHOT_BYTES = (2**10, 2**24)
# A request that no state allows (a bad path) is refused without a transaction. In some seeds clients send such requests, too.
BAD_PATH_SHARE = 0.08
BAD_PATH_MIX = {"set": 2.0, "get": 1.0, BAD_PATH: 2.0}
# A parent can be deleted only when it has no children, and a child needs its parent, also while the other's transaction is
# under way. In some seeds clients mostly create, fill and delete a znode that they share.
GROWING_SHARE = 0.1
GROWING_MIX = {"create": 1.0, "sequential": 2.0, "delete": 2.0, "children": 1.0, "get": 1.0}
# A sequential znode must not take a name that somebody else has given. In some seeds clients create znodes with names that
# sequential ones will soon have.
NUMBERED_SHARE = 0.06
NUMBERED_MIX = {"sequential": 4.0, NUMBERED: 2.0, "children": 1.0, "get": 1.0}
# A multi may delete a znode and create it again, with version 0. A znode with children is not deleted, whatever its version is.
REPLACING_SHARE = 0.15
REPLACING_MIX = {REPLACE: 3.0, "cas": 2.0, "check": 1.0, "create": 1.0, "delete": 1.0, "get": 1.0}
# The root can't be deleted, and it is the parent of all keys. In some seeds clients create sequential children of it.
AT_ROOT_SHARE = 0.1
AT_ROOT_MIX = {AT_ROOT: 4.0, "delete": 1.0, "create": 1.0, "get": 1.0}
# An eighth of a frame's bytes may be forwarded at once, or be in flight. In some seeds clients send more than that, and more
# than a frame while nothing is committed. Znodes stay few, so that a follower's difference always fits into a frame.
TIGHT_SHARE = 0.12
TIGHT_MIX = {"set": 4.0, "cas": 1.0, "check": 1.0, "get": 1.0}
TIGHT_BURST = 20
# A message with refusals has no more than fit into such an eighth. In half of these seeds most requests are refused.
REFUSALS_SHARE = 0.5
TIGHT_REFUSED_MIX = {"check": 6.0, REFUSED: 4.0, "set": 2.0, "cas": 1.0}
TIGHT_LOAD = 3  # times the load of other seeds
TIGHT_LIMITS = {"frame_bytes": 2**15, "snapshot_bytes": 2**10, "outstanding": 1000}
# A single node is a quorum by itself and waits for no acknowledgement. In half of these seeds it may lose its disk.
SINGLE_NODE_SHARE = 0.05
DISKLESS_SHARE = 0.5
# If a frame does not fit into the queue to its peer, the session ends. In some seeds the queues hold hardly anything.
SHORT_QUEUES_SHARE = 0.2
QUEUE_FRAMES = (1, 2)
# A leader at which too many requests wait refuses all but fences. In some seeds hardly any may wait, and many clients write.
CROWDED_SHARE = 0.05
CROWDED_LIMITS = {"waiting": 4, "outstanding": 1}
# A request must not have more than a limit. In some seeds a set is within it and a multi of many steps is not. A client has one
# request under way.
NARROW_SHARE = 0.05
NARROW_MIX = {"multi": 3.0, "set": 2.0, "cas": 1.0, "get": 1.0}
NARROW_PAYLOAD = 300
NARROW_LIMITS = {"request_bytes": 1000}
# Some sizes are limits: a client sends requests in batches, a node sends a long message in parts, and there is room for so many
# bytes of answers. In some seeds a write alone is larger than a batch, and one client reads what it wrote again and again.
LARGE_SHARE = 0.25
LARGE_MIX = {"get": 9.0, "set": 1.0}
LARGE_PAYLOAD = 300_000
LARGE_LIMITS = {"snapshot_bytes": 2**22, "segment_bytes": 2**22}
# A node drops a client that does not read its answers, and a client keeps what its node does not read. In some seeds clients
# stand still now and then.
STALLING_SHARE = 0.1
STALLS = (2.0, 10.0, 30.0)  # per second, of all clients together
# A client's connection to a paused node fills, and ends when the node has been silent for too long or is killed. In half of
# these seeds most faults are pauses and crashes.
STUCK_SHARE = 0.5
# A file that is gone leaves less to notice than a damaged one. In some seeds files are removed from disks with many small ones.
# In all others none is: a further kind of fault would change what every seed draws.
REMOVE_FILE = "remove-file"
REMOVING_SHARE = 0.08  # of the seeds without a focus on disks or slow nodes
REMOVING_FAULTS = {REMOVE_FILE: 6.0, "crash": 2.0, "stop": 1.0, "partition": 1.0}
REMOVING_LIMITS = {"segment_bytes": 2**9, "snapshot_bytes": 2**13}
# A leader that is cut off leads on until it notices, and must not refuse by a state that the others have left. In some seeds
# its clock is slow, so that the others have a new leader before. Behind an outstanding transaction a refusal waits anyway, so
# each client sends a burst only once in two timeouts, most of it such that it must be refused.
DEPOSED_SHARE = 0.05  # of the seeds without a focus on disks or slow nodes
DEPOSED_MIX = {REFUSED: 2.0, "set": 1.0}
DEPOSED_BURST = 4
DEPOSED_TIMES = 5
# A node may lose its disk again before it is a member again. In some seeds one node does so several times in a short while,
# when another one answers late, or is down.
LOSING_SHARE = 0.06  # of the seeds without a focus on disks or slow nodes
LOSING_ROUNDS, LOSING_TIMES = 6, 4
LOSING_EVERY = 5.0  # seconds
LOSING_MS = (200, 400, 600)  # of delay
# A request may be late on its way from its node to the leader, while its client gives up and goes on at another node. In some
# seeds nodes stop or die just when they forward requests, or answer for the leader. In all others none does: further points
# would change what every seed draws.
FORWARDING_SHARE = 0.08  # of the seeds without a focus on disks or slow nodes
FORWARDING_FAULTS = {"pause-at": 8.0, "crash-at": 3.0, "crash": 4.0, "partition": 4.0, "stall": 4.0}
FORWARDING_MIXES = ({"set": 4.0, "cas": 2.0, "get": 1.0}, {"check": 2.0, REFUSED: 2.0, "set": 2.0, "get": 4.0})
FORWARDING_TIMEOUTS = (0.1, 0.2, 0.5)
FORWARDING_KNOWN = (1, 3, 1000)  # clients
NO_FORWARDING = Weights(points=_near(0.0, *FORWARDING))
ONLY_FORWARDING = dict.fromkeys(POINTS, 0.0) | _near(1.0, *FORWARDING)
# Messages that are late by nearly a timeout, and lost ones, bring events into orders that no fault leads to.
ERRATIC_NETWORK_SHARE = 0.3


def draw_swarm(scenario: Scenario, seed: int, weights: Weights = EVEN) -> Scenario:
    """Draw the scenario of a seed. A fixed schedule keeps its faults and its number of nodes; listed operations are kept, too,
    and every node that they name. Given disks keep the number of nodes.

    Later additions have a random generator each, so that they do not change what the others draw.
    """
    random = Random(f"swarm {seed}")
    weights = weights.times(NO_FORWARDING)
    timing = _timing(random, scenario.timing if scenario.faults else None)
    duration, heals = scenario.duration, random.choice(HEALS)
    emphasis = Random(f"emphasis {seed}")
    focus = None
    if scenario.nemesis is not None:
        focus = _focus(Random(f"later focus {seed}"), LATER_FOCUSES) or _focus(emphasis, FOCUSES)
        drawn_for = float(random.choice(DURATIONS))
        long = focus is CALM or heals[0] >= LONG_FAULT
        duration = min(duration, max(drawn_for, LONG_RUN) if long else drawn_for)
    workload, limits = _workload(random, duration), _limits(random, scenario.limits)
    crowded = _is_drawn("crowded", seed, CROWDED_SHARE) and focus not in WITH_FEW_CLIENTS
    if crowded:
        workload, limits = _with_crowd(workload, duration), structs.replace(limits, **CROWDED_LIMITS)
    if focus is not None:
        weights = weights.times(focus.weights)
        if focus.rates:
            workload = replace(workload, rate=min(workload.rate, float(emphasis.choice(focus.rates))))
    workload, limits = _with_a_habit(seed, workload, limits, duration, focus, crowded=crowded)
    workload, limits = _with_sessions(seed, workload, limits)
    drawn = replace(
        scenario,
        seed=seed,
        erratic_network=scenario.erratic_network or _is_drawn("erratic", seed, ERRATIC_NETWORK_SHARE),
        crash_states=workload.payload_bytes < LARGE_PAYLOAD,  # the states keep copies of what is on the disks
        duration=duration,
        workload=workload,
        timing=timing,
        limits=_with_short_queues(Random(f"queues {seed}"), limits),
        expect=replace(scenario.expect, converges_within=CONVERGES_SECONDS, unavailable_at_most=None, min_acked=1),
    )
    if scenario.nemesis is not None:
        drawn = _with_nemesis(random, drawn, replace(scenario.nemesis, heal_after=heals), weights)
        drawn = _with_focus(emphasis, drawn, scenario, focus, weights)
    if scenario.operations:
        last = max(one.at for one in scenario.operations)
        drawn = replace(drawn, workload=scenario.workload, duration=max(drawn.duration, last))
    return replace(drawn, source=drawn.to_toml())


def _with_a_habit(
    seed: int, workload: Workload, limits: Limits, duration: float, focus: Focus | None, *, crowded: bool
) -> tuple[Workload, Limits]:
    """Let the clients of some seeds do mostly one thing, or large things. A seed has one such habit at most."""
    heavy = focus in (None, FORGETFUL) and not crowded  # whether there is room for a heavy load
    if _is_drawn("restless", seed, RESTLESS_SHARE):
        workload = _with_moves(workload)
    elif _is_drawn("astray", seed, BAD_PATH_SHARE):
        workload = replace(workload, mix=BAD_PATH_MIX, burst=max(workload.burst, 3))
    elif _is_drawn("growing", seed, GROWING_SHARE):
        workload = replace(workload, mix=GROWING_MIX, burst=max(workload.burst, 3), clients=max(workload.clients, 3))
    elif _is_drawn("numbered", seed, NUMBERED_SHARE):
        workload = replace(workload, mix=NUMBERED_MIX, keys=1)
    elif _is_drawn("tight", seed, TIGHT_SHARE) and heavy:
        workload, limits = _with_tight_frames(workload, duration), structs.replace(limits, **TIGHT_LIMITS)
        if _is_drawn("tight refusals", seed, REFUSALS_SHARE):
            workload = replace(workload, mix=TIGHT_REFUSED_MIX)
    elif _is_drawn("narrow", seed, NARROW_SHARE) and focus not in WITH_FEW_CLIENTS:
        workload, limits = _with_large_multis(workload), structs.replace(limits, **NARROW_LIMITS)
    elif _is_drawn("large", seed, LARGE_SHARE) and heavy:
        workload, limits = _with_large_writes(workload, duration), structs.replace(limits, **LARGE_LIMITS)
    elif _is_drawn("replacing", seed, REPLACING_SHARE):
        workload = replace(workload, mix=REPLACING_MIX, keys=4)
    elif _is_drawn("at the root", seed, AT_ROOT_SHARE):
        workload = replace(workload, mix=AT_ROOT_MIX, burst=max(workload.burst, 3))
    return workload, limits


def _with_sessions(seed: int, workload: Workload, limits: Limits) -> tuple[Workload, Limits]:
    """Let clients give up soon, end their sessions often, or stand still, in some seeds each."""
    workload = _with_clients(Random(f"clients {seed}"), workload)
    stalling = Random(f"stalling {seed}")
    if stalling.random() < STALLING_SHARE:
        workload = replace(workload, stalls=stalling.choice(STALLS))
    wandering = Random(f"wandering {seed}")
    if workload.visits and wandering.random() < WANDERING_SHARE:
        return _with_wanderers(wandering, workload, limits)
    return _with_visitors(wandering, workload, limits) if workload.visits else (workload, limits)


def _with_nemesis(random: Random, drawn: Scenario, given: Nemesis, weights: Weights) -> Scenario:
    """Draw the number of nodes, their disks, and what the nemesis does."""
    nodes = max(random.choice((3, 3, 3, 4, 5, 5, 7)), _highest_named(drawn))
    if drawn.disks:
        nodes = drawn.nodes  # a quorum of more nodes may lack the promise on which these disks rest
    nemesis = _nemesis(random, given, weights)
    disk = "ordinary" if random.random() < ORDINARY and set(nemesis.faults) != {"power-cut"} else drawn.disk
    if disk == "ordinary":
        nemesis = replace(nemesis, faults={name: one for name, one in nemesis.faults.items() if name != "power-cut"})
    if drawn.workload.stalls and _is_drawn("stuck", drawn.seed, STUCK_SHARE):
        often = 2.0 * sum(nemesis.faults.values())
        faults = {**nemesis.faults, "pause": often, "crash": often / 4}
        nemesis = replace(nemesis, faults=faults, heal_after=HEALS[3])
    return replace(drawn, nodes=nodes, nemesis=nemesis, disk=disk, disks=_disks(drawn.disks, drawn.seed, nodes))


def _with_focus(
    emphasis: Random, drawn: Scenario, scenario: Scenario, focus: Focus | None, weights: Weights
) -> Scenario:
    """Return the drawn scenario with what its focus changes or, in some seeds without one, with a trouble of another kind."""
    seed, named, nemesis = drawn.seed, _highest_named(scenario), drawn.nemesis
    assert nemesis is not None
    usual = focus in (None, YOUNG, FORGETFUL)  # no focus on disks or slow nodes
    tight = drawn.limits.frame_bytes != scenario.limits.frame_bytes  # the load fits these frames
    if focus is BREAKING:
        drawn = _with_failing_disks(emphasis, drawn, weights)
    if focus is LAGGING:
        return _with_lagging_nodes(drawn, weights)
    if focus is REJOINING:
        drawn = replace(drawn, duration=min(scenario.duration, REJOINING_SECONDS))
        return _with_rejoining_nodes(emphasis, drawn, weights)
    if focus is CALM:
        return replace(drawn, nemesis=replace(nemesis, every=CALM_EVERY, heal_after=CALM_HEALS))
    if focus is OVERTAKING:
        return _with_overtaken_clients(emphasis, drawn, weights)
    if _is_drawn("alone", seed, SINGLE_NODE_SHARE) and not scenario.disks and named < 2:
        return _with_single_node(Random(f"diskless {seed}"), drawn)
    if usual and _is_drawn("removing", seed, REMOVING_SHARE):
        return _with_removed_files(drawn)
    if usual and _is_drawn("deposed", seed, DEPOSED_SHARE):
        return _with_deposed_leaders(drawn)
    if usual and _is_drawn("forwarding", seed, FORWARDING_SHARE) and not tight:
        return _with_late_requests(Random(f"late requests {seed}"), drawn)
    if usual and _is_drawn("losing", seed, LOSING_SHARE) and not scenario.disks and named <= 3:
        return _with_a_disk_lost_again(Random(f"lost again {seed}"), drawn)
    return drawn


def _highest_named(scenario: Scenario) -> int:
    """Return the highest node that an operation of the scenario names, 0 if none names any."""
    return max((one.node for one in scenario.operations if isinstance(one.node, int)), default=0)


def _is_drawn(what: str, seed: int, share: float) -> bool:
    """Return whether a seed is in this share of all seeds, drawn with a random generator of its own."""
    return Random(f"{what} {seed}").random() < share


def _focus(random: Random, focuses: tuple[Focus, ...]) -> Focus | None:
    """Draw one of these focuses of a seed, or none."""
    lot = random.random()
    for focus in focuses:
        if lot < focus.share:
            return focus
        lot -= focus.share
    return None


def _disks(given: tuple[InitialDisk, ...], seed: int, nodes: int) -> tuple[InitialDisk, ...]:
    """Draw histories for the disks in some seeds, unless the scenario gives the contents of disks."""
    random = Random(f"past {seed}")
    if random.random() >= HISTORY_SHARE or given:
        return given
    return with_lone_promise(Random(f"promise {seed}"), draw_disks(random, nodes))


def with_mounted_disks(drawn: Scenario) -> Scenario:
    """Return the drawn scenario, in some seeds with disks on mounted file systems, where its nodes have faithful ones."""
    possible = drawn.disk == "faithful" and not drawn.faults  # a fault may say what a cut inside a faithful disk leaves
    mounted = possible and Random(f"mounted {drawn.seed}").random() < MOUNTED_SHARE
    return replace(drawn, disk="fuse") if mounted else drawn


def describe(scenario: Scenario) -> str:
    """Return one line on what was drawn."""
    work, steps = scenario.workload, scenario.schedule()
    parts = [
        "an erratic network" if scenario.erratic_network else "",
        f"{plural(scenario.nodes, 'node')} for {scenario.duration:g} s",
        f"{work.rate:g} operations/s of {work.clients} clients, {work.keys} keys, {work.payload_bytes} bytes",
        "mix " + " ".join(sorted(work.mix)),
        "clients that stand still" if work.stalls else "",
        "mounted disks" if scenario.disk == "fuse" else "",
        "disks of an earlier time: " + ", ".join(map(_describe_disk, scenario.disks)) if scenario.disks else "",
        " ".join(
            f"{name}={value}" for name, value in (overrides(scenario.timing) | overrides(scenario.limits)).items()
        ),
    ]
    if scenario.kinds:
        parts.append(f"{plural(len(steps), 'fault')} of {', '.join(sorted(scenario.kinds))}")
    return "; ".join(part for part in parts if part)


def _describe_disk(disk: InitialDisk) -> str:
    last = ":".join(map(str, disk.log[-1])) if disk.log else "0:0"
    return f"node {disk.node} with f.p={disk.accepted_epoch} f.a={disk.current_epoch} and a log up to {last}"


def _timing(random: Random, given: Timing | None) -> Timing:
    """Draw timeouts. A fixed schedule may depend on its own timeouts, so these (`given`) stay."""
    heartbeat = random.choice((50, 100, 100, 200))
    timing = Timing(
        heartbeat_ms=heartbeat,
        timeout_ms=heartbeat * random.choice((4, 8, 8, 16)),
        finalize_ms=random.choice((10, 40, 40, 200)),
        sync_timeout_ms=random.choice((2000, 5000)),
    )
    return given if given is not None else timing


def _limits(random: Random, given: Limits) -> Limits:
    """Draw small limits, so that there are snapshots and new segments in short runs, too."""
    changes = {
        "snapshot_bytes": random.choice((2**10, 2**11, 2**12, 2**14, 2**24)),
        "segment_bytes": random.choice((2**12, 2**13, 2**16, 2**18)),
        "outstanding": random.choice((1, 10, 1000, 1000)),
        "counter_max": random.choice((5, 20, 100, given.counter_max, given.counter_max, given.counter_max)),
        "waiting": random.choice((12, 40, given.waiting, given.waiting, given.waiting)),
    }
    return structs.replace(given, **changes)


def _with_short_queues(random: Random, given: Limits) -> Limits:
    """Limit the queues to the peers to one or two frames in some seeds."""
    if random.random() >= SHORT_QUEUES_SHARE:
        return given
    return structs.replace(given, queue_frames=random.choice(QUEUE_FRAMES))


def _workload(random: Random, duration: float) -> Workload:
    kinds = [name for name in OPERATIONS if name not in ("set", *SELDOM)]
    operations = random.sample(kinds, random.randint(1, 7))
    mix = {"set": 4.0, **{name: float(random.randint(1, 3)) for name in operations}}
    return Workload(
        clients=random.randint(1, 8),
        rate=_rate(random.choice(RATES), duration),
        keys=random.choice((1, 2, 4, 8, 20)),
        payload_bytes=random.choice((16, 128, 128, 1024)),
        mix=mix,
        max_outstanding=random.choice((1, 8, 64)),
        burst=random.choice((1, 1, 3, 10)),
        moves=random.choice((0.0, 0.5, 2.0, 5.0)),
    )


def _rate(most: float, duration: float) -> float:
    """Return the operations a second: at most `most`, and so many that MOST_OPERATIONS are due in the run."""
    return float(min(most, max(1, MOST_OPERATIONS // duration)))


def _with_crowd(given: Workload, duration: float) -> Workload:
    return replace(given, clients=8, burst=3, rate=_rate(max(RATES), duration))


def _with_tight_frames(given: Workload, duration: float) -> Workload:
    return replace(
        given, mix=TIGHT_MIX, keys=min(given.keys, 2), payload_bytes=1024, burst=TIGHT_BURST, max_outstanding=64,
        clients=max(given.clients, 4), rate=TIGHT_LOAD * _rate(max(RATES), duration),
    )  # fmt: skip


def _with_large_multis(given: Workload) -> Workload:
    return replace(given, mix=NARROW_MIX, payload_bytes=NARROW_PAYLOAD, max_outstanding=1, burst=1)


def _with_large_writes(given: Workload, duration: float) -> Workload:
    return replace(
        given, mix=LARGE_MIX, payload_bytes=LARGE_PAYLOAD, keys=min(given.keys, 2), clients=1, moves=0.0,
        rate=_rate(max(RATES), duration),
    )  # fmt: skip


def _with_moves(given: Workload) -> Workload:
    return replace(given, moves=given.rate, mix=RESTLESS_MIX, keys=min(given.keys, 2), clients=max(given.clients, 3))


def _with_clients(random: Random, given: Workload) -> Workload:
    """Make the clients impatient in some seeds, and let them end their sessions often in others."""
    lot, timeout = random.random(), random.choice(TIMEOUTS)
    if lot < IMPATIENT_SHARE:
        return replace(given, timeout=timeout)
    return replace(given, visits=given.rate / OPERATIONS_PER_VISIT) if lot < IMPATIENT_SHARE + VISITING_SHARE else given


def _with_some_bad_paths(random: Random, given: Workload, weight: float) -> Workload:
    """Let clients ask for bad paths, too, in half of the seeds."""
    return replace(given, mix={**given.mix, BAD_PATH: weight}) if random.random() < 0.5 else given


def _with_visitors(random: Random, given: Workload, limits: Limits) -> tuple[Workload, Limits]:
    workload = _with_some_bad_paths(random, given, sum(given.mix.values()))
    return workload, structs.replace(limits, clients_max=random.choice(VISITORS_KNOWN))


def _with_wanderers(random: Random, given: Workload, limits: Limits) -> tuple[Workload, Limits]:
    known = random.choice(WANDERERS_KNOWN)
    workload = replace(
        _with_some_bad_paths(random, given, 1.0),
        visits=given.rate / OPERATIONS_PER_LONG_VISIT,
        moves=max(given.moves, 0.3 * given.rate),
        clients=max(given.clients, known + 1),
    )
    snapshot_bytes = random.choice(WANDERERS_SNAPSHOT_BYTES)
    return workload, structs.replace(limits, clients_max=known, snapshot_bytes=snapshot_bytes)


def _nemesis(random: Random, given: Nemesis, weights: Weights) -> Nemesis:
    """Draw a nemesis: half of the kinds of fault, with new weights and intervals.

    The first fault comes soon after the start.
    """
    ours = (name for name, kind in KINDS.items() if kind.draw is not None and not kind.needs & NOT_OURS)
    kinds = sorted(name for name in ours if name != REMOVE_FILE)
    draws = {name: random.random() ** (1 / weights.faults.get(name, 1.0)) for name in kinds}
    chosen = sorted(sorted(kinds, key=draws.__getitem__, reverse=True)[: max(1, len(kinds) // 2)])
    every = random.choice(((0.1, 0.5), (0.2, 1.0), (0.5, 2.0), (0.5, 4.0)))
    faults = {name: float(random.choice((1, 1, 3, 10))) * weights.faults.get(name, 1.0) for name in chosen}
    keeps = random.random() < KEEPS_QUORUM
    return replace(given, faults=faults, every=every, keep_quorum=keeps, points=weights.points)


def _with_single_node(random: Random, drawn: Scenario) -> Scenario:
    """Return the scenario with one node, which faults may hit. In some seeds it may lose its disk."""
    assert drawn.nemesis is not None
    faults = {name: weight for name, weight in drawn.nemesis.faults.items() if name != "wipe"}
    if random.random() < DISKLESS_SHARE:
        faults["wipe"] = 0.5 * sum(faults.values())
    return replace(drawn, nodes=1, disks=(), nemesis=replace(drawn.nemesis, faults=faults, keep_quorum=False))


def _with_failing_disks(random: Random, drawn: Scenario, weights: Weights) -> Scenario:
    """Return the scenario with many faults of BREAKING at short intervals, disks that lose unsynced bytes, and small files."""
    assert drawn.nemesis is not None
    often = {name: weights.faults[name] for name in BREAKING.weights.faults}
    damage = [name for name in DAMAGE if name != REMOVE_FILE]
    often |= {name: 60.0 * weights.faults.get(name, 1.0) if drawn.nemesis.keep_quorum else 0.0 for name in damage}
    limits = {
        "snapshot_bytes": random.choice((2**9, 2**11, 2**13)),
        "segment_bytes": random.choice((2**9, 2**10, 2**12)),
    }
    if (
        drawn.nemesis.keep_quorum
    ):  # then disks are damaged, and a lost sector shows only between two syncs of one segment
        limits = {"snapshot_bytes": 2**13, "segment_bytes": 2**15}
    nemesis = replace(
        drawn.nemesis,
        faults={**drawn.nemesis.faults, **often},
        every=random.choice(((0.1, 0.5), (0.2, 1.0))),
        heal_after=random.choice(HEALS[:3]),
    )
    workload = replace(drawn.workload, burst=random.choice((1, 3, 10)))
    return replace(
        drawn, disk="faithful", nemesis=nemesis, workload=workload, limits=structs.replace(drawn.limits, **limits)
    )


def _with_removed_files(drawn: Scenario) -> Scenario:
    """Return the scenario with few faults but removed files, one disk at a time."""
    assert drawn.nemesis is not None
    nemesis = replace(drawn.nemesis, faults=REMOVING_FAULTS, every=(0.5, 2.0), heal_after=HEALS[1], keep_quorum=True)
    return replace(drawn, nemesis=nemesis, limits=structs.replace(drawn.limits, **REMOVING_LIMITS))


def _only(focus: Focus, drawn: Scenario, weights: Weights, **changes: Any) -> Nemesis:
    """Return the nemesis with only the faults of a focus, and with these changes."""
    assert drawn.nemesis is not None
    return replace(drawn.nemesis, faults={name: weights.faults[name] for name in focus.weights.faults}, **changes)


def _with_short_timeouts(drawn: Scenario, timeout_ms: int) -> Scenario:
    """Return the scenario with timeouts so short that nodes notice faults at once, and the judge notices what stands still."""
    return replace(drawn, timing=structs.replace(drawn.timing, heartbeat_ms=50, timeout_ms=timeout_ms))


def _with_deposed_leaders(drawn: Scenario) -> Scenario:
    """Return the scenario with leaders that are cut off from the nodes, not from their clients, and whose clocks are slow."""
    timeout = drawn.timing.timeout_ms
    cut = {"shape": "isolate", "how": "timeout", "direction": "out", "pairs": None}
    faults: list[FaultStep] = []
    for number in range(DEPOSED_TIMES):
        begin = 1000 + 67 * timeout // 10 * number  # not in step with the bursts
        faults += [
            FaultStep(
                at=begin / 1000, do="clock-rate", target="leader", lasts=4 * timeout / 1000, params={"rate": 0.5}
            ),
            FaultStep(at=(begin + 100) / 1000, do="partition", target="leader", lasts=3 * timeout / 1000, params=cut),
        ]
    rate = DEPOSED_BURST * drawn.nodes * 500 / timeout
    workload = replace(
        drawn.workload, mix=DEPOSED_MIX, clients=drawn.nodes, rate=rate, burst=DEPOSED_BURST, max_outstanding=64,
        moves=0.0, visits=0.0,
    )  # fmt: skip
    duration = faults[-1].at + 4 * timeout / 1000
    return replace(drawn, duration=round(duration, 3), workload=workload, nemesis=None, faults=tuple(faults))


def _with_late_requests(random: Random, drawn: Scenario) -> Scenario:
    """Return the scenario with nodes that stop or die as they forward requests, and clients that soon go on elsewhere."""
    assert drawn.nemesis is not None
    nemesis = replace(
        drawn.nemesis, faults=FORWARDING_FAULTS, points=ONLY_FORWARDING, every=(0.1, 0.5),
        heal_after=random.choice(((0.3, 0.8), (0.5, 1.5))), keep_quorum=False,
    )  # fmt: skip
    rate = _rate(max(RATES), drawn.duration)
    workload = Workload(
        clients=random.choice((3, 5, 8)),
        rate=rate,
        keys=2,
        payload_bytes=16,
        mix=random.choice(FORWARDING_MIXES),
        max_outstanding=8,
        burst=random.choice((1, 3)),
        moves=rate / 2,
        timeout=random.choice(FORWARDING_TIMEOUTS),
        sessions=drawn.workload.sessions,
    )
    limits = structs.replace(drawn.limits, clients_max=random.choice(FORWARDING_KNOWN))
    drawn = _with_short_timeouts(drawn, random.choice((400, 800)))
    return replace(drawn, nemesis=nemesis, workload=workload, limits=limits)


def _with_a_disk_lost_again(random: Random, drawn: Scenario) -> Scenario:
    """Return the scenario with three nodes, of which one loses its disk again and again, while another one answers late."""
    lost, *others = random.sample(("node-1", "node-2", "node-3"), 3)
    steps: list[tuple[float, str, str, float, dict[str, Any]]] = []  # at, do, target, lasts, params
    for number in range(LOSING_ROUNDS):
        now = 1.0 + LOSING_EVERY * number
        steps.append((now, "latency", random.choice(others), 3.0, {"ms": random.choice(LOSING_MS)}))
        if random.random() < 0.5:
            at, do = now + random.uniform(0.2, 2.0), random.choice(("crash", "pause"))
            steps.append((at, do, random.choice(others), random.uniform(0.05, 0.5), {}))
        for _ in range(LOSING_TIMES):
            now += random.uniform(0.2, 0.9)
            steps.append((now, "wipe", lost, random.uniform(0.02, 0.2), {}))
    faults = [
        FaultStep(at=round(at, 3), do=do, target=target, lasts=round(lasts, 3), params=KINDS[do].defaults | params)
        for at, do, target, lasts, params in sorted(steps, key=lambda step: step[0])
    ]
    duration = LOSING_EVERY * LOSING_ROUNDS
    load = drawn.workload
    rate = _rate(load.rate, duration)
    load = replace(load, rate=rate, visits=load.visits * rate / load.rate)
    drawn = _with_short_timeouts(drawn, 800)
    return replace(drawn, nodes=3, duration=duration, disks=(), workload=load, nemesis=None, faults=tuple(faults))


def _with_lagging_nodes(drawn: Scenario, weights: Weights) -> Scenario:
    """Return the scenario with only the faults of LAGGING, and few clients, each with several requests under way."""
    nemesis = _only(LAGGING, drawn, weights, every=(0.2, 1.0), heal_after=HEALS[1], keep_quorum=True)
    workload = Workload(
        clients=3,
        rate=_rate(50, drawn.duration),
        keys=drawn.workload.keys,
        payload_bytes=1024,
        mix=TURNS,
        burst=4,
        sessions=drawn.workload.sessions,
    )
    limits = structs.replace(drawn.limits, snapshot_bytes=2**10, segment_bytes=2**12)
    return replace(_with_short_timeouts(drawn, 200), nemesis=nemesis, workload=workload, limits=limits)


def _with_rejoining_nodes(random: Random, drawn: Scenario, weights: Weights) -> Scenario:
    """Return the scenario with bursts of the faults of REJOINING, and hardly any clients."""
    every, burst = random.choice(((1.0, 3.0), (2.0, 4.0))), random.choice(REJOINING_BURSTS)
    nemesis = _only(REJOINING, drawn, weights, every=every, burst=burst, heal_after=(0.1, 6.0), keep_quorum=False)
    workload = Workload(
        clients=random.choice((1, 1, 2, 3)),
        rate=_rate(50, drawn.duration),
        keys=2,
        payload_bytes=16,
        mix=TURNS | {"set": 4.0},
        max_outstanding=1,
        sessions=drawn.workload.sessions,
    )
    drawn = _with_short_timeouts(drawn, random.choice((200, 400)))
    return replace(drawn, erratic_network=False, nemesis=nemesis, workload=workload)


def _with_overtaken_clients(random: Random, drawn: Scenario, weights: Weights) -> Scenario:
    """Return the scenario with only the faults of OVERTAKING, which are short, and two clients of which nodes remember one."""
    every = random.choice(((0.1, 0.5), (0.2, 1.0), (0.5, 2.0)))
    nemesis = _only(OVERTAKING, drawn, weights, every=every, heal_after=(0.1, 0.8))
    rate = _rate(random.choice((10, 20, 30)), drawn.duration)
    workload = Workload(
        clients=2,
        rate=rate,
        keys=2,
        payload_bytes=16,
        mix=TURNS | {"set": 4.0, "cas": 1.0},
        max_outstanding=8,
        burst=3,
        moves=rate,
        timeout=random.choice(OVERTAKING_TIMEOUTS),
        sessions=drawn.workload.sessions,
    )
    limits = {"clients_max": 1, "snapshot_bytes": random.choice((2**8, 2**10)), "segment_bytes": 2**12}
    drawn = _with_short_timeouts(drawn, random.choice((400, 800)))
    return replace(drawn, nemesis=nemesis, workload=workload, limits=structs.replace(drawn.limits, **limits))
