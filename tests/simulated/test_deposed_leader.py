"""A leader that was deposed and does not know it gives no answers as if it still led."""

from pathlib import Path

import pytest

from zab_chaos.harness.client import Create, Failed, Unknown
from zab_chaos.harness.live import Ensemble
from zab_chaos.model.verdict import Outcome


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_deposed_leader_refuses_nothing_by_an_outdated_state(seed: int, tmp_path: Path) -> None:
    """The leader's clock is slow, so that the others elect a new one before it misses them. Clients reach both sides."""
    with Ensemble(on="sim", seed=seed, results=tmp_path) as cluster:
        leader = cluster.until_established()
        other = next(node for node in (1, 2, 3) if node != leader)
        with cluster.client(leader) as here, cluster.client(other) as there:
            here.create("/lock")
            cluster.until_converged()
            cluster.clock_rate(leader, rate=0.5)
            cluster.partition(leader, shape="isolate")
            for _ in range(200):
                try:
                    there.delete("/lock")
                    break
                except (Failed, Unknown):
                    cluster.sleep(0.02)
            late = here.submit(Create("/lock")).outcome()
            assert not isinstance(late, Failed) or late.error == "no leader", late
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons
