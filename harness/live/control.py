"""Where a running ensemble takes orders from other processes: `zab inject` speaks, the scheduler does.

It listens on 127.0.0.1 and has the key pair of the ensemble's control ports, so that only its owner is served. Orders
are done one after another, in the thread that holds the ensemble, between two looks at the nodes.
"""

import time
from collections.abc import Mapping
from typing import Any

import zmq

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.kind import FaultError
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.registry import KINDS
from zab_chaos.harness.errors import BadInput, check_names, did_you_mean
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.live.fault_methods import InjectedFault
from zab_chaos.node.net.control import ControlError, ControlPort
from zab_chaos.node.net.keys import Keys

ORDERS = ("inject", "heal", "faults")


class ControlServer:
    """Serves one ensemble at `address` (host:port). Raises zab_chaos.node.net.address.AddressInUse."""

    def __init__(self, ensemble: Ensemble, address: str, keys: Keys) -> None:
        self._ensemble = ensemble
        self._context: zmq.Context[Any] = zmq.Context()
        self._port = ControlPort(self._context, address, keys, self.handle)
        self._faults: list[InjectedFault] = []  # by the number, from 1, that `heal` takes
        self.messages: list[str] = []  # what was done since somebody looked

    def serve(self, seconds: float) -> None:
        """Do what is asked for within so much time, and return as soon as something was."""
        if self._port.socket.poll(max(1, int(seconds * 1000)), zmq.POLLIN):
            self._port.serve()
        self._port.tick(time.monotonic_ns())

    def active_faults(self) -> list[str]:
        """What was broken here and is not whole again."""
        return [str(fault) for fault in self._faults if fault.lasts and not fault.healed]

    def close(self) -> None:
        self._port.close()
        self._context.term()

    def handle(self, order: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """One order. `wrong` answers what nobody can do as it was said; what was tried in vain raises ControlError."""
        try:
            match order:
                case "inject":
                    return {"said": self._inject(arguments["fault"])}
                case "heal":
                    return {"said": self._heal(arguments.get("number"))}
                case "faults":
                    return {"faults": self._list()}
        except BadInput as error:
            return {"wrong": str(error)}
        except (FaultError, ClusterError, NetworkError) as error:
            self.messages.append(str(error))
            raise ControlError(str(error)) from None
        return {"wrong": f"no order is called {order!r}. {did_you_mean(order, ORDERS)}"}

    def _inject(self, words: Mapping[str, Any]) -> str:
        """`words`: a fault as a scenario's [[fault]] table has it, but for the time, which is now."""
        said = dict(words)
        name = str(said.pop("do", ""))
        check_names("kind of fault", [name], KINDS)
        for key in ("at", "awaits"):
            if key in said:
                raise BadInput(f"{name}: {key} belongs to a schedule; by hand it happens now")
        self._faults.append(self._ensemble.inject(KINDS[name], said))
        return self._told(str(self._faults[-1]))

    def _heal(self, number: int | None) -> str:
        """Everything, or the fault of that number. To heal everything also starts who is down."""
        if number is None:
            self._ensemble.heal()
            return self._told("healed everything, and started who was down")
        if number not in range(1, len(self._faults) + 1):
            raise BadInput(f"there is no fault {number}; there were {len(self._faults)}: `zab inject` lists them")
        self._faults[number - 1].heal()
        return self._told(f"healed: {self._faults[number - 1]}")

    def _list(self) -> list[dict[str, Any]]:
        return [
            {"number": number, "fault": str(fault), "nodes": fault.nodes, "over": fault.healed or not fault.lasts}
            for number, fault in enumerate(self._faults, 1)
        ]

    def _told(self, words: str) -> str:
        self.messages.append(words)
        return words
