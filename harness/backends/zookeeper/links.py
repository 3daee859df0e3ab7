"""The links between ZooKeeper's servers: faults on them.

A server has two ports for its peers, one for the quorum and one for elections, and a connection carries data both ways. So
there is a proxy for each ordered pair of servers and port. Link (i, j), which is what i sends to j, consists of four streams:
the "upstream" of the two proxies through which i connects to j, and the "downstream" of the two through which j connects to i.
A fault's effect is put on all four, with a different name for each stream. What j sends to i is not touched, so partitions are
really one-way.
"""

from itertools import permutations

from zab_chaos.faults.network import Pair
from zab_chaos.faults.two_way_network import Way
from zab_chaos.harness.backends.zookeeper.server import HOST, Plan, proxy_host

QUORUM, ELECTION = 1, 2  # the third number in a proxy's name


def ways(plan: Plan) -> dict[Pair, Way]:
    """Return the way from each server to each port of each other one, by (from, to, port)."""
    return {
        (source, target, port): Way(
            proxy=f"{proxy_host(source, target)}:{number}",
            relay=f"{relay_host(source, target)}:{number}",
            target=f"{HOST}:{number}",
        )
        for source, target in permutations(plan.nodes, 2)
        for port, number in ((QUORUM, plan.ports[target].quorum), (ELECTION, plan.ports[target].election))
    }


def relay_host(source: int, target: int) -> str:
    """Return the loopback address at which the relays of link (source, target) listen."""
    return f"127.102.{source}.{target}"
