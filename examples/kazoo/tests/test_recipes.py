"""kazoo's Counter and Election, while servers are killed and cut off."""

import itertools
import threading

import balance


def count(counter, times):
    for _ in range(times):
        counter += 1


def test_no_increment_is_lost(zab_cluster):
    client = balance.connected(zab_cluster.hosts)
    try:
        counter = client.Counter("/count")
        count(counter, 10)
        with zab_cluster.partitioned("leader"):
            count(counter, 10)
        zab_cluster.crash("leader")
        count(counter, 10)
        zab_cluster.heal()
        assert counter.value >= 30  # more if an answer was lost, because kazoo then counts again
    finally:
        client.stop()
        client.close()


def test_one_client_leads_at_a_time_and_the_next_one_has_a_higher_zxid(zab_cluster):
    clients = [balance.connected(zab_cluster.hosts) for _ in range(3)]
    terms, leading, resign = [], threading.Semaphore(1), threading.Event()

    def lead(client, election):
        assert leading.acquire(blocking=False), "two lead at once"
        terms.append(client.retry(client.exists, f"/election/{election.lock.node}").czxid)
        resign.wait()
        resign.clear()
        leading.release()

    def candidate(client):
        election = client.Election("/election")
        election.run(lead, client, election)

    threads = [threading.Thread(target=candidate, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    try:
        zab_cluster.until(lambda: len(terms) == 1)
        with zab_cluster.partitioned("leader"):
            resign.set()
            zab_cluster.until(lambda: len(terms) == 2, timeout=60)
        zab_cluster.crash("leader")
        resign.set()
        zab_cluster.until(lambda: len(terms) == 3, timeout=60)
    finally:
        for thread in threads:
            while thread.is_alive():
                resign.set()
                thread.join(0.1)
        for client in clients:
            client.stop()
            client.close()
    assert all(one < next for one, next in itertools.pairwise(terms))
