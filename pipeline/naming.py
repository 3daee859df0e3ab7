"""Formats names of experiments, numbers and counts, for all reports."""


def experiment(scenario: str, defect: str | None) -> str:
    """Return the name of an experiment. A scenario with a defect is a different experiment than the scenario without it."""
    if defect is None:
        return scenario
    own = scenario.rsplit("/", 1)[-1] == defect
    return f"{scenario} (defective)" if own else f"{scenario} with {defect}"


def format_number(value: float, sign: str = "") -> str:
    """Format a number with three significant digits, or a large one with all its digits. `sign` "+" also marks positive numbers."""
    return f"{value:{sign},.0f}" if abs(value) >= 100 else f"{value:{sign}.3g}"


def plural(number: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
