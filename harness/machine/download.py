"""Downloads files and checks their checksums."""

from pathlib import Path

import pooch

SECONDS = 30  # limit for the time without a byte


class ChecksumMismatch(Exception):
    """The downloaded file has another checksum than expected. The text has both."""


def download(url: str, target: Path, algorithm: str, expected: str) -> Path:
    """Download a file to `target`, replacing what is there, and return `target`.

    Raises ChecksumMismatch, and OSError, which includes the errors of requests.
    """
    pooch.get_logger().setLevel("WARNING")
    target.unlink(missing_ok=True)  # else pooch would not download it
    pooch.retrieve(url, None, target.name, target.parent, downloader=pooch.HTTPDownloader(timeout=SECONDS))
    found = pooch.file_hash(str(target), alg=algorithm)
    if found != expected:
        target.unlink()
        raise ChecksumMismatch(f"{url} has {algorithm} {found}, but {expected} was expected")
    return target
