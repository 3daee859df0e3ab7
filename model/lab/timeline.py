"""What happened in a run of the lab, as sentences for people: cuts, leaders, proposals, what was lost, what was committed."""

from collections.abc import Iterator

from zab_chaos.model.lab.arguments import LabArguments
from zab_chaos.model.lab.flapping import find_prefix_violation
from zab_chaos.model.lab.messages import Commit, Message, NewLeader, Propose, shown
from zab_chaos.model.lab.shrink import outages
from zab_chaos.model.lab.simulator import LabSimulator
from zab_chaos.node.core.zxid import ZERO, Zxid, show

Told = tuple[int, int, str]  # tick, order within it, words


def timeline(arguments: LabArguments) -> list[str]:
    """The run, a line an event, by tick; the last line says what is wrong in the end, if anything is."""
    teller = _Teller()
    simulator = LabSimulator(arguments, teller.hear)
    simulator.run()
    told = sorted([*_cuts(arguments), *teller.told])
    lines = [f"tick {tick:>4}: {words}" for tick, _, words in told]
    violation = find_prefix_violation(simulator.nodes)
    return [*lines, f"the end:   {violation}"] if violation is not None else lines


def _cuts(arguments: LabArguments) -> Iterator[Told]:
    for out in outages(arguments.schedule, arguments.rounds):
        source, to = out.link
        yield out.begin, 0, f"the link from node {shown(source)} to node {shown(to)} is cut"
        if out.end < arguments.rounds:
            yield out.end, 0, f"the link from node {shown(source)} to node {shown(to)} heals"


class _Teller:
    """Hears every message's arrival, and tells what is new in it."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._proposed: set[Zxid] = set()
        self._led: set[tuple[int, int]] = set()  # (leader, epoch)
        self._committed: dict[tuple[int, int], Zxid] = {}  # by (leader, who heard it)

    def hear(self, now: int, source: int, to: int, message: Message, arrives: bool) -> None:
        match message:
            case NewLeader(new_epoch=epoch) if (source, epoch) not in self._led:
                self._led.add((source, epoch))
                self._say(now, f"node {shown(source)} leads epoch {epoch}")
            case Propose(txn=txn):
                if txn.zxid not in self._proposed:
                    self._proposed.add(txn.zxid)
                    self._say(now, f"node {shown(source)} proposes {txn}")
                if not arrives:
                    self._say(now, f"its proposal {show(txn.zxid)} to node {shown(to)} is lost")
            case Commit(zxid=zxid) if arrives and zxid > self._committed.get((source, to), ZERO):
                self._committed[source, to] = zxid
                self._say(now, f"node {shown(to)} hears from node {shown(source)} that {show(zxid)} is committed")
            case _:
                pass

    def _say(self, now: int, words: str) -> None:
        self.told.append((now, 1 + len(self.told), words))
