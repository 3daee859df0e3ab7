"""A counter that several programs share: the program that this example tests.

The difficult case is an unknown outcome: the node failed after it was sent the request. To send it again might count twice, to
give up might not count at all. So each program also has its own znode, which it sets in the same transaction as the counter: if
that znode has the new value, the increment was done.
"""

from zab_chaos.harness.client import Failed, Session, Set, Unknown

ATTEMPTS = 200
PAUSE = 0.1  # seconds between two attempts, in which a new leader can be elected


class Counter:
    """A counter in the znode `path`. `name` identifies this program; no other running program may have the same."""

    def __init__(self, session: Session, path: str, name: str) -> None:
        self._session = session
        self._path = path
        self._own = f"{path}/{name}"
        self._done = 0
        self._ensure_exists(self._path, b"0")
        self._ensure_exists(self._own, b"0")

    def value(self) -> int:
        """Return the counter's value, which is at least as new as any that this session has seen."""
        return int(self._session.get(self._path).value)

    def increment(self) -> None:
        """Add one, exactly once. Raises TimeoutError if the ensemble does not answer for too long."""
        self._done += 1
        mark = b"%d" % self._done
        for _ in range(ATTEMPTS):
            if self._attempt(mark):
                return
            self._pause()
        raise TimeoutError(f"{self._path} was not counted up in {ATTEMPTS} attempts")

    def _attempt(self, mark: bytes) -> bool:
        """Try to add one; return whether this or an earlier attempt has done it."""
        try:
            own = self._session.get(self._own)
            if own.value == mark:
                return True  # an earlier attempt with an unknown outcome was done after all
            now = self._session.get(self._path)
            # Both sets have a condition: if an earlier attempt is carried out late, this one fails.
            number = b"%d" % (int(now.value) + 1)
            self._session.multi([Set(self._path, number, now.version), Set(self._own, mark, own.version)])
        except (Failed, Unknown):
            return False
        return True

    def _ensure_exists(self, path: str, value: bytes) -> None:
        for _ in range(ATTEMPTS):
            try:
                self._session.create(path, value)
                return
            except Failed as error:
                if error.error == "node exists":
                    return
            except Unknown:
                pass
            self._pause()
        raise TimeoutError(f"{path} could not be created in {ATTEMPTS} attempts")

    def _pause(self) -> None:
        """Wait. The session does it, because the time is the ensemble's, which may be simulated."""
        self._session.wait(lambda: False, PAUSE)
