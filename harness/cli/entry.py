"""The command `zab`: ready for Ctrl-C before anything that takes time is imported."""

import sys

from zab_chaos.harness.errors import Exit
from zab_chaos.harness.machine.interrupt import Forced, Stopped, stoppable


def main() -> int:
    with stoppable():
        try:
            from zab_chaos.harness.cli.app import main as command

            return command()
        except Stopped:
            print("Error: interrupted", file=sys.stderr)  # noqa: T201
            return Exit.UNKNOWN
        except Forced:
            return Exit.FORCED
