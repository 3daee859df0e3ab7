"""Shrinks failing scenarios: finds the smallest one that still fails in the same way."""
