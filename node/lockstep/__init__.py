"""A node whose clock, links and clients are the harness's: a process of its own, over ZeroMQ, in virtual time."""
