"""A counter that several programs share: what this example's tests are about.

The interesting case is the outcome that nobody can tell: the node went away with the request. Counting again might count
twice, giving up might not count at all. So each program has a znode of its own beside the counter, which it writes in the same
transaction: if that has changed, the increment was done.
"""

from zab_chaos.harness.client import Failed, Session, Set, Unknown

ATTEMPTS = 200
PAUSE = 0.1  # seconds between two of them: a new leader takes a moment


class Counter:
    """A znode with a number in it. `name`: of this program; no two at a time have the same."""

    def __init__(self, session: Session, path: str, name: str) -> None:
        self._session = session
        self._path = path
        self._own = f"{path}/{name}"
        self._done = 0
        self._until_there(self._path, b"0")
        self._until_there(self._own, b"0")

    def value(self) -> int:
        """As new as anything that this session has seen."""
        return int(self._session.get(self._path).value)

    def increment(self) -> None:
        """Add one, exactly once. Raises TimeoutError if the ensemble does not answer for too long."""
        self._done += 1
        mark = b"%d" % self._done
        for _ in range(ATTEMPTS):
            if self._counted(mark):
                return
            self._pause()
        raise TimeoutError(f"{self._path} was not counted up in {ATTEMPTS} attempts")

    def _counted(self, mark: bytes) -> bool:
        try:
            own = self._session.get(self._own)
            if own.value == mark:
                return True  # the attempt before, of which nobody could tell, was done after all
            now = self._session.get(self._path)
            # Both under a condition: if the attempt before is done only now, this one is not.
            number = b"%d" % (int(now.value) + 1)
            self._session.multi([Set(self._path, number, now.version), Set(self._own, mark, own.version)])
        except (Failed, Unknown):
            return False
        return True

    def _until_there(self, path: str, value: bytes) -> None:
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
        """The session lets the time pass, so that it is the ensemble's own, simulated or not."""
        self._session.wait(lambda: False, PAUSE)
