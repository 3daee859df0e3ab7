"""Replay: the recorded inputs of every node, executed once more."""
