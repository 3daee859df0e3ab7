"""The name of an experiment: its scenario, and the defect that its nodes were built with."""


def experiment(scenario: str, defect: str | None) -> str:
    """The name: a scenario with a defect is a different experiment than without."""
    if defect is None:
        return scenario
    own = scenario.rsplit("/", 1)[-1] == defect
    return f"{scenario} (defective)" if own else f"{scenario} with {defect}"
