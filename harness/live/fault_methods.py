"""The fault methods of a running ensemble: one method for every kind of fault, with the words that a scenario uses.

`cluster.power_cut("all")` is `do = "power-cut"`, `target = "all"`; `cluster.latency("one", ms=50)` has the fault's own keys as
keyword arguments, with _ for -. The methods come from the registry, so a new kind of fault has its method at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from zab_chaos.faults.grammar import read_fault
from zab_chaos.faults.kind import Confirmation, FaultError, Kind
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.rules import suggest
from zab_chaos.faults.scenario import FaultStep, Mistake, ScenarioError
from zab_chaos.faults.scheduler import FaultRecord, Scheduler
from zab_chaos.harness.client.hidden_frames import hidden_for
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.commands import ARMING_DELAY

Target = str | int | Sequence[str | int]

# A crash point is armed a moment after the node has answered (`zab_chaos.node.commands.ARMING_DELAY`). A fault method returns
# when the point is armed. Twice as long, because the node's clock may be slow.
ARMED_SECONDS = 2 * ARMING_DELAY / 1e9

# Words for the state that a fault brings about, as in `with cluster.partitioned("leader"):`, with the kind that they mean.
STATE_WORDS = {
    "crashed": "crash",
    "stopped": "stop",
    "paused": "pause",
    "wiped": "wipe",
    "corrupted": "corrupt",
    "partitioned": "partition",
    "flapping": "flap",
    "stalled": "stall",
}

SCHEDULED = {
    "do": "it is what is called",
    "at": "it happens now",
    "awaits": "it happens now",
    "until": "it lasts for a number of seconds, or until it is healed",
}  # keys of a schedule, and what holds for a fault that is called instead

__tracebackhide__ = hidden_for(BadInput, FaultError, TimeoutError)


def kind_of(word: str) -> Kind | None:
    """Return the kind of fault that a method's name means, or None."""
    return KINDS.get(STATE_WORDS.get(word, word).replace("_", "-"))


def method_names() -> list[str]:
    """Return the names of all fault methods."""
    return sorted([*STATE_WORDS, *(name.replace("-", "_") for name in KINDS)])


