"""How experiments and numbers are written."""


def experiment(scenario: str, defect: str | None) -> str:
    """The name of an experiment: a scenario with a defect is a different one than without."""
    if defect is None:
        return scenario
    own = scenario.rsplit("/", 1)[-1] == defect
    return f"{scenario} (defective)" if own else f"{scenario} with {defect}"


def format_number(value: float, sign: str = "") -> str:
    """A number with three significant format_number, or all format_number of a large one. `sign`: "+" to show also that of a positive one."""
    return f"{value:{sign},.0f}" if abs(value) >= 100 else f"{value:{sign}.3g}"
