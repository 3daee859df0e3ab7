"""Finds backends by name (`--on NAME`): our own, and those that other packages provide as entry points."""

from importlib.metadata import EntryPoint, entry_points

from zab_chaos.harness.backends.attributes import wrong_attributes
from zab_chaos.harness.backends.backend import Backend
from zab_chaos.harness.errors import BadInput, did_you_mean

GROUP = "zab_chaos.backends"  # the group of the entry points of other packages: NAME = "module:Class"
_PACKAGE = "zab_chaos.harness.backends"
OURS = {
    "processes": f"{_PACKAGE}.processes.backend:ProcessBackend",
    "sim": f"{_PACKAGE}.simulator.backend:SimBackend",
    "lockstep": f"{_PACKAGE}.lockstep.backend:LockstepBackend",
    "containers": f"{_PACKAGE}.containers.backend:ContainerBackend",
    "zookeeper": f"{_PACKAGE}.zookeeper.backend:ZooKeeperBackend",
}


def names() -> list[str]:
    """Return the names of all backends, our own first."""
    return [*OURS, *sorted({point.name for point in entry_points(group=GROUP)} - OURS.keys())]


def find(name: str) -> Backend:
    """Return the backend of this name. Raises BadInput if there is none, it can't be loaded, or it is wrong."""
    if name in OURS:
        return _loaded(EntryPoint(name, OURS[name], GROUP))
    for point in entry_points(group=GROUP, name=name):
        return _loaded(point)
    raise BadInput(f"no backend is called {name!r}. {did_you_mean(name, names())}")


def ours() -> list[Backend]:
    """Return our own backends."""
    return [find(name) for name in OURS]


def _loaded(point: EntryPoint) -> Backend:
    try:
        found = point.load()
        backend = found() if isinstance(found, type) else found
    except Exception as error:
        raise BadInput(f"the backend {point.name!r}, {point.value}, can't be loaded: {error or repr(error)}") from error
    if not isinstance(backend, Backend):
        raise BadInput(f"the backend {point.name!r}, {point.value}, is not a {Backend.__module__}.Backend")
    wrong = wrong_attributes(backend, backend.forms)
    if wrong:
        raise BadInput("\n".join(f"the backend {point.name!r}: {each}" for each in wrong))
    return backend
