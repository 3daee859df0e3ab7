"""An ensemble that is used by hand: by a test, a shell or a notebook. See `zab_chaos.harness.live.ensemble`."""

from zab_chaos.harness.client.session import Done, Failed, Pending, Session, Unknown
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.live.fault_methods import InjectedFault

__all__ = ["Done", "Ensemble", "Failed", "InjectedFault", "Pending", "Session", "Unknown"]
