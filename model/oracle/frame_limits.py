"""Whether the limits of a run leave room for whatever nodes have to send in a frame."""

from collections.abc import Iterable, Mapping
from typing import Any

from zab_chaos.model.events import LARGE_BYTES, Invoke
from zab_chaos.node.config import Limits


def every_frame_fits(expect: Mapping[str, Any], requests: Iterable[Invoke]) -> bool:
    """Return whether every frame fits by the limits in `expect` (run.json), if clients send these requests.

    The longest frame brings a node a state, the history since the last snapshot but one, and what is in flight. Each has twice
    the room that it needs. Without limits on record it is not known: then False.
    """
    frame, snapshot = expect.get("frame_bytes"), expect.get("snapshot_bytes")
    if not isinstance(frame, int) or not isinstance(snapshot, int):
        return False
    largest: dict[str, int] = {}  # by path: of a request that may have left something there
    for request in requests:
        size = max(request.size or 0, LARGE_BYTES)
        for step in request.requested_steps:
            path = f"{step.path}-{len(largest)}" if step.sequential else step.path
            largest[path] = max(largest.get(path, 0), size)
    limits = Limits(frame_bytes=frame, snapshot_bytes=snapshot)
    return 2 * (sum(largest.values()) + 2 * limits.snapshot_interval + limits.bytes_in_flight) <= frame
