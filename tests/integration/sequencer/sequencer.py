"""The backend of the store beside this file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import sequencer_store

from zab_chaos.harness.backends.system import (
    BlockingClient,
    Failed,
    Outcome,
    Place,
    Request,
    Set,
    SystemBackend,
    Unknown,
    done,
)


class Sequencer(SystemBackend):
    name = "sequencer"
    survives_wipe = False
    traces = "zab"
    defects: ClassVar = {name: name for name in ("skips", "differs", "changes", "early", "misrecords")}

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        peers = [f"{peer}={address}" for peer, address in place.peers.items()]
        words = [place.node, place.listen, place.client, place.trace, defect or "none", *peers]
        return [sys.executable, str(Path(sequencer_store.__file__)), *map(str, words)]

    def client(self, place: Place, timeout: float) -> "SequencerClient":
        return SequencerClient(place.client)


class SequencerClient(BlockingClient):
    def __init__(self, address: str) -> None:
        self._address = address
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        question = {"op": "get", "key": request.path}
        if isinstance(request, Set):
            question = {"op": "set", "key": request.path, "value": request.data.decode("latin-1")}
        answer = sequencer_store.ask(self._address, question)
        if "error" in answer:
            return Unknown(answer["error"])
        if isinstance(request, Set):
            return done()
        value = answer["value"]
        return Failed("no node", "there is no such key") if value is None else done(value.encode("latin-1"))

    def hang_up(self) -> None:
        """Nothing is held open between two requests."""
