"""The run folder: writing it, and reading it again."""
