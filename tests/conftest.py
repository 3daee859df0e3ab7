"""What all tests have in common: an option."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the transcripts of model/transcripts anew, from what the protocol does now; review them in the diff",
    )
