"""Where a command's words go: with --json the answer is alone on stdout."""

import json
import sys
from typing import Any

from rich.console import Console


def print_json(answer: Any) -> None:
    json.dump(answer, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def console_for(*, json: bool) -> Console:
    """Where people read: stderr when a program reads stdout."""
    return Console(stderr=json)