class InjectedFault:
    """An injected fault. As a context manager it is healed at the end of the block; else by `heal`, or with all others."""

    def __init__(
        self, record: FaultRecord, scheduler: Scheduler, wait: Callable[[Callable[[], bool], float, str], None]
    ) -> None:
        self._record = record
        self._scheduler = scheduler
        self._wait = wait

    @property
    def nodes(self) -> list[int]:
        """The nodes that the fault hit."""
        return list(self._record.nodes)

    @property
    def lasts(self) -> bool:
        """Whether the fault goes on until it is healed; else it was over at once."""
        return self._record.kind.heals

    @property
    def waits(self) -> bool:
        """Whether it breaks nothing, and is over when its nodes are in a state."""
        return self._record.kind.blocks_schedule

    @property
    def healed(self) -> bool:
        """Whether the fault is over: it was healed, or undone by a restart or a resume; or the state that it waits for came."""
        return self._record.recovered is not None

    def heal(self) -> None:
        """Undo the fault, if it is not over yet. Raises FaultError if the nodes do not confirm that it is healed."""
        self._scheduler.heal(self._record)
        self.require_confirmed()

    def require_confirmed(self) -> None:
        """Raise FaultError if the fault is over, and the nodes have not confirmed that."""
        if self._record.recovered is not None and not self._record.recovered.confirmed:
            what = "the state did not come in time" if self.waits else "the healing is not confirmed"
            raise FaultError(f"{what}: {self._record.describe()}; {_observed(self._record.recovered)}")

    def until_settled(self, timeout: float = 20.0) -> Self:
        """Wait until the fault has taken effect, such as a node that reaches its crash point. Raises TimeoutError."""
        fault = self._record.fault
        assert fault is not None
        self._wait(fault.took_effect, timeout, f"no effect of: {self}")
        return self

    def until_over(self) -> None:
        """Wait until the state has come that the fault waits for. Raises FaultError if it does not come in time."""
        self._wait(lambda: self.healed, math.inf, f"never over: {self}")
        self.require_confirmed()

    def __enter__(self) -> Self:
        if not self._record.kind.heals:
            raise FaultError(
                f"{self._record.step.do} is over at once, so there is nothing to heal: call it without `with`"
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.heal()
        else:
            self._scheduler.heal(self._record)  # an unconfirmed healing must not hide the exception of the block

    def __str__(self) -> str:
        return self._record.describe()


class FaultInjector:
    """Injects the faults that are called as methods or given as tables, with a run's scheduler."""

    def __init__(
        self, scheduler: Scheduler, wait: Callable[[Callable[[], bool], float, str], None], begun: float,
        mistakes: Callable[[FaultStep], list[str]],
    ) -> None:  # fmt: skip
        """`wait(condition, timeout, words)`: waits, or raises TimeoutError with the words. `begun`: time zero of the schedule.

        `mistakes`: returns what of a fault can't be done on this backend.
        """
        self._scheduler = scheduler
        self._wait = wait
        self._begun = begun
        self._mistakes = mistakes
        self._names: list[str] = []

    def inject_verb(
        self, kind: Kind, target: Target | None = None, *, lasts: float | None = None, name: str | None = None,
        **params: Any,
    ) -> InjectedFault:  # fmt: skip
        """Inject a fault. Raises BadInput for invalid arguments, FaultError if no node was hit or the effect is not confirmed.

        `lasts`: after so many seconds the fault heals by itself, during the ensemble's next call that waits. `name`: a name
        for the nodes that were hit, for the targets of later faults. A step that waits for a state does so here; FaultError
        if it does not come in time.
        """
        own = {key.name.replace("-", "_"): key.name for key in kind.keys}
        known = own | {key: key for key in SCHEDULED}
        table = {"target": _target(target), "for": lasts, "as": name}
        table |= {known[word]: value for word, value in params.items() if word in known}
        given = {key: value for key, value in table.items() if value is not None}
        unknown = [_unknown(word, kind, ("target", "lasts", "name", *own)) for word in params if word not in known]
        fault = self._inject(kind, self._read(kind, given, unknown))
        if fault.waits:
            fault.until_over()
        return fault

    def inject(self, kind: Kind, table: Mapping[str, Any]) -> InjectedFault:
        """Inject a fault now. `table`: a scenario's [[fault]] table without time and kind. Raises as `inject_verb`."""
        return self._inject(kind, self._read(kind, table))

    def _read(self, kind: Kind, table: Mapping[str, Any], wrong: Sequence[str] = ()) -> FaultStep:
        """Return the step that a table describes. Raises BadInput with all mistakes, those in `wrong` first."""
        scheduled = [key for key in SCHEDULED if key in table]
        wrong = [*wrong, *(f"{kind.name}: {key} belongs to a schedule; here {SCHEDULED[key]}" for key in scheduled)]
        own = {key: value for key, value in table.items() if key not in scheduled}
        fault = {"at": self._scheduler.host.now() - self._begun, "do": kind.name, **own}
        try:
            step = read_fault(fault, len(self._scheduler.cluster.nodes), self._names)
        except ScenarioError as error:
            words = [str(mistake).removeprefix(f"{mistake.where}: ") for mistake in error.mistakes]
            raise BadInput("\n".join([*wrong, *(f"{kind.name}: {each}" for each in words)])) from None
        wrong += self._mistakes(step)
        if wrong:
            raise BadInput("\n".join(wrong))
        return step

    def _inject(self, kind: Kind, step: FaultStep) -> InjectedFault:
        record = self._scheduler.inject(step)
        if not record.injected.confirmed:
            raise FaultError(f"{kind.name} did not take effect: {record.describe()}; {_observed(record.injected)}")
        if record.fault is not None and not record.fault.took_effect():
            self._scheduler.host.sleep(ARMED_SECONDS)
        self._names += [step.name] if step.name is not None else []
        return InjectedFault(record, self._scheduler, self._wait)


def _observed(confirmation: Confirmation) -> str:
    """Return why a fault is not confirmed: the error or, if there was none, what the processes showed."""
    return str(confirmation.evidence.get("error", confirmation.evidence))


def _unknown(word: str, kind: Kind, allowed: Sequence[str]) -> str:
    """Return the mistake of an argument that a kind of fault does not have, in words."""
    wrong = f"{word!r} is no key of {kind.name}"
    return str(Mistake(0, kind.name, wrong, ", ".join(allowed), suggest(word, allowed)))


def _target(target: Target | None) -> Any:
    """Return the target in the grammar's form: a number is a node's id."""
    if target is None or isinstance(target, str):
        return target
    if isinstance(target, int):
        return f"node-{target}"
    return [_target(each) for each in target]
