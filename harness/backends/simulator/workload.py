"""The open-loop workload of `zab_chaos.harness.workload.open_loop` over virtual time, with the same draws."""

from collections import deque
from collections.abc import Sequence

from zab_chaos.harness.backends.simulator.records import Records
from zab_chaos.harness.results.final_state import Held, text_of
from zab_chaos.harness.workload.open_loop import AGAIN_NS, SETUP_WINDOW, Counters
from zab_chaos.harness.workload.operations import Agenda, Draw, Load, key_path
from zab_chaos.model.world.clients import SimClient, SimOperation
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome
from zab_chaos.node.tree.refusal import NODE_EXISTS
from zab_chaos.node.tree.requests import Create, Get, Request

TIMEOUT_NS = 10_000_000_000  # after which an operation is unknown
READERS = 2**40  # the numbers of the clients that read the state at the end begin here


class _Lane:
    """One client: what it has been sent and owes."""

    def __init__(self, load: "SimLoad", machines: Sequence[SimNode], number: int) -> None:
        self.load = load
        self.number = number
        self.agenda = Agenda(load.load, load.seed, number + 1)
        self.waits = False  # a turn stands on the world's heap
        self.held = False  # the next operation was due and had to wait for a fault
        self.client = SimClient(
            load.world, machines, number % len(machines), number + 1, TIMEOUT_NS, self.known, self.turn
        )

    def due_ns(self) -> int | None:
        due = self.agenda.due_ns
        return None if due is None else self.load.start_ns + due

    def turn(self, woken: object = None) -> None:
        """Send what is due, and come back when something will be."""
        if woken:
            self.waits = False
        shared = self.load
        if not shared.begun:
            shared.make_keys(self)
            return
        if shared.stopping:
            self.client.flush()  # what was asked for before still goes out, as soon as there is a connection
            return
        now, client, due = shared.world.now, self.client, self.due_ns()
        while due is not None and due <= now and client.connected and client.outstanding < shared.load.max_outstanding:
            held = self.agenda.held_ns(shared.taken)
            if held is not None and now < shared.start_ns + held:
                self.held, due = True, shared.start_ns + held
                break
            request, node = self.agenda.take()
            if node is not None and node != client.node:
                client.move(node)
            self.ask(request, now if self.held else due)
            self.held, due = False, self.due_ns()
        client.flush()
        if due is not None and due > now:
            self.wake_at(due)

    def wake_at(self, due: int) -> None:
        """Take a turn then, unless one stands on the heap already: then it sees to the rest."""
        if not self.waits:
            self.waits = True
            self.load.world.at(due - self.load.world.now, self.turn, True)

    def ask(self, request: Request, due: int) -> None:
        operation = self.client.submit(request, due)
        self.load.counts["invoked"] += 1
        self.load.records.invoke(self.client.number, self.client.node, operation)

    def known(self, operation: SimOperation, outcome: Outcome) -> None:
        shared = self.load
        kind, _ = shared.records.complete(self.client.number, self.client.node, operation, outcome)
        shared.counts[kind] += 1
        if shared.begun:
            self.agenda.learn(operation.request, outcome)
        else:
            shared.key_known(operation, outcome)


class SimLoad:
    """Implements `zab_chaos.harness.runs.walk.Load`: the keys' znodes first, then the load."""

    def __init__(self, world: World, machines: Sequence[SimNode], records: Records, load: Load, seed: int) -> None:
        self.world = world
        self.records = records
        self.load = load
        self.seed = seed
        self.begun = self.stopping = False
        self.start_ns = 0
        self.counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}
        self.taken: frozenset[str] = frozenset()
        self._machines = machines
        self._lanes: list[_Lane] = []
        self._missing: deque[int] = deque()
        self._asked: dict[int, int] = {}  # key by the seq of its creation
        self._again_ns = 0  # no key is asked for before
        self._keys = Draw(load, seed, client=0)

    @property
    def counters(self) -> Counters:
        return Counters(**self.counts)

    def start(self) -> None:
        self._missing = deque(range(self.load.keys))
        self._lanes = [_Lane(self, self._machines, number) for number in range(self.load.clients)]

    def wait_begun(self, timeout: float) -> bool:
        return self.begun

    def took_effect(self, faults: frozenset[str]) -> None:
        """These faults have taken effect, and what awaits them may go."""
        self.taken = faults
        for lane in self._lanes:
            lane.turn()

    def held(self, paths: Sequence[str]) -> Held:
        """What each node holds now, asked by a client of its own. When the load has stopped."""
        return {
            machine.id: self._held_at(machine, number, paths) for number, machine in enumerate(self._machines, READERS)
        }

    def _held_at(self, machine: SimNode, number: int, paths: Sequence[str]) -> dict[str, str | None]:
        answers: dict[int, Outcome] = {}

        def heard(operation: SimOperation, outcome: Outcome) -> None:
            answers[operation.seq] = outcome

        def ready() -> None:
            client.flush()

        client = SimClient(self.world, [machine], 0, number, TIMEOUT_NS, heard, ready)
        asked = {client.submit(Get(path), self.world.now).seq: path for path in paths}
        self.world.until(lambda: len(answers) == len(asked), 2 * TIMEOUT_NS)
        client.close()
        texts = {asked[seq]: text_of(outcome) for seq, outcome in answers.items()}
        return {path: value for path, (known, value) in texts.items() if known}

    def stop(self, grace: float = 5.0) -> Counters:
        """Ask for no more, let the outstanding ones be answered for at most `grace` seconds."""
        self.stopping = True
        self.world.until(lambda: not any(lane.client.outstanding for lane in self._lanes), int(grace * 1e9))
        for lane in self._lanes:
            lane.client.close()
        return self.counters

    def make_keys(self, lane: _Lane) -> None:
        """The first client creates them; whatever fails or is unknown is asked for again."""
        if lane.number != 0 or self.stopping:
            return
        if self.world.now < self._again_ns:
            lane.wake_at(self._again_ns)
            return
        while self._missing and lane.client.connected and lane.client.outstanding < SETUP_WINDOW:
            key = self._missing.popleft()
            lane.ask(Create(key_path(key), self._keys.payload()), self.world.now)
            self._asked[lane.client.last_seq] = key
        lane.client.flush()
        if not self._missing and not lane.client.outstanding:
            self.begun = True
            self.start_ns = self.world.now
            for each in self._lanes:
                each.turn()

    def key_known(self, operation: SimOperation, outcome: Outcome) -> None:
        key = self._asked.pop(operation.seq)
        there = isinstance(outcome, Ok) or (isinstance(outcome, Failed) and outcome.error == NODE_EXISTS)
        if not there:
            self._missing.append(key)
            self._again_ns = self.world.now + AGAIN_NS
