"""The Zab protocol without a clock, a socket, a file or randomness (sans-I/O)."""
