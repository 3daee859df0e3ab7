"""What runs that are over have left on the engine: found by their labels, and removed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zab_chaos.harness.backends.containers.engine import translated
from zab_chaos.harness.backends.containers.labels import FOLDER, RUN, is_ours, is_over
from zab_chaos.harness.backends.containers.resources import remove_all


@dataclass(frozen=True, slots=True)
class Left:
    """A run that has things on the engine. `ours`: made on this machine, so that it is known whether it is `over`."""

    token: str
    folder: str
    ours: bool
    over: bool


def runs(client: Any) -> list[Left]:
    """All runs with anything on the engine."""
    found: dict[str, Left] = {}
    with translated("looking for old runs"):
        for labels in _labels(client):
            ours = is_ours(labels)
            found[labels[RUN]] = Left(labels[RUN], labels.get(FOLDER, ""), ours, ours and is_over(labels))
    return list(found.values())


def remove(client: Any, token: str) -> list[str]:
    """Everything that this run has on the engine; the names of what was removed."""
    return remove_all(client, f"{RUN}={token}")


def remove_over(client: Any) -> dict[str, list[str]]:
    """Of every run of this machine that is over, by its folder."""
    return {left.folder: remove(client, left.token) for left in runs(client) if left.over}


def _labels(client: Any) -> Iterator[dict[str, str]]:
    for container in client.containers.list(all=True, filters={"label": RUN}, ignore_removed=True):
        yield container.labels
    for thing in (*client.networks.list(filters={"label": RUN}), *client.volumes.list(filters={"label": RUN})):
        yield thing.attrs["Labels"]
