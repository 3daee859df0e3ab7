"""A simulated node: a disk that outlives its lives, and the signals that start, stop and end its process."""

from collections.abc import Callable, Mapping

from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.interfaces import DiskInterface
from zab_chaos.model.world.network import MS, RESUME_POLL_NS, SimNet
from zab_chaos.model.world.server import KILLED, SimServer, die
from zab_chaos.model.world.world import SimPlan, Sink, World

START_NS = (20 * MS, 200 * MS)  # least and most time from the spawn to the boot


class SimNode:
    """One node of the ensemble: its disk, and the present life of its process in `server`.

    `machines`: all nodes of the world, by id.
    """

    def __init__(
        self, number: int, world: World, net: SimNet, plan: SimPlan, sink: Sink, machines: Mapping[int, "SimNode"]
    ) -> None:
        self.id = number
        self.world = world
        self.net = net
        self.plan = plan
        self.sink = sink
        self.machines = machines
        self.peers = [peer for peer in range(1, plan.nodes + 1) if peer != number]
        self.drift = world.chance.drift()
        self.disk = self.make_disk()
        self.server: SimServer | None = None
        self.life = 0
        self.exit: int | None = None  # exit code of the latest life
        self.armed = False  # the present life was started with a crash point
        self._end_expected = False  # the present life was killed or asked to end

    def make_disk(self) -> DiskInterface:
        return SimDisk(faithful=self.plan.faithful, draw_sync=self.world.chance.sync, die=die)

    def make_server(self, crash_at: str | None) -> SimServer:
        return SimServer(self, self.life, crash_at)

    @property
    def alive(self) -> bool:
        return self.server is not None and self.server.alive

    @property
    def up(self) -> bool:
        """Alive and past its boot."""
        return self.server is not None and self.server.alive and self.server.booted

    @property
    def stopped(self) -> bool:
        return self.server is not None and self.server.alive and self.server.stopped

    def pid(self, life: int) -> int:
        """Return a number that stands for the process of this life. All lives have different ones; no real process has it."""
        return 100 * life + self.id

    def spawn(self, crash_at: str | None = None) -> None:
        """Start a new life. It boots once the start-up time of a process has passed."""
        self.life += 1
        self.exit = None
        self._end_expected, self.armed = False, crash_at is not None
        self.server = server = self.make_server(crash_at)
        least, most = START_NS

        def boot(_: object) -> None:
            if server.stopped:
                self.world.call_later(RESUME_POLL_NS, boot)
            elif server.alive:
                server.boot()

        self.world.call_later(least + self.world.chance.up_to(most - least), boot)

    def kill(self) -> None:
        """Kill the process, as SIGKILL does. Does nothing if it is not alive."""
        if self.server is not None and self.server.alive:
            self._end_expected = True
            self.server.end(KILLED)

    def terminate(self) -> None:
        """Ask the process to end, as SIGTERM does."""
        assert self.server is not None
        self._end_expected = True
        self.server.terminate()

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""
        assert self.server is not None
        self.server.pause()
        self.server.port.process_stopped()

    def resume(self) -> None:
        """Resume the process, as SIGCONT does."""
        assert self.server is not None
        self.server.resume()

    def server_ended(self, server: SimServer, code: int) -> None:
        self.exit = code
        self.disk.lose_power()
        if not self._end_expected:
            self.sink.ended(self.id, server.life, code, self.armed and code == KILLED)


MakeNode = Callable[[int, World, SimNet, SimPlan, Sink, Mapping[int, SimNode]], SimNode]


def build(world: World, plan: SimPlan, sink: Sink, make_node: MakeNode = SimNode) -> tuple[SimNet, dict[int, SimNode]]:
    """Build the nodes of a world, all of them down, and the links between them."""
    net = SimNet(world, plan.nodes)
    machines: dict[int, SimNode] = {}
    for number in range(1, plan.nodes + 1):
        machines[number] = make_node(number, world, net, plan, sink, machines)
    for proxy in net.proxies.values():
        proxy.server_at = lambda node: machines[node].server if machines[node].up else None
    return net, machines
