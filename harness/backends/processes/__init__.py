"""The `processes` backend: each node is an OS process of this machine."""
