"""One run: its options, its steps, its verdict."""
