"""A file system whose power can be cut: what was not synced is lost, whoever wrote it.

It is mounted by FUSE over a node's data folder and holds everything in memory, twice: as programs see it, and as it would
be found after a power cut. `rules` tells what is durable when, `volume` keeps it, `mounted` is the side of FUSE, `__main__`
the process, and `mount` what a harness holds of it. docs/filesystem.md has the rules in words.
"""
