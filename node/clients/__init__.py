"""A node's clients: their sessions, their writes on the way to the leader, the answers."""
