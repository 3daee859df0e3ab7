"""Shortens the events that a verdict cites, for reports: a batch can have hundreds of digests, of which few matter."""

from collections.abc import Mapping, Sequence
from typing import Any

from zab_chaos.node.core.digest import DIGITS

SHOWN = 8  # elements of a list, or digests of a batch

Event = Mapping[str, Any]


def brief(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Shorten the events of one violation.

    If events have different digests at the same zxid, only these digests are kept, as {"epoch:counter": digest} with the
    number of `others`. Other long lists are cut off.
    """
    batches = [_by_zxid(event) for event in events]
    differing = _differing(batches)
    return [_shown(event, batch, differing) for event, batch in zip(events, batches, strict=True)]


def _by_zxid(event: Event) -> dict[tuple[int, int], str]:
    """Return the digest of each zxid of a batch; empty for an event that is not a batch."""
    epoch, first, digests = event.get("epoch"), event.get("first"), event.get("digests")
    if not isinstance(epoch, int) or not isinstance(first, int) or not isinstance(digests, str):
        return {}
    each = [digests[at : at + DIGITS] for at in range(0, len(digests), DIGITS)]
    return {(epoch, counter): digest for counter, digest in enumerate(each, first)}


def _differing(batches: Sequence[dict[tuple[int, int], str]]) -> set[tuple[int, int]]:
    digests_at: dict[tuple[int, int], set[str]] = {}
    for batch in batches:
        for zxid, digest in batch.items():
            digests_at.setdefault(zxid, set()).add(digest)
    return {zxid for zxid, digests in digests_at.items() if len(digests) > 1}


def _shown(event: Event, batch: dict[tuple[int, int], str], differing: set[tuple[int, int]]) -> dict[str, Any]:
    shown = {name: _cut_off(value) for name, value in event.items()}
    if len(batch) > SHOWN:
        shown["digests"] = f"{event['digests'][: DIGITS * SHOWN]} and {len(batch) - SHOWN} more"
    relevant = sorted(batch.keys() & differing)[:SHOWN]
    if relevant:
        shown["digests"] = {f"{epoch}:{counter}": batch[epoch, counter] for epoch, counter in relevant}
        if len(batch) > len(relevant):
            shown["digests"]["others"] = len(batch) - len(relevant)
    return shown


def _cut_off(value: Any) -> Any:
    if isinstance(value, list) and len(value) > SHOWN:
        return [*value[:SHOWN], f"and {len(value) - SHOWN} more"]
    return value
