"""What several threads ask for and one of them makes."""

from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Shared:
    """Something with parts that are made when they are first asked for, once, whoever asks."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._locks: dict[str, RLock] = {}
        self._guard = Lock()

    def once(self, name: str, make: Callable[[Self], T]) -> T:
        """What `make` makes of this, made once for all that ask. Parts may need other parts, but never each other."""
        with self._guard:
            lock = self._locks.setdefault(name, RLock())
        with lock:
            if name not in self._made:
                self._made[name] = make(self)
            made: T = self._made[name]
            return made


class shared(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """A method as a part that is made once."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: Shared, kind: type) -> T: ...
    def __get__(self, owner: Shared | None, kind: type) -> Self | T:
        return self if owner is None else owner.once(self._make.__name__, self._make)
