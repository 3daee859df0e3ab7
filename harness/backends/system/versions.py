"""Versions that do not count a key's writes, but name one of them: the conditions that a client may give, and their numbers."""

from collections import deque
from threading import Lock

import msgspec

from zab_chaos.harness.client.transaction import Outcome, Request
from zab_chaos.node.tree import outcomes, requests
from zab_chaos.node.tree.outcomes import Ok
from zab_chaos.node.tree.requests import ANY, Check, Delete, Get, Set


class VersionNumbers:
    """Numbers for the versions of a system in which they are text, such as ETags; whole numbers stay as they are.

    ops.jsonl has the numbers, and the backend's clients only see the versions.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lock = Lock()

    def recorded(self, outcome: Outcome) -> Outcome:
        """Return an outcome of a backend's client with a number as its version."""
        text: object = outcome.version if isinstance(outcome, Ok) else None
        if not isinstance(text, str):
            return outcome
        with self._lock:
            if text not in self._numbers:
                self._numbers[text] = len(self._texts)
                self._texts.append(text)
            return msgspec.structs.replace(outcome, version=self._numbers[text])

    def asked(self, request: Request) -> Request:
        """Return a request for a backend's client, with the version that the number in its condition stands for."""
        if isinstance(request, Set | Delete | Check) and 0 <= request.version < len(self._texts):
            return msgspec.structs.replace(request, version=self._texts[request.version])
        return request


class ToldVersions:
    """The versions that a client was told: a condition must name one of these, for nobody can guess another."""

    def __init__(self) -> None:
        self._told: dict[str, deque[int]] = {}  # by key: the last two

    def learn(self, request: requests.Request, outcome: outcomes.Outcome) -> None:
        if isinstance(outcome, Ok) and outcome.version is not None and hasattr(request, "path"):
            told = self._told.setdefault(request.path, deque(maxlen=2))
            if not told or told[-1] != outcome.version:
                told.append(outcome.version)

    def conditional(self, request: requests.Request) -> requests.Request:
        """Return a drawn request whose condition names the version told last or, if that one was not drawn, the one before.

        A client that was told none reads the key, or does without a condition.
        """
        if not isinstance(request, Set | Delete | Check) or request.version == ANY:
            return request
        told = self._told.get(request.path)
        if not told:
            return Get(request.path) if isinstance(request, Set) else msgspec.structs.replace(request, version=ANY)
        version = told[-1] if request.version == told[-1] else told[0]
        return msgspec.structs.replace(request, version=version)
