"""Describes a run of the lab in sentences: cuts, leaders, proposals, lost messages, commits."""

from collections.abc import Iterator

from zab_chaos.model.lab.arguments import LabArguments
from zab_chaos.model.lab.flapping import find_prefix_violation
from zab_chaos.model.lab.messages import Commit, Message, NewLeader, Propose, Txn, display_number
from zab_chaos.model.lab.shrink import outages
from zab_chaos.model.lab.simulator import LabSimulator
from zab_chaos.node.core.zxid import ZERO, Zxid, show

TimelineEntry = tuple[int, int, str]  # tick, order within the tick, sentence


def timeline(arguments: LabArguments) -> list[str]:
    """Execute a run. Return a line for each event, by tick, and a last one for its violation, if there is one."""
    recorder = _TimelineRecorder()
    simulator = LabSimulator(arguments, recorder.observe)
    simulator.run()
    entries = sorted([*_cuts(arguments), *recorder.entries])
    lines = [f"tick {tick:>4}: {words}" for tick, _, words in entries]
    violation = find_prefix_violation(simulator.nodes)
    return [*lines, f"the end:   {violation}"] if violation is not None else lines


def _cuts(arguments: LabArguments) -> Iterator[TimelineEntry]:
    for out in outages(arguments.schedule, arguments.rounds):
        source, to = out.link
        yield out.begin, 0, f"the link from node {display_number(source)} to node {display_number(to)} is cut"
        if out.end < arguments.rounds:
            yield out.end, 0, f"the link from node {display_number(source)} to node {display_number(to)} heals"


class _TimelineRecorder:
    """Observes the arrivals of messages, and adds a sentence for each new fact that they show."""

    def __init__(self) -> None:
        self.entries: list[TimelineEntry] = []
        self._proposed: set[Txn] = set()  # not by zxid: after a late AckEpoch a leader uses its zxids again
        self._epochs_led: set[tuple[int, int]] = set()  # (leader, epoch)
        self._committed: dict[tuple[int, int], Zxid] = {}  # by (leader, receiver)

    def observe(self, now: int, source: int, to: int, message: Message, arrives: bool) -> None:
        match message:
            case NewLeader(new_epoch=epoch) if (source, epoch) not in self._epochs_led:
                self._epochs_led.add((source, epoch))
                self._add(now, f"node {display_number(source)} leads epoch {epoch}")
            case Propose(txn=txn):
                if txn not in self._proposed:
                    self._proposed.add(txn)
                    self._add(now, f"node {display_number(source)} proposes {txn}")
                if not arrives:
                    self._add(now, f"its proposal {show(txn.zxid)} to node {display_number(to)} is lost")
            case Commit(zxid=zxid) if arrives and zxid > self._committed.get((source, to), ZERO):
                self._committed[source, to] = zxid
                self._add(
                    now,
                    f"node {display_number(to)} hears from node {display_number(source)} that {show(zxid)} is committed",
                )
            case _:
                pass

    def _add(self, now: int, words: str) -> None:
        self.entries.append((now, 1 + len(self.entries), words))
