"""A node in a process of its own whose clock, links and clients are the harness's: in virtual time, over ZeroMQ."""
