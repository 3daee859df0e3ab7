"""An ensemble that somebody holds in their hands: a test, a shell, a notebook. See `harness.standing.ensemble`."""

from harness.session import Done, Failed, Pending, Session, Unknown
from harness.standing.ensemble import Ensemble
from harness.standing.verbs import Broken
from harness.standing.worlds import WORLDS, World

__all__ = ["WORLDS", "Broken", "Done", "Ensemble", "Failed", "Pending", "Session", "Unknown", "World"]
