"""Parse ranges of seeds: `A..B`, both ends included, or a single seed."""

import re

from zab_chaos.faults.seeds import SEED_MAX
from zab_chaos.harness.errors import BadInput


def read_seeds(text: str, option: str = "--seeds") -> range:
    """Parse a range of seeds. Raises BadInput, whose text names `option`."""
    match = re.fullmatch(r"(\d{1,40})(?:\.\.(\d{1,40}))?", text.strip())
    if match is None:
        raise BadInput(f"{option} is {text!r}; it needs a whole number, or two as in 1..1000")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise BadInput(f"{option} is {text!r}: {last} comes before {first}")
    if last > SEED_MAX:
        raise BadInput(f"{option} is {text!r}: the highest seed is {SEED_MAX}")
    return range(first, last + 1)
