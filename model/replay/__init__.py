"""Replay: re-executes the recorded inputs of every node and compares the outputs with the recorded ones."""
