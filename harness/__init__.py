"""Runs a scenario in a world, judges it, shows it."""
