"""Faults of processes: crash, restart, pause, resume, stop."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from signal import SIGKILL
from typing import Any

import psutil

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Cluster, ClusterError, Upgradable, is_paused
from zab_chaos.faults.crash_point_rule import DrawnPoint, point
from zab_chaos.faults.kind import (
    DEAD_WORDS,
    Confirmation,
    Fault,
    FaultContext,
    FaultError,
    HealOrder,
    Key,
    Kind,
    Momentary,
    TargetState,
)
from zab_chaos.faults.rules import boolean, choice, text
from zab_chaos.node.store.errors import CORRUPT_EXIT

STEP = 0.02  # seconds between two looks at a node
WITHIN_MS = 500  # milliseconds that a process which is to die in the middle of a write may wait for one


class NodeDown(Fault):
    """Base of faults that take nodes down; healed by restarting them on their disks."""

    expected_exits: tuple[int, ...] = (-SIGKILL,)
    restarted: Mapping[int, int | None] = {}  # process ids by node, once another fault has restarted all targets

    def heal(self) -> None:
        if not self.restarted:
            start_down_nodes(self.context, self.nodes)

    def recovered(self) -> Confirmation:
        return self.confirm_restarted()

    def is_over(self) -> bool:
        if all(self.cluster.alive(node) for node in self.nodes):
            self.restarted = {node: self.cluster.pid(node) for node in self.nodes}
        return bool(self.restarted)

    def confirm_restarted(self) -> Confirmation:
        """Return whether the targets came up. They may have died again since, if the restart armed a crash point."""
        now = wait_until_up(self.context, self.nodes)
        if now.confirmed or not self.restarted:
            return now
        evidence = {str(node): {"pid": pid} | now.evidence[str(node)] for node, pid in self.restarted.items()}
        died = (-SIGKILL, self.cluster.crashed)
        return Confirmation(all(each.get("exit", -SIGKILL) in died for each in evidence.values()), evidence)


class KillFault(NodeDown):
    """Base of faults that begin by killing their targets. `pids` and `exits` hold process ids and exit statuses by node."""

    def note_running(self) -> list[int]:
        """Return the targets that are running, and keep their process ids."""
        alive = [node for node in self.nodes if self.cluster.alive(node)]
        self.pids = {node: self.cluster.pid(node) for node in alive}
        return alive

    def kill(self, *, power: bool = False) -> None:
        """Kill the running targets at one instant. With `power`, unsynced bytes are lost on any disk."""
        alive = self.note_running()
        kill_nodes = self.cluster.cut_power if power else self.cluster.kill_all
        self.exits = kill_nodes(alive) if alive else {}

    def kill_at_sync(self, variant: str, within_ms: int) -> None:
        """Have each running target die at its next sync that has something to lose, or after `within_ms`.

        `variant`: what survives of the unsynced bytes (`zab_chaos.node.store.disk_faults.Variant`). A paused target is
        killed while it is paused; a target that another fault ends first is left out.
        """
        nodes = self.note_running()
        for node in [node for node in nodes if not is_paused(self.cluster, node)]:
            seed = self.context.random.getrandbits(32)
            arguments = {"variant": variant, "seed": seed, "within_ms": within_ms}
            command_unless_paused(self.cluster, node, "power-cut", arguments)
        seconds = within_ms / 1000 + self.context.patience
        found = {node: self.cluster.wait_exit(node, seconds) for node in nodes if not self.cluster.paused(node)}
        paused = [node for node in nodes if is_paused(self.cluster, node)]
        found |= self.cluster.kill_all(paused) if paused else {}
        # The others were being killed, for which a node with all that it has started is stopped first.
        found |= {node: self.cluster.wait_exit(node, seconds) for node in nodes if node not in found}
        self.exits = {node: status for node, status in found.items() if status is not None}

    def killed(self, node: int) -> bool:
        """Return whether the process was killed, or had just ended because of another fault: its memory is lost either way."""
        status = self.exits.get(node)
        return status == -SIGKILL or (status is not None and self.context.exit_explained(node, status))

    def deaths(self) -> tuple[bool, dict[str, Any]]:
        """Return whether all of the killed processes are gone, by SIGKILL or because of another fault, and the evidence
        `{node: {"pid", "exit"}}`."""
        gone = all(pid is not None and self.context.host.process_state(pid) is None for pid in self.pids.values())
        killed = all(self.killed(node) and not self.cluster.alive(node) for node in self.pids)
        return gone and killed, {str(n): {"pid": pid, "exit": self.exits.get(n)} for n, pid in self.pids.items()}


class Crash(KillFault):
    """SIGKILL. On the faithful disk this is a power cut; on the ordinary disk the page cache survives.

    With `keeps_cache` the written bytes survive on the faithful disk too: each node dies in the middle of its next write.
    The next life sees what was written. A later power cut loses it, unless that life has synced it. A node that is paused
    can't do so, and loses it at once.
    """

    def inject(self) -> None:
        if self.params.get("keeps_cache") and self.cluster.faithful:
            self.kill_at_sync("killed", WITHIN_MS)
        else:
            self.kill()

    def injected(self) -> Confirmation:
        return Confirmation(*self.deaths())

    def describe(self) -> str:
        return f"{node_names(self.nodes)} killed"


class Stop(NodeDown):
    """A clean shutdown: the process is asked to exit by itself. A target that another fault ends first is left out."""

    expected_exits = (0, -SIGKILL)

    def inject(self) -> None:
        self.pids, self.exits = {}, {}
        for node in self.nodes:
            if self.cluster.alive(node):
                self.pids[node] = self.cluster.pid(node)
                self.exits[node] = self.cluster.stop(node)

    def injected(self) -> Confirmation:
        stopped = all(
            not self.cluster.alive(node) and (status == 0 or self.context.exit_explained(node, status))
            for node, status in self.exits.items()
        )
        evidence = {str(node): {"pid": self.pids[node], "exit": status} for node, status in self.exits.items()}
        return Confirmation(stopped, evidence)

    def describe(self) -> str:
        return f"{node_names(self.nodes)} stopped"


class Upgrade(Stop):
    """A clean shutdown, after which the nodes are of another release: healed by a start with that one."""

    releases: Mapping[int, str] = {}  # by node

    def inject(self) -> None:
        super().inject()
        self.releases = install(self.cluster, self.nodes, self.params["release"])

    def recovered(self) -> Confirmation:
        up = super().recovered()
        return Confirmation(up.confirmed, with_releases(up.evidence, self.releases))

    def describe(self) -> str:
        return super().describe() + _in_words(", to be started with release", self.releases)


def install(cluster: Cluster, nodes: Iterable[int], release: str | None) -> dict[int, str]:
    """Have those of the nodes that are down be of a release from their next start on. Return its name by node.

    None keeps the release of each. Raises FaultError, ClusterError.
    """
    if release is None:
        return {}
    if not isinstance(cluster, Upgradable):
        raise FaultError("the nodes of this ensemble can't be started with another release")
    return {node: cluster.install(node, release) for node in nodes if not cluster.alive(node)}


def _in_words(words: str, releases: Mapping[int, str]) -> str:
    """Return the words with the name of the release; nothing if the nodes keep theirs."""
    release = ", ".join({*releases.values()})
    return f"{words} {release}" if release else ""


def with_releases(evidence: Mapping[str, Any], releases: Mapping[int, str]) -> dict[str, Any]:
    """Add to the evidence on nodes, by node, the releases that they were started with."""
    return {
        **evidence, **{str(node): evidence.get(str(node), {}) | {"release": name} for node, name in releases.items()}
    }  # fmt: skip


class Restart(Momentary):
    """A restart of nodes that are down, on their disks. With `refuses` a node must, or may, end with exit code 65 instead.

    At least one must be up, or have ended otherwise than before: else nothing shows that any was started.
    """

    releases: Mapping[int, str] = {}  # by node, of those that start with another one

    def inject(self) -> None:
        self.exits = {str(node): self.cluster.wait_exit(node, 0.0) for node in self.nodes}
        self.releases = install(self.cluster, self.nodes, self.params["release"])
        start_down_nodes(self.context, self.nodes)

    def injected(self) -> Confirmation:
        up = wait_until_up(self.context, self.nodes, self.params["refuses"])
        began = any(
            shown.get("exit") in (None, CORRUPT_EXIT) or shown["exit"] != self.exits[node]
            for node, shown in up.evidence.items()
        )
        return Confirmation(up.confirmed and began, with_releases(up.evidence, self.releases))

    def describe(self) -> str:
        return f"{node_names(self.nodes)} started again" + _in_words(" with release", self.releases)


class Pause(Fault):
    """SIGSTOP; healed by SIGCONT. A paused leader wakes up believing that it still leads."""

    def inject(self) -> None:
        for node in self.nodes:
            self.cluster.pause(node)

    def heal(self) -> None:
        self.awake = awake_nodes(self.cluster, self.nodes)
        for node in self.nodes:
            if is_paused(self.cluster, node):
                self.cluster.resume(node)

    def injected(self) -> Confirmation:
        states = process_states(self.context, self.nodes)
        return Confirmation(
            all(state == psutil.STATUS_STOPPED for state in states.values()), evidence_by_node(states, "state")
        )

    def recovered(self) -> Confirmation:
        states = process_states(self.context, self.nodes)
        awake = all(
            woke_up(self.context, node, state) or ended_by_other_fault(self.context, node)
            for node, state in states.items()
        )  # a node that another fault has ended need not wake up
        return Confirmation(awake, evidence_by_node(states, "state") | {"awake": self.awake})

    def is_over(self) -> bool:
        return not any(is_paused(self.cluster, node) for node in self.nodes)

    def describe(self) -> str:
        return f"{node_names(self.nodes)} paused"


class Resume(Momentary):
    """SIGCONT for paused nodes."""

    def inject(self) -> None:
        for node in self.nodes:
            self.cluster.resume(node)

    def injected(self) -> Confirmation:
        states = process_states(self.context, self.nodes)
        awake = all(woke_up(self.context, node, state) for node, state in states.items())
        return Confirmation(awake, evidence_by_node(states, "state"))

    def describe(self) -> str:
        return f"{node_names(self.nodes)} awake again"


def awake_nodes(cluster: Cluster, nodes: Iterable[int]) -> list[int]:
    """Return the nodes that run and are not paused. Before the healing of a pause, only another fault can have woken them."""
    return [node for node in nodes if cluster.alive(node) and not cluster.paused(node)]


def node_names(nodes: Iterable[int]) -> str:
    """Return the nodes in words: `node 2`, `nodes 1 and 3`."""
    ids = [str(node) for node in nodes]
    return f"node {ids[0]}" if len(ids) == 1 else f"nodes {', '.join(ids[:-1])} and {ids[-1]}" if ids else "no node"


def woke_up(context: FaultContext, node: int, state: str | None) -> bool:
    """Return whether a node that has been sent SIGCONT runs; or is paused again, and another fault explains that: it may run
    to the point of a `pause-at` at once. `state`: its process's state now."""
    return context.pause_explained(node) if state == psutil.STATUS_STOPPED else state is not None


