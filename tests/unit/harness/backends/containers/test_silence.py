"""The dead man's switch of a node in a container."""

from zab_chaos.node.watchdog import AWAKE, Silence


class Ticking:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


def test_silence_ends_a_life_and_a_word_begins_it_anew() -> None:
    clock = Ticking()
    silence = Silence(2000, clock)
    for _ in range(20):
        clock.sleep(0.1)
        assert not silence.too_long(heard=False)
    assert not silence.too_long(heard=True)
    for _ in range(20):
        clock.sleep(0.1)
        assert not silence.too_long(heard=False)
    clock.sleep(0.1)
    assert silence.too_long(heard=False)


def test_a_node_that_was_frozen_does_not_take_its_sleep_for_silence() -> None:
    clock = Ticking()
    silence = Silence(2000, clock)
    clock.sleep(3600)
    assert not silence.too_long(heard=False)  # it looks for what was asked meanwhile first
    assert not silence.too_long(heard=True)
    clock.sleep(3600)
    assert not silence.too_long(heard=False)
    clock.sleep(2 * AWAKE / 1e9)
    clock.sleep(3600)
    assert not silence.too_long(heard=False)
    clock.sleep(3600)
    assert silence.too_long(heard=False)
