"""A defect overrides what its base class has. After a rename in the node, a method of it could override nothing."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest

from zab_chaos.faults import defects
from zab_chaos.node.core.quorum import Majority

OWN = {  # what a defect adds for itself
    "CountOwnAckEarly.write_late",
    "DirtySnapshot.tail",
    "PrematureZxid.raised",
    "StaleOffset.lost",
}


def classes() -> Iterator[type]:
    for module in pkgutil.iter_modules(defects.__path__, f"{defects.__name__}."):
        for found in vars(import_module(module.name)).values():
            if inspect.isclass(found) and found.__module__ == module.name:
                yield found


def added(defect: type) -> set[str]:
    """The attributes of a class that none of its base classes has."""
    inherited = {name for base in defect.__mro__[1:] for name in (*vars(base), *inspect.get_annotations(base))}
    return {f"{defect.__name__}.{name}" for name in vars(defect) if name not in inherited and not name.startswith("__")}


@pytest.mark.parametrize("defect", list(classes()), ids=lambda defect: defect.__name__)
def test_a_defect_overrides_what_its_base_class_has(defect: type) -> None:
    assert added(defect) <= OWN


def test_a_method_that_overrides_nothing_is_noticed() -> None:
    class HalfIsEnough(Majority):
        def reach(self, zxids: list[int]) -> int:
            return max(zxids)

    assert added(HalfIsEnough) == {"HalfIsEnough.reach"}
