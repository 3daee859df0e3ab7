"""Shrinking: find the smallest scenario that still fails in the same way."""

BUDGET = "2000"  # the default of --budget: a number of tries
