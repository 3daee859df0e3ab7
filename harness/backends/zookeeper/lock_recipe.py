"""ZooKeeper's recipe for a lock, carried out by a client with a session."""

from collections.abc import Callable, Sequence
from typing import Protocol


class LockClient(Protocol):
    """What the recipe needs of a client. The functions that it passes are called when the answer has come."""

    @property
    def session(self) -> int | None: ...

    def create_sequential(self, path: str, on_created: Callable[[], None]) -> None: ...

    def list_children(self, path: str, *, watch: bool, on_names: Callable[[Sequence[str]], None]) -> None: ...

    def read(self, path: str, *, watch: bool, on_absent: Callable[[], None]) -> None: ...

    def set_data(self, path: str, on_done: Callable[[], None]) -> None: ...

    def delete(self, path: str) -> None: ...


class PlaceInLine:
    """Has a client take and release a lock by ZooKeeper's recipe: it creates a sequential ephemeral znode. It has the lock when
    no other has a lower number. Otherwise it watches the one before its own. With the lock it sets the data of the parent, and
    then it releases the lock by a delete of its znode."""

    def __init__(self, client: LockClient, lock: str) -> None:
        """`lock`: the parent of the znodes of all who want the lock."""
        self._client = client
        self._lock = lock
        self._held: str | None = None  # the client's znode, if it was the first one in the last list
        self._released: str | None = None
        self._before: str | None = None  # the znode that the client watches

    def look(self) -> None:
        """List all who stand in line, and do the next step."""
        self._client.list_children(self._lock, watch=False, on_names=self._step)

    def told_of_change(self, path: str) -> None:
        """Look again if this was the znode before the client's own."""
        if path == self._before:
            self._before = None
            self.look()

    def _step(self, names: Sequence[str]) -> None:
        """Create a znode, use the lock, release it, or watch the znode before the client's own. Runs in kazoo's thread."""
        session = self._client.session
        if session is None:
            return  # it has expired in the meantime
        prefix = f"{session:x}-"
        in_line = sorted(names, key=lambda name: name.rpartition("-")[2])
        place = next((place for place, name in enumerate(in_line) if name.startswith(prefix)), None)
        if place is None:
            self._client.create_sequential(f"{self._lock}/{prefix}", self.look)
            return
        path = f"{self._lock}/{in_line[place]}"
        if place > 0:
            self._before = f"{self._lock}/{in_line[place - 1]}"
            self._client.read(self._before, watch=True, on_absent=self.look)
        elif path != self._held:
            self._held = path
            self._client.set_data(self._lock, on_done=self._release)
        else:
            self._release()  # the answer to its set was lost

    def _release(self) -> None:
        if self._held != self._released:
            self._released = self._held
            self._client.delete(str(self._held))
