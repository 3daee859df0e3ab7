import pytest

from harness.exits import Exit, worst


@pytest.mark.parametrize(
    ("codes", "stands"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 5], 5),
        ([5, 2, 0], 2),
        ([2, 1, 5], 1),
        ([1, 3, 2], 3),
        ([0, 130, 3], 130),
    ],
)
def test_the_worst_of_several_runs_stands_for_all(codes: list[int], stands: int) -> None:
    assert worst(codes) == stands
    assert worst(reversed(codes)) == Exit(stands)