def evidence_by_node(values: dict[int, Any], name: str) -> dict[str, Any]:
    """Return the values by node in the form of faults.jsonl: `{"2": {name: value}}`."""
    return {str(node): {name: value} for node, value in values.items()}


def process_states(context: FaultContext, nodes: Iterable[int]) -> dict[int, str | None]:
    """Return the kernel's state of each node's process (see `Host.process_state`)."""
    return {node: context.host.process_state(context.cluster.pid(node)) for node in nodes}


def command_if_up(
    cluster: Cluster, node: int, command: str, arguments: Mapping[str, Any], patience: float = 0.0
) -> dict[str, Any] | None:
    """Send a node a command and return its answer; None if it has ended, or ends within `patience` seconds.

    Raises ClusterError.
    """
    try:
        return cluster.control(node, command, **arguments)
    except ClusterError:
        if cluster.wait_exit(node, patience) is None:
            raise
        return None


def command_unless_paused(
    cluster: Cluster, node: int, command: str, arguments: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Send a node a command and return its answer; None if it has ended or is paused. Raises ClusterError."""
    try:
        return command_if_up(cluster, node, command, arguments)
    except ClusterError:
        if not is_paused(cluster, node):
            raise
        return None


def command_all(
    cluster: Cluster, nodes: Iterable[int], command: str, arguments: Mapping[str, Any]
) -> dict[int, dict[str, Any]]:
    """Send each node a command. Return the answers of those that have not ended or been paused. Raises ClusterError."""
    answers = {node: command_unless_paused(cluster, node, command, arguments) for node in nodes}
    return {node: answer for node, answer in answers.items() if answer is not None}


def ended_by(other: Fault, fault: Fault, pids: Mapping[int, int | None]) -> list[int]:
    """Return the running targets of a fault in which the healing of `other` has ended it: by undoing a fault of the same
    kind, or by a restart. `pids`: the processes that simulate the fault."""
    undone = other.nodes if type(other) is type(fault) else ()
    found = {node: fault.cluster.pid(node) for node in fault.nodes}
    return [node for node, pid in found.items() if pid is not None and (node in undone or pid != pids.get(node))]


def confirm_answers(context: FaultContext, nodes: Sequence[int], answers: Mapping[int, dict[str, Any]]) -> Confirmation:
    """Return whether all nodes have answered a command, and the answers as evidence.

    Nodes that another fault had ended or paused before need not have answered. At least one node must have, unless the
    schedule is drawn.
    """
    silent = [node for node in nodes if node not in answers]
    explained = all(is_paused(context.cluster, node) or ended_by_other_fault(context, node) for node in silent)
    evidence = {"answers": {str(node): answers[node] for node in answers}}
    return Confirmation(explained and (context.drawn or bool(answers)), evidence)


def ended_by_other_fault(context: FaultContext, node: int) -> bool:
    """Return whether the node has ended, and another fault explains it."""
    status = context.cluster.wait_exit(node, 0.0)
    return status is not None and context.exit_explained(node, status)


def start_down_nodes(context: FaultContext, nodes: Iterable[int], crash_at: str | None = None) -> None:
    """Start those of the nodes that are down, together. A node that exits at once is no error here: see `wait_until_up`."""
    dead = [node for node in nodes if not context.cluster.alive(node)]
    context.record_exits()
    if crash_at is None:
        context.cluster.start_all(dead)
    for node in dead if crash_at is not None else ():
        context.cluster.start(node, crash_at=crash_at)


def wait_until_up(context: FaultContext, nodes: Iterable[int], refuses: str = "never") -> Confirmation:
    """Wait until each node answers or has ended, and return whether that is as expected.

    `refuses`: whether a node "never", "must" or "may" refuse its disk (exit code 65). A node that ended because of
    another fault is as expected too.
    """
    deadline = context.host.now() + context.patience
    evidence: dict[str, Any] = {}
    good = True
    for node in nodes:
        shown = evidence[str(node)] = _answer_or_exit(context, node, deadline, answers=refuses != "must")
        up, exit_code = "pid" in shown, shown.get("exit")
        refused = exit_code == CORRUPT_EXIT
        as_expected = {"never": up, "must": refused, "may": up or refused}[refuses]
        good = good and (as_expected or (exit_code is not None and context.exit_explained(node, exit_code)))
    return Confirmation(good, evidence)


def _answer_or_exit(context: FaultContext, node: int, deadline: float, *, answers: bool) -> dict[str, int | None]:
    """Wait until a node has ended or, with `answers`, answers. Return `{"pid": ...}` if it answers, or is still running at the
    deadline; else `{"exit": ...}`, its exit status."""
    cluster = context.cluster
    while context.host.now() < deadline:
        pid, exit_code = cluster.pid(node), cluster.wait_exit(node, 0.0)
        if exit_code is not None:
            return {"exit": exit_code}
        if answers and cluster.status(node, timeout=0.5) is not None:
            return {"pid": pid}
        context.host.sleep(STEP)
    return {"pid": cluster.pid(node)} if cluster.alive(node) else {"exit": cluster.wait_exit(node, 0.0)}


ENOUGH = Key(
    name="enough",
    rule=choice("all", "one", "none"),
    default="all",
    doc="how many targets must reach the point for the fault to be confirmed; `one` if only the next leader can reach it",
)
CRASH_AT = Key(
    name="crash-at",
    rule=point(),
    default=None,
    needs=Ability.CRASH_POINTS,
    doc="restart at once, with this crash point armed from the start; healed like crash-at",
)
OLD, NEW = "old", "new"  # the releases of a run: the one that it begins with, and the one that nodes are upgraded to
RELEASE = Key(
    name="release",
    rule=text(1000),
    default=None,
    needs=Ability.RELEASES,
    doc="the release that the nodes are started with, and keep: old (the run's first one), new (that of --to), or a name",
)
CRASH_AT_SHARE = 0.4  # share of the drawn faults that have a crash-at


def with_crash_at(make: type[KillFault]) -> Callable[[FaultContext, Sequence[int], Mapping[str, Any]], Fault]:
    """Return a maker of faults that may have the key crash-at: nodes are then restarted at once with that point armed."""

    def make_fault(context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> Fault:
        from zab_chaos.faults.crash_at import KillThenCrashAtStart

        fault = make(context, nodes, params)
        return fault if params.get("crash-at") is None else KillThenCrashAtStart(fault)

    return make_fault


def draw_crash_at(random: Random) -> dict[str, Any]:
    """Draw the params crash-at and enough, or none of them."""
    return {"crash-at": DrawnPoint("crash"), "enough": "none"} if random.random() < CRASH_AT_SHARE else {}


def _restart(context: FaultContext, nodes: Any, params: Any) -> Fault:
    from zab_chaos.faults.crash_at import CrashAtStart

    return (CrashAtStart if params["crash-at"] else Restart)(context, nodes, params)


def check_enough(params: Mapping[str, Any], _target: Any, _nodes: int) -> list[str]:
    """Return the mistake that enough is given without crash-at."""
    if params["enough"] != ENOUGH.default and params["crash-at"] is None:
        return ["enough says how many targets must reach the point of crash-at, but crash-at is not given"]
    return []


KINDS = (
    Kind(
        name="crash",
        doc="SIGKILL; healed by a restart on the same disk",
        make=with_crash_at(Crash),
        keys=(
            Key(
                name="keeps_cache",
                rule=boolean(),
                default=False,
                needs=Ability.UNSYNCED,
                doc="die at the next sync or in the middle of the write before it, or after 0.5 s: written bytes stay in the "
                "machine's page cache, but are not durable. On the ordinary disk every crash keeps them",
            ),
            CRASH_AT,
            ENOUGH,
        ),
        target_state=TargetState.ALIVE,
        leaves="down",
        heal_order=HealOrder.DOWN,
        check=check_enough,
        draw=lambda random: {"keeps_cache": random.random() < 0.5, **draw_crash_at(random)},
    ),
    Kind(
        name="restart",
        doc="restart dead nodes on their disks",
        make=_restart,
        keys=(
            replace(CRASH_AT, doc="a crash point that is armed from the start"),
            ENOUGH,
            RELEASE,
            Key(
                name="refuses",
                rule=choice("never", "must", "may"),
                default="never",
                needs=Ability.DISK_FILES,
                doc="whether the node is expected to refuse its disk (exit code 65)",
            ),
        ),
        target_words=DEAD_WORDS,
        target_state=TargetState.DOWN,
        leaves="up",
        heals=False,
        heal_order=HealOrder.DOWN,
        impairs=False,
        check=check_enough,
    ),
    Kind(
        name="stop",
        doc="ask the process to exit by itself; healed by a restart",
        make=Stop,
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda _random: {},
    ),
    Kind(
        name="upgrade",
        doc="ask the process to exit by itself; healed by a restart with another release",
        make=Upgrade,
        keys=(replace(RELEASE, default=NEW, needs=None),),
        needs=frozenset({Ability.RELEASES}),
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {"release": random.choice((OLD, NEW))},
    ),
    Kind(
        name="pause",
        doc="SIGSTOP; healed by SIGCONT",
        make=Pause,
        needs=frozenset({Ability.PAUSE}),
        leaves="paused",
        heal_order=HealOrder.PAUSE,
        draw=lambda _random: {},
    ),
    Kind(
        name="resume",
        doc="SIGCONT to paused nodes",
        make=Resume,
        needs=frozenset({Ability.PAUSE}),
        target_words=DEAD_WORDS,
        target_state=TargetState.PAUSED,
        leaves="up",
        heals=False,
        heal_order=HealOrder.PAUSE,
        impairs=False,
    ),
)
