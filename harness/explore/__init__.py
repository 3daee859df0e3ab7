"""Exploration: run many seeds of a scenario, with swarm testing, guided by coverage, on all cores or on Spark."""
