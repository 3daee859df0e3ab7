"""Exit codes, and the two errors that end a command with a clean message."""

from enum import IntEnum


class Exit(IntEnum):
    """What `zab` answers to the shell (README.md, "How to read a verdict")."""

    PASS = 0  # all properties hold
    VIOLATION = 1  # a property is violated
    UNKNOWN = 2  # too little happened to judge, a fault could not be confirmed, or the run was interrupted
    HARNESS_ERROR = 3  # the harness itself failed
    BAD_INPUT = 4  # bad arguments or a bad scenario
    BEYOND_FAULT_MODEL = 5  # a quorum of disks was lost, and the nodes refused to invent history
    FORCED = 130  # a second Ctrl-C: ended at once, not judged (128 + SIGINT, as shells say)


class BadInput(Exception):
    """The user's mistake: exit 4. The text says what was wrong, where, what is allowed; all mistakes at once."""


class HarnessError(Exception):
    """The harness cannot do its work on this machine: exit 3. The text says what to do about it."""


class Interrupted(Exception):
    """The user ended one of several runs: the others are not begun. Exit 2."""
