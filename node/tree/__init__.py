"""The tree of znodes: conditional requests in, idempotent transactions out (LADIS 2008, section 1)."""
