"""What an experiment is called: its scenario, and the defect that its nodes were built with."""


def experiment(scenario: str, defect: str | None) -> str:
    """A scenario with a defect is another experiment than the one without."""
    if defect is None:
        return scenario
    own = scenario.rsplit("/", 1)[-1] == defect
    return f"{scenario} (defective)" if own else f"{scenario} with {defect}"
