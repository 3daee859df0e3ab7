"""kazoo's Lock: a paused holder can write after the next one, and a fence prevents it."""

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
shared = cluster_fixture(
    "module"
)  # shared, because these tests inject faults into the lock's holder only, not into the servers


def holder(hosts, place, amount, fenced):
    """Start a process that holds the lock, has read the balance, and waits for a line before it writes."""
    command = [sys.executable, str(PROGRAM), hosts, place, str(amount), "fenced" if fenced else "careless"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "holding\n"
    return process


@pytest.mark.parametrize("kind", ["file", "znode"])
@pytest.mark.parametrize("fenced", [False, True], ids=["careless", "fenced"])
def test_a_paused_holder_overwrites_the_next_one_unless_there_is_a_fence(shared, tmp_path, kind, fenced):
    """A process is paused while it holds the lock to deposit 10; the next holder deposits 20."""
    client = balance.connected(shared.hosts)
    path = f"/balance-{fenced}"
    place = path if kind == "znode" else f"file:{tmp_path / 'balance'}"
    late = holder(shared.hosts, place, 10, fenced)
    here = balance.ZnodeBalance(client, path) if kind == "znode" else balance.FileBalance(tmp_path / "balance")
    try:
        late.send_signal(signal.SIGSTOP)
        assert (
            balance.deposit(client, here, 20, fenced=fenced) == 20
        )  # once the session of the paused process has expired
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


def test_with_a_fence_no_deposit_is_lost(zab_cluster, tmp_path):
    """Three clients deposit while a leader is cut off, a server is paused, and a leader is killed."""
    here, over = balance.FileBalance(tmp_path / "balance"), threading.Event()

    def depositor(client):
        while not over.is_set():
            try:
                balance.deposit(client, here, 1, fenced=True)
            except (balance.TooLate, KazooException):
                continue  # the next one is another deposit

    def wait_for_five_deposits():
        seen = here.read()[1]
        zab_cluster.until(lambda: here.read()[1] >= seen + 5, timeout=60)

    clients = [balance.connected(zab_cluster.hosts) for _ in range(3)]
    threads = [threading.Thread(target=depositor, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    try:
        wait_for_five_deposits()
        with zab_cluster.partitioned("leader"):
            wait_for_five_deposits()
        with zab_cluster.paused("follower"):
            wait_for_five_deposits()
        zab_cluster.crash("leader")
        wait_for_five_deposits()
        zab_cluster.heal()
        wait_for_five_deposits()
    finally:
        over.set()
        for client, thread in zip(clients, threads, strict=True):
            thread.join()
            client.stop()
            client.close()
    lines = here.lines()
    assert [line["amount"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(one["fence"] < next["fence"] for one, next in itertools.pairwise(lines))
