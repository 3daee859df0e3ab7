"""The seeds of runs."""

SEED_MAX = 2**63 - 1  # so that every table and every other program can have a seed as a signed integer
