"""Random faults under many seeds: deliveries always follow one ledger, and after healing all nodes converge."""

import random

import pytest
from ensemble import Ensemble


def chaos(seed: int, n: int, snapshot_every: int, steps: int = 40) -> Ensemble:
    draw = random.Random(f"chaos {seed}")
    world = Ensemble(n, seed)
    world.snapshot_every = snapshot_every
    world.start()
    minority = (n - 1) // 2
    sent = 0
    for _ in range(steps):
        world.run(draw.choice([5, 20, 100, 400]))
        down = [i for i in world.members if world.servers[i].peer is None]
        amnesiac = [i for i, s in world.servers.items() if s.amnesiac and (s.peer is None or s.peer.amnesiac)]
        match draw.randint(0, 9):
            case 0 if len(down) < n:
                world.crash(draw.choice([i for i in world.members if i not in down]))
            case 1 | 2 if down:
                world.start(draw.choice(down))
            case 3:
                world.crash(*[i for i in world.members if i not in down])
            case 4:
                world.isolate(draw.choice(world.members))
            case 5 if n > 1:
                pairs = [(a, b) for a in world.members for b in world.members if a != b]
                world.heal()
                world.partition(*draw.sample(pairs, draw.randint(1, len(pairs) // 2 + 1)))
            case 6:
                world.heal()
            case 7 if down and len(set(amnesiac) | {down[0]}) <= minority:
                world.wipe(down[0])
                world.start(down[0])
            case _:
                leader = world.leader()
                if leader is not None:
                    for _ in range(draw.randint(1, 5)):
                        sent += 1
                        peer = world.servers[leader].peer
                        if peer is not None and peer.primary is not None and peer.primary.room:
                            world.submit(leader, *[b"%d.%d" % (sent, i) for i in range(draw.randint(1, 3))])
    world.heal()
    for node in world.members:
        if world.servers[node].peer is None:
            world.start(node)
    for attempt in range(3):  # the links that healing re-opens may cost one more election
        world.until(world.converged, 60_000)
        leader = world.leader()
        assert leader is not None
        world.submit(leader, b"last %d" % attempt)
        world.run(1000)
    assert world.converged()
    assert world.ledger[-1][1].startswith(b"last")
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(("n", "snapshot_every"), [(3, 0), (3, 4), (5, 3), (1, 2)])
def test_random_faults_leave_one_ledger(n: int, snapshot_every: int, seed: int) -> None:
    chaos(seed, n, snapshot_every)
