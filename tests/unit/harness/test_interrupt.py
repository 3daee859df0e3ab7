import signal

import pytest

from harness.interrupt import Forced, Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_forces(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupt() as interrupt:
        assert not interrupt.asked.is_set()
        signal.raise_signal(number)
        assert interrupt.asked.is_set()
        assert not interrupt.forced
        with pytest.raises(Forced):
            signal.raise_signal(number)
        assert interrupt.forced
    assert signal.getsignal(number) is before
