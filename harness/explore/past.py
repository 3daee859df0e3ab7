"""Draws what is on the disks at the start: what an ensemble leaves that has lived through some epochs.

In a new ensemble f.a and the last zxid nearly always say the same of two histories. They contradict each other where a node
logged what no quorum has, and others joined a later epoch without it, and wrote nothing yet.
"""

from dataclasses import replace
from itertools import permutations
from random import Random

from zab_chaos.faults.scenario import Disk

EPOCHS = (2, 3, 3, 4)
WRITTEN = (0, 0, 1, 2, 3)  # transactions in an epoch
HEARD = 0.3  # how often a node outside has promised an epoch, too
OLD = 0.3  # how often all of that came after other epochs, which have left nothing
AGES = (253, 2**16 - 3)  # epochs: soon their numbers need another byte


def draw_disks(random: Random, nodes: int) -> tuple[Disk, ...]:
    """The disks that hold something, by node. Of some two of them, one has the later epoch and the other the higher zxid."""
    while True:
        disks = _play(random, nodes)
        if any(a.current_epoch < b.current_epoch and a.log[-1:] > b.log[-1:] for a, b in permutations(disks, 2)):
            return _after(random.choice(AGES), disks) if random.random() < OLD else disks


def _play(random: Random, nodes: int) -> tuple[Disk, ...]:
    """Each epoch is promised by a quorum, and joined by all of it or by its leader alone. A transaction is broadcast only if
    all have joined, and the followers may have missed the last ones."""
    disks = {node: Disk(node=node) for node in range(1, nodes + 1)}
    for epoch in range(1, random.choice(EPOCHS) + 1):
        promised = random.sample(sorted(disks), random.randint(nodes // 2 + 1, nodes))
        joined = promised[: random.choice((1, len(promised), len(promised)))]
        written = random.choice(WRITTEN) if joined == promised else 0
        history = max((disks[node] for node in promised), key=lambda disk: (disk.current_epoch, disk.log[-1:])).log
        for node, disk in disks.items():
            if node in promised or random.random() < HEARD:
                disks[node] = replace(disk, accepted_epoch=epoch)
        for node in joined:
            held = written if node == joined[0] else random.randint(0, written)
            log = (*history, *((epoch, counter) for counter in range(1, held + 1)))
            disks[node] = Disk(node=node, accepted_epoch=epoch, current_epoch=epoch, log=log)
    return tuple(disk for disk in disks.values() if disk.accepted_epoch)


def _after(epochs: int, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    """The same, so many epochs later."""
    return tuple(
        Disk(
            node=disk.node,
            accepted_epoch=disk.accepted_epoch + epochs,
            current_epoch=disk.current_epoch and disk.current_epoch + epochs,
            log=tuple((epoch + epochs, counter) for epoch, counter in disk.log),
        )
        for disk in disks
    )
