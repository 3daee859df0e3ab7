"""Finds and removes resources on the engine that runs have left behind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zab_chaos.harness.backends.containers.engine import translate_errors
from zab_chaos.harness.backends.containers.labels import FOLDER, RUN, is_from_this_host, is_harness_gone
from zab_chaos.harness.backends.containers.resources import remove_all


@dataclass(frozen=True, slots=True)
class RunOnEngine:
    """A run that has resources on the engine.

    `ours`: its harness was started on this machine since the last boot, so that it is known whether the run is `over`.
    """

    token: str
    folder: str
    ours: bool
    over: bool


def runs(client: Any) -> list[RunOnEngine]:
    """Return all runs that have resources on the engine."""
    found: dict[str, RunOnEngine] = {}
    with translate_errors("looking for old runs"):
        for labels in _labels(client):
            ours = is_from_this_host(labels)
            over = ours and is_harness_gone(labels)
            found[labels[RUN]] = RunOnEngine(labels[RUN], labels.get(FOLDER, ""), ours, over)
    return list(found.values())


def remove(client: Any, token: str) -> list[str]:
    """Remove all resources of a run, and return their names."""
    return remove_all(client, f"{RUN}={token}")


def remove_over(client: Any) -> dict[str, list[str]]:
    """Remove the resources of every run of this machine that is over, and return their names by the run's folder."""
    return {run.folder: remove(client, run.token) for run in runs(client) if run.over}


def _labels(client: Any) -> Iterator[dict[str, str]]:
    for container in client.containers.list(all=True, filters={"label": RUN}, ignore_removed=True):
        yield container.labels
    for resource in (*client.networks.list(filters={"label": RUN}), *client.volumes.list(filters={"label": RUN})):
        yield resource.attrs["Labels"]
