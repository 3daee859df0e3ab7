"""The entry point of `zab`. It handles Ctrl-C before it imports anything that takes time."""

import gc
import signal
import sys


def main() -> int:
    """Run the command of `sys.argv` and return its exit code."""
    try:
        return _run_stoppable()
    except KeyboardInterrupt:  # during the first imports, before `stoppable`
        print("Error: interrupted", file=sys.stderr)  # noqa: T201
        return 2  # Exit.UNKNOWN, which may not be imported
    finally:
        gc.freeze()  # Python ends sooner, by up to half a second, if it does not look for garbage first


def _run_stoppable() -> int:
    from zab_chaos.harness.errors import Exit
    from zab_chaos.harness.machine.interrupt import Forced, Stopped, stoppable

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for a Ctrl-C after the command, while Python ends
    with stoppable():
        try:
            from zab_chaos.harness.cli.app import main as command

            return command()
        except Stopped:
            print("Error: interrupted", file=sys.stderr)  # noqa: T201
            return Exit.UNKNOWN
        except Forced:
            return Exit.FORCED
