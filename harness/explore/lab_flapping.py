"""Run the full protocol, in the simulator, under the lab's flapping links: the same cuts and proposals at the same times."""

from dataclasses import dataclass

from zab_chaos.faults.scenario import FaultStep, Operation, Scenario, Workload, parse
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.model.lab import LabArguments, PrefixViolation, lab_flapping
from zab_chaos.model.lab.flapping import judge_flapping
from zab_chaos.model.lab.shrink import cut_intervals, proposal_ticks

TICK_SECONDS = 0.01  # the lab's heartbeat is then 0.5 s, and a message takes 10 to 30 ms
DURATION_MIN = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class FlappingResult:
    """The results of one seed with both protocols.

    `lab_violation`: the violation of the lab's protocol, or None. `verdict` and `reasons`: those of the full protocol.
    """

    seed: int
    lab_violation: PrefixViolation | None
    verdict: str
    reasons: tuple[str, ...]


def compare(seed: int) -> FlappingResult:
    """Run both protocols under the links that are drawn from `seed`."""
    arguments = lab_flapping(seed)
    return FlappingResult(seed, judge_flapping(arguments), *judge_full(arguments))


def judge_full(arguments: LabArguments) -> tuple[str, tuple[str, ...]]:
    """Run the full protocol under the lab's schedule. Return its verdict and the reasons."""
    scenario = full_protocol(arguments)
    verdict = simulate(scenario, scenario.seed, None).verdict
    return str(verdict.verdict), tuple(verdict.reasons)


def full_protocol(arguments: LabArguments) -> Scenario:
    """Convert the lab's schedule to a scenario.

    Node ids start at 1. Each interval in which links are cut becomes a partition, each proposal a write.
    """
    faults = tuple(
        FaultStep(
            at=seconds(begin), do="partition", target=None, lasts=seconds(end - begin),
            params={"shape": "pairs", "how": "timeout", "direction": "out", "pairs": _pairs(links)},
        )
        for begin, end, links in cut_intervals(arguments)
    )  # fmt: skip
    ticks = proposal_ticks(arguments.rounds, arguments.proposals)
    scenario = Scenario(
        name=f"lab-flapping-{arguments.seed}",
        about=f"The links of the lab's run with seed {arguments.seed}, which come and go, under the full protocol.",
        nodes=arguments.nodes,
        seed=arguments.seed,
        duration=max(DURATION_MIN, seconds(arguments.rounds)),
        workload=Workload(clients=1, keys=1),
        operations=tuple(Operation(at=seconds(tick)) for tick in ticks),
        faults=faults,
    )
    return parse(scenario.to_toml())


def seconds(ticks: int) -> float:
    """Convert ticks of the lab to seconds of the full protocol."""
    return round(ticks * TICK_SECONDS, 3)


def _pairs(links: frozenset[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((source + 1, to + 1) for source, to in links))
