"""Shows the state of a running ensemble (`zab up`), node by node: as a table on a terminal, as one line elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.ensemble_state import leader_of, state_word
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.report.progress import ROLE_COLOURS

COLUMNS = ("node", "clients at", "role", "phase", "epoch", "last zxid", "lag", "hears")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The state of one node. `lag`: transactions that the leader has delivered and this node has not; None if unknown.

    `hears`: the peers from which something arrived since the last reading; None at the first reading, and if nobody counts.
    """

    node: int
    address: str
    role: str  # leading, following, looking; amnesiac; down, paused, silent
    phase: str = ""
    epoch: int | None = None
    last_zxid: tuple[int, int] | None = None
    lag: int | None = None
    hears: list[int] | None = None


class StatusReader:
    """Reads the state of an ensemble repeatedly. It remembers what arrived, to tell which peers a node hears."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._arrived: dict[tuple[int, int], dict[int, int]] = {}  # frames or bytes by peer, for each (node, life)

    def read(self) -> list[Row]:
        """Return the current state of every node."""
        answers = self._ensemble.status()
        leader = leader_of(answers, len(self._ensemble.nodes))
        leaders_answer = answers[leader] if leader is not None else None
        traffic = self._ensemble.traffic()
        arrived = {
            node: dict(answer.frames)
            or {source: it.passed for (source, target), it in traffic.items() if target == node}
            for node, answer in answers.items()
        }
        rows = [
            self._row(node, answers.get(node), arrived.get(node, {}), leaders_answer) for node in self._ensemble.nodes
        ]
        self._arrived = {(answer.node, answer.life): arrived[node] for node, answer in answers.items()}
        return rows

    def _row(self, node: int, answer: Status | None, arrived: Mapping[int, int], leader: Status | None) -> Row:
        address = self._ensemble.addresses.get(node, "")
        role = state_word(answer, alive=self._ensemble.alive(node), paused=self._ensemble.is_paused(node))
        if answer is None:
            return Row(node=node, address=address, role=role)
        before = self._arrived.get((node, answer.life))
        return Row(
            node=node,
            address=address,
            role=role,
            phase=answer.phase.lower(),
            epoch=answer.epoch,
            last_zxid=answer.last_zxid,
            lag=lag(answer, leader),
            hears=None if not before else sorted(peer for peer, n in arrived.items() if n > before.get(peer, 0)),
        )


def lag(answer: Status, leader: Status | None) -> int | None:
    """Return how many transactions of the leader's epoch a node has yet to deliver; None if it is in another epoch."""
    if leader is None or answer.delivered[0] != leader.delivered[0]:
        return None
    return max(0, leader.delivered[1] - answer.delivered[1])


@dataclass(frozen=True, slots=True)
class EnsembleStatus:
    """The state of all nodes, and the active faults. Implements `zab_chaos.harness.report.progress.Shown`."""

    rows: Sequence[Row]
    faults: Sequence[str] = ()

    def panel(self) -> Group:
        """Return the table, with the faults that are active below it."""
        drawn = Table(box=None, pad_edge=False)
        for name in COLUMNS:
            drawn.add_column(name, justify="right" if name in ("epoch", "last zxid", "lag") else "left", no_wrap=True)
        for row in self.rows:
            drawn.add_row(
                str(row.node), row.address, Text(row.role, ROLE_COLOURS.get(row.role, "red")), row.phase,
                _or_dash(row.epoch), _or_dash(_zxid(row.last_zxid)), _or_dash(row.lag), _hears(row),
            )  # fmt: skip
        broken = "; ".join(self.faults)
        return Group(drawn, Text(f"broken: {broken}", "yellow") if broken else Text("nothing is broken", "dim"))

    def line(self) -> str:
        """Return `1 following epoch 3 | 2 leading epoch 3 | 3 down`: only what changes when something happens."""
        return " | ".join(
            f"{row.node} {row.role}" + (f" epoch {row.epoch}" if row.epoch is not None else "") for row in self.rows
        )


def _hears(row: Row) -> str:
    return "" if row.hears is None else " ".join(map(str, row.hears)) or "nobody"


def _zxid(zxid: tuple[int, int] | None) -> str | None:
    return None if zxid is None else f"{zxid[0]}:{zxid[1]}"


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
