"""The randomness of a simulated world: how long messages, syncs, starts and polls take, and which frames are lost.

All of it is drawn from the world's seed: first the conditions of the whole run, then every single delay.
"""

from dataclasses import dataclass
from math import trunc  # the same as `int` for a float, and faster
from random import Random

US = 1_000
MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How fast and how reliable the network and the disks of one world are. Times are nanoseconds.

    A drawn time lies between `least` and `least + spread`, mostly near `least`. With `hitch_probability` it is
    `least + spread + hitch` instead.
    """

    least_delay: int
    delay_spread: int
    delay_hitch: int
    least_sync: int
    sync_spread: int
    sync_hitch: int
    round: int  # how long a node computes in a round; frames that arrive meanwhile wait
    loss: float  # probability that a frame on a link is lost
    hitch_probability: float = 0.0005

    @classmethod
    def draw(cls, random: Random) -> "Conditions":
        """Draw anything from a good local network and disk to very bad ones. Only a few worlds lose frames."""
        delay = random.choice((100, 200, 500, 2000)) * US
        sync = random.choice((100, 300, 1000, 5000)) * US
        return cls(
            least_delay=delay // 4,
            delay_spread=delay,
            delay_hitch=random.choice((0, 5, 50)) * MS,
            least_sync=sync // 2,
            sync_spread=sync,
            sync_hitch=random.choice((0, 20, 100)) * MS,
            round=random.choice((100, 200, 400)) * US,
            loss=random.choice((0.0, 0.0, 0.0, 0.00001)),
        )


class Chance:
    """Draws all random values of one world. The order of the calls decides the values.

    In an `erratic` network, many messages wait for so long that timeouts run out, and frames are lost, until `calm` is called:
    there is no bound on delays before, and there is one after it (partial synchrony; Dwork, Lynch and Stockmeyer, 1988).
    """

    def __init__(self, seed: int, erratic: bool = False) -> None:
        self.random = Random(f"chance {seed}")
        self.conditions = Conditions.draw(self.random)
        self._draw = self.random.random
        self.erratic = erratic
        if erratic:
            self._waits = self.random.choice((0.002, 0.01, 0.05))  # the probability that a message waits
            self._longest_wait = self.random.choice((50, 200, 500)) * MS
            self._lose_frames(self.random.choice((0.0, 0.001, 0.005)))
        else:
            self._lose_frames(self.conditions.loss)
        self._hitches_from = 1 - self.conditions.hitch_probability
        self._least_delay, self._least_sync = self.conditions.least_delay, self.conditions.least_sync
        self._delay_spread = float(self.conditions.delay_spread)  # to multiply two numbers of one type is faster
        self._sync_spread = float(self.conditions.sync_spread)

    def _lose_frames(self, probability: float) -> None:
        self._loss = probability
        self.loses_frames = probability > 0  # whether frames are lost at all

    def calm(self) -> None:
        """End the time in which the network is erratic."""
        self.erratic = False
        self._lose_frames(self.conditions.loss)

    def wait(self) -> int:
        """Return how many nanoseconds a message waits in an erratic network before it is on its way."""
        return self.up_to(self._longest_wait) if self._draw() < self._waits else 0

    def delay(self) -> int:
        """Return how many nanoseconds a message is on its way."""
        drawn = self._draw()
        if drawn > self._hitches_from:
            return self._least_delay + self.conditions.delay_spread + self.conditions.delay_hitch
        return self._least_delay + trunc(self._delay_spread * drawn * drawn)

    def loses_frame(self) -> bool:
        """Return whether a frame is lost. Draws a value, so it must only be called if `loses_frames`."""
        return self._draw() < self._loss

    def sync(self) -> int:
        """Return how many nanoseconds a sync of a disk takes."""
        drawn = self._draw()
        if drawn > self._hitches_from:
            return self._least_sync + self.conditions.sync_spread + self.conditions.sync_hitch
        return self._least_sync + trunc(self._sync_spread * drawn * drawn)

    def up_to(self, nanoseconds: int) -> int:
        """Return a whole number from 0 up to, but not including, `nanoseconds`."""
        return trunc(self._draw() * nanoseconds)

    def drift(self) -> float:
        """Return the rate of a node's clock: 1.0, give or take 200 parts in a million."""
        return 1.0 + (self._draw() - 0.5) * 0.0004
