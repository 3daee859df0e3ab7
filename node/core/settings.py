"""The settings of a protocol core."""

from dataclasses import dataclass

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import Algorithm

MS = 1_000_000  # nanoseconds
CLIENTS_MAX = 2**14
STATE_FORMAT = 4  # of the tree's dumps and digest
FORMAT_WITHOUT_FORGOTTEN = 3  # of older nodes, whose digest did not say up to where clients were forgotten
FORMAT_WITHOUT_USES = 2  # of still older ones, which did not store when clients were used last either


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The node's id, the ensemble's members, and the core's timeouts and limits.

    Times are nanoseconds of the node's own clock. `digest` as in NodeConfig, `clients_max` as in its limits; `state_format` as
    in `Tree`. The core does not use the last two, but a replay of its deliveries needs them.
    """

    me: int
    members: tuple[int, ...]
    heartbeat: int = 100 * MS
    timeout: int = 800 * MS
    finalize: int = 40 * MS
    sync_timeout: int = 5000 * MS
    outstanding: int = 1000
    counter_max: int = zx.COUNTER_MAX
    digest: Algorithm = "blake2b"  # for recordings that do not name one
    clients_max: int = CLIENTS_MAX  # likewise
    state_format: int = FORMAT_WITHOUT_USES  # likewise
