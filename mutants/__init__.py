"""Mutation: plants plausible bugs one at a time, and counts how many exploration alone finds. See docs/mutation.md."""
