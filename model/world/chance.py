"""What a simulated world leaves to chance: how long messages, syncs, starts and polls take, and what gets lost.

All of it is drawn from the world's seed: the climate once, and then, from it, every single delay.
"""

from dataclasses import dataclass
from random import Random

US = 1_000
MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """One world's circumstances. Times are nanoseconds; a drawn time lies between `least` and `least + spread`, mostly
    near the former; one in `rarely` takes `hitch` longer."""

    least_delay: int
    delay_spread: int
    delay_hitch: int
    least_sync: int
    sync_spread: int
    sync_hitch: int
    round: int  # how long a node computes in a round: meanwhile frames gather
    loss: float  # chance that a frame on a link is lost
    rarely: float = 0.0005

    @classmethod
    def draw(cls, random: Random) -> "Climate":
        """From a good local network and disk to a bad day; frames get lost on few days only."""
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
    """Draws, one after the other, in the order in which the world asks."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"chance {seed}")
        self.climate = Climate.draw(self.random)
        self._draw = self.random.random
        self._loss = self.climate.loss
        self.loses_frames = self._loss > 0  # on this day some frame may be lost
        self._hitches_from = 1 - self.climate.rarely
        self._least_delay, self._delay_spread = self.climate.least_delay, self.climate.delay_spread

    def delay(self) -> int:
        """How long a message is on its way."""
        drawn = self._draw()
        if drawn > self._hitches_from:
            return self._least_delay + self._delay_spread + self.climate.delay_hitch
        return self._least_delay + int(self._delay_spread * drawn * drawn)

    def loses(self) -> bool:
        """Whether a frame is lost. Draws: ask only on a day that `loses_frames`."""
        return self._draw() < self._loss

    def sync(self) -> int:
        """How long a disk takes to make something durable."""
        drawn = self._draw()
        least, spread = self.climate.least_sync, self.climate.sync_spread
        if drawn > self._hitches_from:
            return least + spread + self.climate.sync_hitch
        return least + int(spread * drawn * drawn)

    def up_to(self, nanoseconds: int) -> int:
        """Anything from 0 to below that."""
        return int(self._draw() * nanoseconds)

    def drift(self) -> float:
        """How fast a node's clock runs: within 200 parts in a million."""
        return 1.0 + (self._draw() - 0.5) * 0.0004
