"""One run: its steps, its folder, its verdict."""
