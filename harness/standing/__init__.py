"""An ensemble that somebody holds in their hands: a test, a shell, a notebook. See `zab_chaos.harness.standing.ensemble`."""

from zab_chaos.harness.session import Done, Failed, Pending, Session, Unknown
from zab_chaos.harness.standing.ensemble import Ensemble
from zab_chaos.harness.standing.verbs import Broken
from zab_chaos.harness.standing.worlds import WORLDS, World

__all__ = ["WORLDS", "Broken", "Done", "Ensemble", "Failed", "Pending", "Session", "Unknown", "World"]
