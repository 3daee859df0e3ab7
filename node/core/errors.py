"""Exceptions that the protocol core raises."""


class SanityCheckFailed(Exception):
    """A state that the protocol rules out was reached; the server must stop (LADIS 2008, section 2)."""


class NotLeading(Exception):
    """A node that is not the primary (the leader of an established epoch) was told to broadcast."""
