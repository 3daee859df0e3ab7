"""The classes that a node is built from. A defect (a known bug) replaces some of them by subclasses; nothing else differs."""

import importlib
from dataclasses import dataclass
from typing import Protocol

from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.clients.application import Layers
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.store.store import Store


@dataclass(slots=True)
class Components(Layers):
    """The classes that a server builds its node from. Those of the application above Zab are in `Layers`."""

    peer: type[Peer] = Peer
    store: type[Store] = Store
    channels: type[ChannelSet] = ChannelSet


class Defective(Protocol):
    """A known bug: its name, and the components that it replaces."""

    name: str

    def build(self, parts: Components) -> None: ...


def components_with(defect: str | None) -> tuple[Components, str | None]:
    """Return the components with this defect built in, and the defect's name.

    `defect` is `module:name` from this node's own configuration, see NodeConfig.
    """
    parts = Components()
    if defect is None:
        return parts, None
    module, _, name = defect.partition(":")
    found: Defective = importlib.import_module(module).DEFECTS[name]
    found.build(parts)
    return parts, found.name
