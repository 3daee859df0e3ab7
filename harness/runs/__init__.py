"""The life cycle of one run: options, phases and verdict."""
