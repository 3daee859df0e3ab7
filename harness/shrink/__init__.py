"""Shrinking: find the smallest scenario that still fails in the same way."""
