"""Draw the initial contents of the disks: the histories that an ensemble leaves after some epochs.

In a new ensemble, f.a and the last zxid nearly always order two histories in the same way. They contradict each other when one
node has logged a transaction that no quorum has, and other nodes have joined a later epoch without it and written nothing yet.
"""

from dataclasses import replace
from itertools import permutations
from random import Random

from zab_chaos.faults.scenario import InitialDisk

EPOCHS = (2, 3, 3, 4)
TRANSACTIONS = (0, 0, 1, 2, 3)  # in an epoch
PROMISED_OUTSIDE = 0.3  # the probability that a node outside the quorum has promised an epoch, too
LATE_START = 0.3  # the probability that these epochs come after many others, which have left nothing
EARLIER_EPOCHS = (253, 2**16 - 3)  # the number of those others: soon an epoch's number needs one more byte
LONE_PROMISE = 0.5  # the probability that one node has promised epochs that nobody else has
LONE_EPOCHS = (2, 3)  # the number of these epochs


def draw_disks(random: Random, nodes: int) -> tuple[InitialDisk, ...]:
    """Return the disks that hold something, ordered by node.

    There are at least two of which one has the later epoch and the other the higher zxid.
    """
    while True:
        disks = _draw_epochs(random, nodes)
        if any(a.current_epoch < b.current_epoch and a.log[-1:] > b.log[-1:] for a, b in permutations(disks, 2)):
            return _shifted(random.choice(EARLIER_EPOCHS), disks) if random.random() < LATE_START else disks


def with_lone_promise(random: Random, disks: tuple[InitialDisk, ...]) -> tuple[InitialDisk, ...]:
    """Return the disks, in which sometimes one node's last promise is some epochs above those of all others.

    It was the first to promise these epochs, and each of their leaders failed before a second node did. If it is not elected
    itself, the others may have a leader that must resign when it hears of this promise.
    """
    if random.random() >= LONE_PROMISE:
        return disks
    latest = max(disks, key=lambda disk: (disk.current_epoch, disk.log[-1:]))
    node = random.choice([disk.node for disk in disks if disk is not latest])
    epoch = max(disk.accepted_epoch for disk in disks) + random.choice(LONE_EPOCHS)
    return tuple(replace(disk, accepted_epoch=epoch) if disk.node == node else disk for disk in disks)


def _draw_epochs(random: Random, nodes: int) -> tuple[InitialDisk, ...]:
    """Draw some epochs, and return the disks after them.

    Each epoch is promised by a quorum, and joined by the whole quorum or by its leader alone. Transactions are broadcast only
    if the whole quorum has joined; a follower may have missed the last ones.
    """
    disks = {node: InitialDisk(node=node) for node in range(1, nodes + 1)}
    for epoch in range(1, random.choice(EPOCHS) + 1):
        promised = random.sample(sorted(disks), random.randint(nodes // 2 + 1, nodes))
        joined = promised[: random.choice((1, len(promised), len(promised)))]
        broadcast = random.choice(TRANSACTIONS) if joined == promised else 0
        history = max((disks[node] for node in promised), key=lambda disk: (disk.current_epoch, disk.log[-1:])).log
        for node, disk in disks.items():
            if node in promised or random.random() < PROMISED_OUTSIDE:
                disks[node] = replace(disk, accepted_epoch=epoch)
        for node in joined:
            logged = broadcast if node == joined[0] else random.randint(0, broadcast)
            log = (*history, *((epoch, counter) for counter in range(1, logged + 1)))
            disks[node] = InitialDisk(node=node, accepted_epoch=epoch, current_epoch=epoch, log=log)
    return tuple(disk for disk in disks.values() if disk.accepted_epoch)


def _shifted(epochs: int, disks: tuple[InitialDisk, ...]) -> tuple[InitialDisk, ...]:
    """Return the disks with every epoch raised by `epochs`."""
    return tuple(
        InitialDisk(
            node=disk.node,
            accepted_epoch=disk.accepted_epoch + epochs,
            current_epoch=disk.current_epoch and disk.current_epoch + epochs,
            log=tuple((epoch + epochs, counter) for epoch, counter in disk.log),
        )
        for disk in disks
    )
