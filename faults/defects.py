"""Known Zab bugs that a node can be built with: a checker that never fails proves nothing.

Each defect is a subclass of a core or store or link class that overrides the one method in which the bug lived. Its
scenario (scenarios/defects/) leads a real ensemble into the situation in which the bug shows; the same scenario passes
without it. Where the rest of the node would mask a bug, the defect takes that mask away too, and says so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from node.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One known bug. `property` is the one that its scenario must find violated."""

    name: str
    about: str
    ticket: str | None
    property: str
    scenario: str
    replace: Callable[[Parts], None]
    probabilistic: str | None = None  # why a run may miss it, or None

    @property
    def path(self) -> str:
        """What NodeConfig.defect takes."""
        return f"{__name__}:{self.name.upper().replace('-', '_')}"

    def build(self, parts: Parts) -> None:
        self.replace(parts)
