"""The network, clients and clock of a node in lockstep. They collect the node's effects on the simulated world, in order."""

from typing import Any

from zab_chaos.node.channel import frame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.clock import Clock
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.lockstep.wire import (
    AnswersEffect,
    DropEffect,
    JumpEffect,
    LockstepEffect,
    RateEffect,
    ResetEffect,
    SendEffect,
)
from zab_chaos.node.tree.outcomes import Outcome


class LockstepNetwork:
    """Implements `zab_chaos.node.driver.Network`. `frames` is what the simulator counted."""

    def __init__(self, config: NodeConfig, life: int, effects: list[LockstepEffect]) -> None:
        self.frames = dict.fromkeys(config.peers, 0)
        self._effects = effects
        self._cluster = frame.cluster_hash(config.cluster)
        self._me = config.id
        self._life = life

    def send(self, peer: int, messages: list[Any]) -> None:
        if messages:
            header = FrameHeader(self._cluster, FrameKind.MESSAGES, self._me, peer, self._life, 0, 0, 0)
            self._effects.append(SendEffect(peer, frame.pack(header, messages)))

    def reset(self, peer: int, why: str) -> None:
        self._effects.append(ResetEffect(peer, why))


class LockstepClients:
    """Implements `zab_chaos.node.replica.Clients`."""

    def __init__(self, effects: list[LockstepEffect]) -> None:
        self._effects = effects

    def send(self, client: int, answers: list[tuple[int, Outcome]]) -> None:
        self._effects.append(AnswersEffect(client, answers))

    def drop(self, client: int, why: str) -> None:
        self._effects.append(DropEffect(client, why))


class LockstepClock(Clock):
    """A clock whose time the simulator keeps. Changes of its rate and jumps are effects, which the simulator carries out.

    `now`: the time that it shows, ns.
    """

    def __init__(self, effects: list[LockstepEffect]) -> None:
        super().__init__(lambda: 0)
        self.now = 0
        self._effects = effects

    def now_ns(self) -> int:
        return self.now

    @property
    def changed_ns(self) -> int:
        return self.now

    @property
    def rate(self) -> float:
        return super().rate

    @rate.setter
    def rate(self, rate: float) -> None:
        Clock.rate.__set__(self, rate)  # type: ignore[attr-defined]
        self._effects.append(RateEffect(rate))

    def jump(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        self._effects.append(JumpEffect(nanoseconds))
