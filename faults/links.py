"""Faults of links that are not cut: delay, low bandwidth, resets; and of single frames: late, corrupt, misrouted."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, HealOrder, Key, Kind, TargetState
from zab_chaos.faults.network import Toxic
from zab_chaos.faults.partition import DIRECTION, PAIRS, check_links, link_pairs, one_without_pairs, require_links
from zab_chaos.faults.process import node_names
from zab_chaos.faults.rules import integer


class Disturbance(Fault):
    """Base of faults that put a toxic on the data stream of links. Confirmed by the toxics that the proxy server reports,
    which no process shows."""

    kind: ClassVar[str]  # of the toxic
    attributes: ClassVar[tuple[tuple[str, str], ...]]  # of the toxic: each with the fault's key that gives its value
    fresh = False  # whether open connections are closed first

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.pairs = link_pairs(params, context.cluster.nodes, nodes)
        self.name = f"{type(self).__name__.lower()}-{context.random.getrandbits(48):012x}"

    def toxic(self) -> Toxic:
        """Return the toxic that each link gets."""
        return Toxic(self.kind, "upstream", tuple((name, self.params[key]) for name, key in self.attributes))

    def inject(self) -> None:
        require_links(self.context, self.pairs)
        self.context.links.disturb(self.pairs, [self.toxic()], self.name, fresh=self.fresh)

    def injected(self) -> Confirmation:
        on = [pair for pair in self.pairs if self.toxic() in self.context.links.toxics(pair)]
        return Confirmation(len(on) == len(self.pairs), {"links": len(on), "toxic": self._toxic_text()})

    def heal(self) -> None:
        self.context.links.heal(self.pairs, self.name)

    def recovered(self) -> Confirmation:
        left = [pair for pair in self.pairs if self.name in self.context.links.broken().get(pair, [])]
        return Confirmation(not left, {"still on": left})

    def describe(self) -> str:
        return f"{len(self.pairs)} links of {node_names(self.nodes)}: {self._toxic_text()}"

    def _toxic_text(self) -> str:
        toxic = self.toxic()
        return " ".join([toxic.kind, *(f"{name}={value}" for name, value in toxic.attributes)])


class Latency(Disturbance):
    """A delay of everything that is sent, in order."""

    kind, attributes = "latency", (("jitter", "jitter_ms"), ("latency", "ms"))


class Bandwidth(Disturbance):
    """A limited bandwidth."""

    kind, attributes = "bandwidth", (("rate", "kb_per_s"),)


class SlowClose(Disturbance):
    """A delay of the closing of connections."""

    kind, attributes = "slow_close", (("delay", "ms"),)


class Reset(Disturbance):
    """Connections that are reset (RST) again and again. toxiproxy passes no byte on before that; the simulator does."""

    kind, attributes = "reset_peer", (("timeout", "ms"),)
    fresh = True


class SomeFrames(Disturbance):
    """Base of faults of single frames: the first frame of each link, then one in `one_in`, at random.

    Confirmed by the number of frames that were hit.
    """

    attributes: ClassVar[tuple[tuple[str, str], ...]] = (("one_in", "one_in"),)

    def inject(self) -> None:
        self.before = self._counts()
        super().inject()

    def recovered(self) -> Confirmation:
        left = super().recovered()
        now = self._counts()
        counts = [(now[pair][0] - met, now[pair][1] - hit) for pair, (met, hit) in self.before.items()]
        shown = all(hit or not met for met, hit in counts) and (self.context.drawn or any(hit for _, hit in counts))
        frames = {"frames": sum(met for met, _ in counts), "hit": sum(hit for _, hit in counts)}
        return Confirmation(left.confirmed and shown, left.evidence | frames)

    def _counts(self) -> dict[tuple[int, int], tuple[int, int]]:
        return {pair: self.context.links.frames(pair, self.kind) for pair in self.pairs}


class LateFrames(SomeFrames):
    """Frames that are delivered a second time, later and out of order, in whatever session and life there is then."""

    kind, attributes = "late", (("delay", "ms"), ("one_in", "one_in"))


class CorruptFrames(SomeFrames):
    """Frames in which one bit is flipped."""

    kind = "corrupt"


class MisroutedFrames(SomeFrames):
    """Frames of the targets that are delivered to another node than they are addressed to."""

    kind = "misroute"

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        # All links from the targets: a node that gets a misrouted frame closes its own session with the sender.
        super().__init__(context, nodes, {**params, "direction": "out", "pairs": None})


def _kind(
    name: str, doc: str, make: type[Disturbance], impairs: bool, draw: Any, *keys: Key, also: Ability = Ability.LINKS,
    which: tuple[Key, ...] = (DIRECTION, PAIRS),
) -> Kind:  # fmt: skip
    return Kind(
        name=name,
        doc=doc,
        make=make,
        keys=(*keys, *which),
        target_state=TargetState.ANY,
        default_target=one_without_pairs,
        heal_order=HealOrder.NETWORK,
        check=check_links,
        impairs=impairs,
        draw=draw,
        needs=frozenset({Ability.LINKS, also}),
    )


_MS = integer(1, 60_000, "milliseconds")


def _one_in(verb: str) -> Key:
    doc = f"{verb} the first frame of each link, then one in this many, at random"
    return Key(name="one_in", rule=integer(1, 1_000_000, "frames"), default=1, doc=doc)


KINDS = (
    _kind(
        "latency",
        "delay what is sent, in order",
        Latency,
        False,
        lambda random: {"ms": random.randrange(5, 80), "jitter_ms": random.randrange(0, 20)},
        Key(name="ms", rule=_MS, doc="how much later"),
        Key(
            name="jitter_ms",
            rule=integer(0, 60_000, "milliseconds"),
            default=0,
            doc="a random deviation, plus or minus at most this much",
        ),
    ),
    _kind(
        "bandwidth",
        "limit the bandwidth of links",
        Bandwidth,
        True,
        lambda random: {"kb_per_s": random.randrange(20, 400)},
        Key(name="kb_per_s", rule=integer(1, 10_000_000, "kilobytes a second"), doc="the limit"),
    ),
    _kind(
        "slow-close",
        "delay the closing of connections, so that it is noticed later",
        SlowClose,
        True,
        lambda random: {"ms": random.randrange(100, 2000)},
        Key(name="ms", rule=_MS, doc="how much later"),
    ),
    _kind(
        "reset",
        "reset connections again and again. On real links nothing gets through meanwhile: what is sent is lost with the "
        "connection, as no handshake is finished. In the simulator frames get through until the reset",
        Reset,
        True,
        lambda random: {"ms": random.randrange(20, 500)},
        Key(name="ms", rule=_MS, default=100, doc="time from the first bytes of a connection to its reset"),
    ),
    _kind(
        "late-frames",
        "deliver some frames again, later, also to another session or life than the one that they were sent in (only on "
        "sim and lockstep)",
        LateFrames,
        False,
        lambda random: {"ms": random.choice((20, 200, 1000, 3000)), "one_in": random.choice((1, 3, 10))},
        Key(name="ms", rule=_MS, doc="the delay"),
        _one_in("repeat"),
        also=Ability.FRAMES,
    ),
    _kind(
        "corrupt-frames",
        "flip one bit of some frames, anywhere in the frame (only on sim and lockstep)",
        CorruptFrames,
        True,
        lambda random: {"one_in": random.choice((3, 10, 30, 100))},
        _one_in("change"),
        also=Ability.FRAMES,
    ),
    _kind(
        "misrouted-frames",
        "deliver some of the frames that the target sends to another node than they are for (only on sim and lockstep)",
        MisroutedFrames,
        True,
        lambda random: {"one_in": random.choice((1, 3, 10, 30))},
        _one_in("misroute"),
        also=Ability.FRAMES,
        which=(),
    ),
)
