"""Breaking a running ensemble by hand: a verb for every kind of fault, with the words that a scenario uses.

`cluster.power_cut("all")` is `do = "power-cut"`, `target = "all"`; `cluster.latency("one", ms=50)` has the fault's own keys as
keyword arguments, with _ for -. The verbs come from the registry, so that a new kind of fault is a verb at once.
"""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from zab_chaos.faults.grammar import read_fault
from zab_chaos.faults.kind import FaultError, Kind
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep, ScenarioError
from zab_chaos.faults.scheduler import FaultRecord, Scheduler
from zab_chaos.harness.client.hidden_frames import hidden_for
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.commands import ARMING

Target = str | int | Sequence[str | int]

# A crash point is armed a moment after the node has said so (`zab_chaos.node.commands.ARMING`); who comes back from a verb may
# rely on it. Twice as long, for a clock that is slow.
ARMED_SECONDS = 2 * ARMING / 1e9

# How one says it of a state: `with cluster.partitioned("leader"):`. The names of the other kinds are no verbs.
STATES = {
    "crashed": "crash",
    "stopped": "stop",
    "paused": "pause",
    "wiped": "wipe",
    "corrupted": "corrupt",
    "partitioned": "partition",
    "flapping": "flap",
    "stalled": "stall",
}

__tracebackhide__ = hidden_for(BadInput, FaultError, TimeoutError)


def kind_of(word: str) -> Kind | None:
    """The kind of fault that a verb, or the word for its state, means."""
    return KINDS.get(STATES.get(word, word).replace("_", "-"))


def verbs() -> list[str]:
    """Every word that `kind_of` knows, as an attribute is spelt."""
    return sorted([*STATES, *(name.replace("-", "_") for name in KINDS)])


class InjectedFault:
    """A fault that was injected. As a context manager it is healed at the end; else by `heal`, or when all is healed."""

    def __init__(
        self, run: FaultRecord, scheduler: Scheduler, wait: Callable[[Callable[[], bool], float, str], None]
    ) -> None:
        self._run = run
        self._scheduler = scheduler
        self._wait = wait

    @property
    def nodes(self) -> list[int]:
        """Who was hit."""
        return list(self._run.nodes)

    @property
    def lasts(self) -> bool:
        """Whether it goes on until it is healed; else it was over at once."""
        return self._run.kind.heals

    @property
    def healed(self) -> bool:
        """Whether it is over: healed, or undone by a restart or a resume."""
        return self._run.recovered is not None

    def heal(self) -> None:
        """Undo it, if it is still there. Raises FaultError if the nodes do not show that it is over."""
        self._scheduler.heal(self._run)
        if self._run.recovered is not None and not self._run.recovered.confirmed:
            raise FaultError(f"not certainly healed: {self._run.describe()}; {self._run.recovered.evidence}")

    def until_settled(self, timeout: float = 20.0) -> Self:
        """Wait until it has taken effect: a crash point that was armed is reached. Raises TimeoutError."""
        fault = self._run.fault
        assert fault is not None
        self._wait(fault.took_effect, timeout, f"no effect of: {self}")
        return self

    def __enter__(self) -> Self:
        if not self._run.kind.heals:
            raise FaultError(
                f"{self._run.step.do} is over at once, so there is nothing to heal: call it without `with`"
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.heal()
        else:
            self._scheduler.heal(self._run)  # its own trouble must not hide the one that is under way

    def __str__(self) -> str:
        return self._run.describe()


class FaultInjector:
    """Reads what is said with verbs, and has the scheduler do it."""

    def __init__(
        self, scheduler: Scheduler, wait: Callable[[Callable[[], bool], float, str], None], begun: float,
        mistakes: Callable[[FaultStep], list[str]],
    ) -> None:  # fmt: skip
        """`mistakes`: what of a fault can't be done here."""
        self._scheduler = scheduler
        self._wait = wait
        self._begun = begun
        self._mistakes = mistakes
        self._names: list[str] = []

    def inject_verb(
        self, kind: Kind, target: Target | None = None, *, lasts: float | None = None, name: str | None = None,
        **params: Any,
    ) -> InjectedFault:  # fmt: skip
        """Inject. Raises BadInput for a mistake in the words, FaultError if nobody was hit or nobody shows the effect.

        `lasts`: seconds until it heals by itself, while somebody waits; `name`: what later faults may call its nodes.
        """
        table: dict[str, Any] = {"target": _target(target)}
        table |= {"for": lasts, "as": name} | {key.replace("_", "-"): value for key, value in params.items()}
        return self.inject(kind, {key: value for key, value in _spelt(kind, table).items() if value is not None})

    def inject(self, kind: Kind, table: Mapping[str, Any]) -> InjectedFault:
        """Likewise; `table`: as a scenario's [[fault]] has it, whose keys may be any words, but for its time and kind."""
        said = {"at": self._scheduler.host.now() - self._begun, "do": kind.name, **table}
        try:
            step = read_fault(said, len(self._scheduler.cluster.nodes), self._names)
        except ScenarioError as error:
            words = [str(mistake).removeprefix(f"{mistake.where}: ") for mistake in error.mistakes]
            raise BadInput("\n".join(f"{kind.name}: {each}" for each in words)) from None
        wrong = self._mistakes(step)
        if wrong:
            raise BadInput("\n".join(wrong))
        run = self._scheduler.inject(step)
        if not run.injected.confirmed:
            raise FaultError(f"{kind.name} did not take effect: {run.describe()}; {run.injected.evidence}")
        if run.fault is not None and not run.fault.took_effect():
            self._scheduler.host.sleep(ARMED_SECONDS)
        self._names += [step.name] if step.name is not None else []
        return InjectedFault(run, self._scheduler, self._wait)


def _spelt(kind: Kind, table: dict[str, Any]) -> dict[str, Any]:
    """Keys as the grammar has them: some of a fault's own are written with _, which Python's are always."""
    own = {key.name.replace("_", "-"): key.name for key in kind.keys}
    return {own.get(name, name): value for name, value in table.items()}


def _target(target: Target | None) -> Any:
    if target is None or isinstance(target, str):
        return target
    if isinstance(target, int):
        return f"node-{target}"
    return [_target(each) for each in target]
