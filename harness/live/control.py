"""The control port of a running ensemble (`zab up`), through which `zab inject` injects and heals faults.

It listens on 127.0.0.1 with the key pair of the ensemble's control ports, so that only their owner is served. Requests are
handled one after another, in the thread that runs the ensemble.
"""

import time
from collections.abc import Mapping
from typing import Any

import zmq

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.kind import FaultError
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.process import node_names
from zab_chaos.faults.registry import KINDS
from zab_chaos.harness.errors import BadInput, check_names, did_you_mean
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.live.fault_methods import InjectedFault
from zab_chaos.node.net.control import ControlError, ControlPort
from zab_chaos.node.net.keys import Keys

REQUESTS = ("inject", "heal", "faults", "waited")


class ControlServer:
    """Serves one ensemble at `address` (host:port). Raises zab_chaos.node.net.address.AddressInUse.

    `messages`: what was done, in words, since the caller last emptied the list.
    """

    def __init__(self, ensemble: Ensemble, address: str, keys: Keys) -> None:
        self._ensemble = ensemble
        self._context: zmq.Context[Any] = zmq.Context()
        self._port = ControlPort(self._context, address, keys, self.handle)
        self._faults: list[InjectedFault] = []  # in the order of their numbers, which begin at 1
        self.messages: list[str] = []

    def serve(self, seconds: float) -> None:
        """Wait at most so long for a request, handle it, and return."""
        if self._port.socket.poll(max(1, int(seconds * 1000)), zmq.POLLIN):
            self._port.serve()
        self._port.tick(time.monotonic_ns())

    def active_faults(self) -> list[str]:
        """Return the faults that were injected here and are not healed, in words."""
        return [str(fault) for fault in self._faults if fault.lasts and not fault.healed]

    def close(self) -> None:
        self._port.close()
        self._context.term()

    def handle(self, request: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Handle one request and return the answer, which has the field `wrong` if the request is not valid.

        Raises ControlError if it is valid but could not be carried out.
        """
        try:
            match request:
                case "inject":
                    return self._inject(arguments["fault"])
                case "heal":
                    return {"said": self._heal(arguments.get("number"))}
                case "waited":
                    return self._waited(arguments["number"])
                case "faults":
                    return {"faults": self._list()}
        except BadInput as error:
            return {"wrong": str(error)}
        except (FaultError, ClusterError, NetworkError) as error:
            self.messages.append(str(error))
            raise ControlError(str(error)) from None
        return {"wrong": f"there is no request {request!r}. {did_you_mean(request, REQUESTS)}"}

    def _inject(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Inject a fault now, and return it in words, as `said`. `table`: a scenario's [[fault]] table without a time.

        For a step that waits for a state, return its number, as `waits`: the state is asked for with `waited`.
        """
        keys = dict(table)
        name = str(keys.pop("do", ""))
        check_names("kind of fault", [name], KINDS)
        self._faults.append(self._ensemble.inject(KINDS[name], keys))
        said = self._noted(str(self._faults[-1]))
        return {"waits": len(self._faults)} if self._faults[-1].waits else {"said": said}

    def _waited(self, number: int) -> dict[str, Any]:
        """Return what `_inject` returns, for a step that waits: `said` when its state has come. Raises FaultError if it came
        too late."""
        fault = self._fault(number)
        if not fault.healed:
            return {"waits": number}
        fault.require_confirmed()
        return {"said": self._noted(str(fault))}

    def _heal(self, number: int | None) -> str:
        """Heal the fault with this number, or heal everything and start the nodes that are down. Return that in words."""
        if number is None:
            self._ensemble.heal()
            ended = [node for node in self._ensemble.nodes if not self._ensemble.alive(node)]
            if ended:
                raise FaultError(f"healed all faults, but {node_names(ended)} ended again at the start; see the logs")
            return self._noted("healed all faults, and started the nodes that were down")
        fault = self._fault(number)
        fault.heal()
        return self._noted(f"healed: {fault}")

    def _fault(self, number: int) -> InjectedFault:
        if number not in range(1, len(self._faults) + 1):
            raise BadInput(f"there is no fault {number}; there were {len(self._faults)}: `zab inject` lists them")
        return self._faults[number - 1]

    def _list(self) -> list[dict[str, Any]]:
        return [
            {
                "number": number,
                "fault": str(fault),
                "nodes": fault.nodes,
                "over": fault.healed or not (fault.lasts or fault.waits),
            }
            for number, fault in enumerate(self._faults, 1)
        ]

    def _noted(self, words: str) -> str:
        """Add to `messages`, and return the words."""
        self.messages.append(words)
        return words
