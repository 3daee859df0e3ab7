"""The lab's only source of randomness. It has no state: the same input gives the same number."""

MASK = 2**64 - 1


def splitmix64(x: int) -> int:
    """Return a u64 for a u64, with the constants of db-19 ("Cross-language invariants").

    The first multiplier ends in E7B5. The usual splitmix64 has ..1CE4E5B9 there, and would give different dumps.
    """
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E7B5) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)
