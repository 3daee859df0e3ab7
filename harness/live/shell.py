"""The shell of `zab client`: history, completion of verbs and paths, one line after the other until `exit`."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from zab_chaos.harness.client.session import Done, Session
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.live.requests import VERBS, outcome_text, parse_request, split_line
from zab_chaos.node.tree.requests import Children

ENDS = ("exit", "quit")
HISTORY = Path.home() / ".zab_history"


class Completions(Completer):
    """The verbs first; then paths, for whose parents the ensemble is asked."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor.lstrip()
        word = before.rsplit(" ", 1)[-1]
        if before == word:
            yield from (
                Completion(name, -len(word), display_meta=VERBS[name].about if name in VERBS else "leave the shell")
                for name in (*VERBS, "exit")
                if name.startswith(word)
            )
        elif word.startswith("/"):
            yield from (Completion(path, -len(word)) for path in self._paths(word))

    def _paths(self, begun: str) -> Iterator[str]:
        parent = begun.rsplit("/", 1)[0]
        outcome = self._session.submit(Children(parent or "/")).outcome()
        if isinstance(outcome, Done):
            yield from (
                path for path in (f"{parent}/{name}" for name in outcome.children or []) if path.startswith(begun)
            )


def shell(session: Session) -> None:
    """Until `exit`, the end of the input, or Ctrl-D. A line that is wrong, or fails, ends nothing."""
    for line in _lines(session):
        if line in ENDS:
            return
        if line in ("help", "?"):
            _say("\n".join(f"{word.example:48} {word.about}" for word in VERBS.values()))
        elif line:
            _answer(session, line)


def _answer(session: Session, line: str) -> None:
    try:
        request = parse_request(split_line(line))
    except BadInput as error:
        _say(str(error))
        return
    _say(outcome_text(session.submit(request).outcome()))


def _lines(session: Session) -> Iterator[str]:
    """What is typed, or what stands in the input if nobody types."""
    if not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin)
        return
    prompt: PromptSession[str] = PromptSession(
        history=_history(), completer=Completions(session), complete_while_typing=False
    )
    while True:
        try:
            with patch_stdout():
                yield prompt.prompt(lambda: f"node-{session.node}> ").strip()
        except KeyboardInterrupt:
            continue  # as shells do: the line is given up, not the shell
        except EOFError:
            return


def _history() -> History:
    """What was said in earlier shells; only in memory where the home cannot be written."""
    try:
        os.close(os.open(HISTORY, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(HISTORY)


def _say(words: str) -> None:
    print(words, flush=True)  # noqa: T201
