"""The prompt of `zab client`, with a history and completion of verbs and paths. It needs the extra `shell`."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from zab_chaos.harness.client.session import Done, Session
from zab_chaos.harness.live.requests import VERBS
from zab_chaos.node.tree.requests import Children

HISTORY = "~/.zab_history"


class Completions(Completer):
    """Completes the first word to a verb, and other words to paths, for which it asks the ensemble."""

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


def typed_lines(session: Session) -> Iterator[str]:
    """Yield the lines that are typed, until the user ends the input."""
    prompt: PromptSession[str] = PromptSession(
        history=_history(), completer=Completions(session), complete_while_typing=False
    )
    while True:
        try:
            with patch_stdout():
                yield prompt.prompt(lambda: f"node-{session.node}> ").strip()
        except KeyboardInterrupt:
            continue  # as in other shells, Ctrl-C drops the line only
        except EOFError:
            return


def _history() -> History:
    """Return the history of earlier shells, or one in memory if there is no home folder or it cannot be written."""
    try:
        file = Path(HISTORY).expanduser()
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return InMemoryHistory()
    return FileHistory(file)
