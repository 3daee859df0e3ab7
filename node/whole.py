"""One buffer, written whole: write(2) may take less than it was given."""

import os


def write_whole(descriptor: int, data: bytes) -> None:
    """Raises OSError."""
    while data:
        data = data[os.write(descriptor, data) :]
