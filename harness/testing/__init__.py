"""The pytest plugin, and the conformance suite for backends.

`plugin` is fast to import; it imports the other modules when a test uses one of its fixtures.
"""
