"""Downloads, each checked by a sum that is known before."""

from pathlib import Path

import pooch

SECONDS = 30  # without a byte


class WrongSum(Exception):
    """What came is not what was expected. The text says both sums."""


def download(url: str, target: Path, algorithm: str, expected: str) -> Path:
    """Put a file at `target`, in the place of what is there. Raises WrongSum, OSError (of which requests' errors are)."""
    pooch.get_logger().setLevel("WARNING")
    target.unlink(missing_ok=True)  # pooch would take it for what was asked for
    pooch.retrieve(url, None, target.name, target.parent, downloader=pooch.HTTPDownloader(timeout=SECONDS))
    found = pooch.file_hash(str(target), alg=algorithm)
    if found != expected:
        target.unlink()
        raise WrongSum(f"{url} has {algorithm} {found}, but {expected} was expected")
    return target
