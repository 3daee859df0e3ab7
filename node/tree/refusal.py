"""Refusals: why a request certainly had no effect. Stable names for programs, words for people."""

from dataclasses import dataclass
from typing import Final, final

NO_NODE: Final = "no node"
NODE_EXISTS: Final = "node exists"
NO_PARENT: Final = "no parent"
NOT_EMPTY: Final = "not empty"
BAD_VERSION: Final = "bad version"
BAD_PATH: Final = "bad path"
BAD_REQUEST: Final = "bad request"
TOO_LARGE: Final = "too large"
OVERLOADED: Final = "overloaded"
NO_LEADER: Final = "no leader"
SUPERSEDED: Final = "superseded"
CONFLICT: Final = "conflict"  # of foreign systems only: a transaction was rolled back because of others

ERRORS: Final = (
    NO_NODE, NODE_EXISTS, NO_PARENT, NOT_EMPTY, BAD_VERSION, BAD_PATH, BAD_REQUEST, TOO_LARGE, OVERLOADED, NO_LEADER,
    SUPERSEDED, CONFLICT,
)  # fmt: skip

FORGOTTEN_CLIENT: Final = "forgotten client"  # between nodes only: the client's session ends, with these words for it
MAY_BE_FORGOTTEN: Final = "the ensemble may have forgotten this client"

STATE_ERRORS: Final = frozenset(
    {NO_NODE, NODE_EXISTS, NO_PARENT, NOT_EMPTY, BAD_VERSION}
)  # errors that depend on the state: in another one the request might succeed

WORDS_MAX = 400  # characters of the words of a refusal that are passed on ...
TAIL = 150  # ... of which so many are the last ones


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """A request without effect. `error` is one of `ERRORS`; `words` say what was wrong with this request."""

    error: str
    words: str


def brief(words: str) -> str:
    """Return words for people without their middle if they are long: a path in them may have a million characters."""
    return words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - TAIL]}...{words[-TAIL:]}"


def too_large(size: int, limit: int) -> Refusal:
    return Refusal(TOO_LARGE, f"the request has {size} bytes of paths, data and steps; at most {limit}")


def superseded(seq: int, latest: int) -> Refusal:
    return Refusal(
        SUPERSEDED, f"request {seq} came after request {latest} of its client, which was judged or fenced off"
    )


def forgotten_client(clients_max: int) -> Refusal:
    return Refusal(
        FORGOTTEN_CLIENT,
        f"{MAY_BE_FORGOTTEN}: it remembers the {clients_max} that wrote last, and this one connected before others wrote",
    )


def no_node(path: str) -> Refusal:
    return Refusal(NO_NODE, f"there is no znode {path}")


def bad_version(path: str, expected: int, found: int) -> Refusal:
    return Refusal(BAD_VERSION, f"{path} is at version {found}, not {expected}")
