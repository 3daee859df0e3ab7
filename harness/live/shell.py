"""The shell of `zab client`: it executes one line after another, typed at a prompt or from a pipe."""

import sys
from collections.abc import Iterator
from io import TextIOWrapper

from zab_chaos.harness.client.session import Session
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.live.requests import VERBS, exit_code, outcome_text, parse_request, split_line

EXIT_WORDS = ("exit", "quit")


def shell(session: Session) -> Exit:
    """Execute lines until `exit`, the end of the input, or Ctrl-D. Mistakes do not end the shell.

    If stdin is not a terminal, errors go to stderr, and the highest exit code of the lines is returned.
    """
    terminal = sys.stdin.isatty()
    highest = Exit.PASS
    for number, line in enumerate(_lines(session), 1):
        if line in EXIT_WORDS:
            break
        if not line:
            continue
        code, words = _answer(session, line)
        if terminal or code == Exit.PASS:
            print(words, flush=True)  # noqa: T201
        else:
            print(f"line {number}: {words}", file=sys.stderr)  # noqa: T201
            highest = max(highest, code)
    return highest


def _answer(session: Session, line: str) -> tuple[Exit, str]:
    """Execute a line. Return its exit code and what to print."""
    if line in ("help", "?"):
        return Exit.PASS, "\n".join(f"{word.example:48} {word.about}" for word in VERBS.values())
    try:
        outcome = session.submit(parse_request(split_line(line))).outcome()
    except BadInput as error:
        return Exit.BAD_INPUT, str(error)
    return exit_code(outcome), outcome_text(outcome)


def _lines(session: Session) -> Iterator[str]:
    """Return the lines that are typed at a prompt, or the lines of stdin if that is not a terminal."""
    if sys.stdin.isatty():
        from zab_chaos.harness.live.prompt import typed_lines  # lines from a pipe do not need its library

        return typed_lines(session)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # data may be any bytes, as on the command line
    return (line.strip() for line in sys.stdin)
