"""What the core raises."""


class SanityCheckFailed(Exception):
    """Something that cannot happen has happened; the server must stop (LADIS 2008, section 2)."""


class NotLeading(Exception):
    """Only an established leader, the primary, may broadcast."""
