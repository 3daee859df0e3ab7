"""kazoo's Lock: what it does not promise to a holder that is paused, and the fence that makes up for it."""

import itertools
import signal
import subprocess
import sys
import threading
from pathlib import Path

import balance
import pytest
from kazoo.exceptions import KazooException

from zab_chaos.harness.testing.plugin import cluster_fixture

PROGRAM = Path(balance.__file__)
shared = cluster_fixture("module")  # the servers are well in these tests; only the holder of the lock is not


def holder(hosts, place, amount, fenced):
    """A process that holds the lock, has read the balance, and waits for a line before it writes."""
    command = [sys.executable, str(PROGRAM), hosts, place, str(amount), "fenced" if fenced else "careless"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "holding\n"
    return process


@pytest.mark.parametrize("kind", ["file", "znode"])
@pytest.mark.parametrize("fenced", [False, True], ids=["careless", "fenced"])
def test_a_holder_that_was_paused_writes_after_the_next_one(shared, tmp_path, kind, fenced):
    """10 are deposited by a process that is paused while it holds the lock, 20 by the next holder."""
    client = balance.connected(shared.hosts)
    path = f"/balance-{fenced}"
    place = path if kind == "znode" else f"file:{tmp_path / 'balance'}"
    late = holder(shared.hosts, place, 10, fenced)
    here = balance.InZnode(client, path) if kind == "znode" else balance.InFile(tmp_path / "balance")
    try:
        late.send_signal(signal.SIGSTOP)
        assert balance.deposit(client, here, 20, fenced=fenced) == 20  # as soon as the other's session has ended
        late.stdin.write("\n")
        late.stdin.flush()
        late.send_signal(signal.SIGCONT)
        told = late.communicate(timeout=60)[0]
        amount = here.read()[0]
    finally:
        late.kill()
        client.stop()
        client.close()
    if fenced:
        assert told.startswith("too late"), told
        assert amount == 20
    else:
        assert told == "written 10\n"
        assert amount == 10  # the deposit of 20 is lost, although both held the lock


def test_with_a_fence_no_deposit_is_lost_whatever_happens(zab_cluster, tmp_path):
    """Three clients, a leader that is cut off, a server that is paused, a leader that is killed."""
    here, over = balance.InFile(tmp_path / "balance"), threading.Event()

    def depositor(client):
        while not over.is_set():
            try:
                balance.deposit(client, here, 1, fenced=True)
            except (balance.TooLate, KazooException):
                continue  # the next one is another deposit

    def more():
        seen = here.read()[1]
        zab_cluster.until(lambda: here.read()[1] >= seen + 5, timeout=60)

    clients = [balance.connected(zab_cluster.hosts) for _ in range(3)]
    threads = [threading.Thread(target=depositor, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    try:
        more()
        with zab_cluster.partitioned("leader"):
            more()
        with zab_cluster.paused("follower"):
            more()
        zab_cluster.crash("leader")
        more()
        zab_cluster.heal()
        more()
    finally:
        over.set()
        for client, thread in zip(clients, threads, strict=True):
            thread.join()
            client.stop()
            client.close()
    lines = here.lines()
    assert [line["amount"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(one["fence"] < next["fence"] for one, next in itertools.pairwise(lines))
