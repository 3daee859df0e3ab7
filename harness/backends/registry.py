"""Backends by the name that `--on` takes: ours, and those that other packages bring."""

from importlib.metadata import EntryPoint, entry_points

from zab_chaos.harness.backends.backend import Backend
from zab_chaos.harness.errors import BadInput, did_you_mean

GROUP = "zab_chaos.backends"  # a package that brings one has an entry point of this group: NAME = "module:Class"
_ROOM = "zab_chaos.harness.backends"
OURS = {
    "processes": f"{_ROOM}.processes.backend:ProcessBackend",
    "sim": f"{_ROOM}.simulator.backend:SimBackend",
    "lockstep": f"{_ROOM}.lockstep.backend:LockstepBackend",
    "containers": f"{_ROOM}.containers.backend:ContainerBackend",
    "zookeeper": f"{_ROOM}.zookeeper.backend:ZooKeeperBackend",
}


def names() -> list[str]:
    """All that `--on` takes, ours first."""
    return [*OURS, *sorted({point.name for point in entry_points(group=GROUP)} - OURS.keys())]


def find(name: str) -> Backend:
    """The backend of this name. Raises BadInput if there is none, or it can't be loaded."""
    if name in OURS:
        return _loaded(EntryPoint(name, OURS[name], GROUP))
    for point in entry_points(group=GROUP, name=name):
        return _loaded(point)
    raise BadInput(f"no backend is called {name!r}. {did_you_mean(name, names())}")


def ours() -> list[Backend]:
    return [find(name) for name in OURS]


def _loaded(point: EntryPoint) -> Backend:
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise BadInput(f"the backend {point.name!r}, {point.value}, can't be loaded: {error}") from error
    backend = found() if isinstance(found, type) else found
    if not isinstance(backend, Backend):
        raise BadInput(f"the backend {point.name!r}, {point.value}, is no {Backend.__module__}.Backend")
    return backend
