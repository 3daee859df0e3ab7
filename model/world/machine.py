"""One simulated machine: a disk that outlives the lives of the process on it, and what is done to that process."""

from collections.abc import Callable, Mapping

from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.interfaces import MachineDisk
from zab_chaos.model.world.network import SimNet
from zab_chaos.model.world.server import KILLED, SimServer, die
from zab_chaos.model.world.world import Plan, Sink, World

MS = 1_000_000
START_NS = (20 * MS, 200 * MS)  # from the spawn to the first look at the disk
LOOK_NS = 20 * MS  # how soon a start goes on when a process that was stopped goes on


class SimNode:
    """`machines`: all of the world, by id."""

    def __init__(
        self, number: int, world: World, net: SimNet, plan: Plan, sink: Sink, machines: Mapping[int, "SimNode"]
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
        self.exit: int | None = None  # of the latest life
        self.armed = False  # the present life was told to die somewhere
        self._ending = False  # its end is no news

    def make_disk(self) -> MachineDisk:
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
        """No process has it; but all lives differ."""
        return 100 * life + self.id

    def spawn(self, crash_at: str | None = None) -> None:
        """A new life; it boots after the time that a process takes to start."""
        self.life += 1
        self.exit = None
        self._ending, self.armed = False, crash_at is not None
        self.server = server = self.make_server(crash_at)
        least, most = START_NS

        def boot(_: object) -> None:
            if server.stopped:
                self.world.at(LOOK_NS, boot)
            elif server.alive:
                server.boot()

        self.world.at(least + self.world.chance.up_to(most - least), boot)

    def kill(self) -> None:
        """SIGKILL."""
        if self.server is not None and self.server.alive:
            self._ending = True
            self.server.end(KILLED)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        assert self.server is not None
        self._ending = True
        self.server.terminate()

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.server is not None
        self.server.pause()
        self.went_to_sleep()

    def went_to_sleep(self) -> None:
        assert self.server is not None
        self.server.port.asleep()

    def resume(self) -> None:
        """SIGCONT."""
        assert self.server is not None
        self.server.resume()

    def server_ended(self, server: SimServer, code: int) -> None:
        self.exit = code
        self.disk.lose_power()
        if not self._ending:
            self.sink.ended(self.id, server.life, code, self.armed and code == KILLED)


MakeNode = Callable[[int, World, SimNet, Plan, Sink, Mapping[int, SimNode]], SimNode]


def build(world: World, plan: Plan, sink: Sink, make_node: MakeNode = SimNode) -> tuple[SimNet, dict[int, SimNode]]:
    """The machines of a world, all of them down, and the links between them."""
    net = SimNet(world, plan.nodes)
    machines: dict[int, SimNode] = {}
    for number in range(1, plan.nodes + 1):
        machines[number] = make_node(number, world, net, plan, sink, machines)
    for wire in net.wires.values():
        wire.server_at = lambda node: machines[node].server if machines[node].up else None
    return net, machines
