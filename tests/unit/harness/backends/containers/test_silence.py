"""The watchdog that ends a node in a container when the harness is silent."""

from zab_chaos.node.watchdog import LONGEST_ROUND_NS, Watchdog


class Ticking:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


def test_silence_ends_a_life_and_a_request_restarts_the_timer() -> None:
    clock = Ticking()
    silence = Watchdog(2000, clock)
    for _ in range(20):
        clock.sleep(0.1)
        assert not silence.expired(contacted=False)
    assert not silence.expired(contacted=True)
    for _ in range(20):
        clock.sleep(0.1)
        assert not silence.expired(contacted=False)
    clock.sleep(0.1)
    assert silence.expired(contacted=False)


def test_time_spent_frozen_does_not_count_as_silence() -> None:
    clock = Ticking()
    silence = Watchdog(2000, clock)
    clock.sleep(3600)
    assert not silence.expired(contacted=False)  # it looks for what was asked meanwhile first
    assert not silence.expired(contacted=True)
    clock.sleep(3600)
    assert not silence.expired(contacted=False)
    clock.sleep(2 * LONGEST_ROUND_NS / 1e9)
    clock.sleep(3600)
    assert not silence.expired(contacted=False)
    clock.sleep(3600)
    assert silence.expired(contacted=False)
