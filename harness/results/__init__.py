"""Writes, finds and reads the folders of runs."""
