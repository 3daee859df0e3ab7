"""Mutation: plausible bugs, planted one at a time, and what exploration alone makes of them. See docs/mutation.md."""
