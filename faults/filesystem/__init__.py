"""A file system whose power can be cut: whatever was not synced is lost, for any program that runs on it.

It is mounted over a node's data folder by FUSE and holds everything in memory twice: as programs see it, and as a power cut
would leave it. `contents` has the bytes of one file, `volume` the files, folders and names, `power` the faults and counters
of the disk, `operations` the FUSE interface, `__main__` the process, and `mount` starts that process for a harness.
docs/filesystem.md describes the rules.
"""
