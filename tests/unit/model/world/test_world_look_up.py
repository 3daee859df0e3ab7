"""The look-up that docs/client.md recommends after an unknown write. Without fences its result may change afterwards."""

from pathlib import Path

import pytest

from zab_chaos.harness.client.session import Session
from zab_chaos.harness.live import Ensemble, Failed, Unknown
from zab_chaos.node.tree.requests import Set

SEEDS = range(1, 6)


def look_up(client: Session, path: str) -> tuple[bytes | None, int | None]:
    """Return the value and version, as soon as the node has a leader."""
    while True:
        try:
            found = client.get(path)
            return found.value, found.version
        except (Failed, Unknown):
            pass


def recipe_is_wrong(results: Path, seed: int, defect: str | None) -> bool:
    """Return whether the state changes after the look-up.

    The client's node is killed after it has forwarded the write, while the leader's slow disk delays its commit.
    """
    with Ensemble(results=results, on="sim", seed=seed, defect=defect) as ensemble:
        leader = ensemble.until_established()
        node = leader % 3 + 1  # when it is killed, the client connects to the other follower
        with ensemble.client(node=node) as client:
            client.create("/account", b"100")
            ensemble.slow_disk(leader, ms=300)
            pending = client.submit(Set("/account", b"90", version=0))
            client.wait(lambda: pending.done, 0.05)
            ensemble.crash(node)
            assert isinstance(pending.outcome(), Unknown)
            first = look_up(client, "/account")
            ensemble.sleep(3)
            later = look_up(client, "/account")
        ensemble.heal()
        ensemble.finish()
    return first != later


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_found_after_an_unknown_write_does_not_change(tmp_path: Path, seed: int) -> None:
    assert not recipe_is_wrong(tmp_path, seed, None)


def test_without_fences_the_write_takes_effect_after_the_look_up(tmp_path: Path) -> None:
    assert any(recipe_is_wrong(tmp_path, seed, "no-fence") for seed in SEEDS)
