"""This machine: what it is, what it lacks, where things are kept on it."""
