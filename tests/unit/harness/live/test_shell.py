"""The shell of `zab client`, whose lines come from a pipe. tests/integration/test_up.py runs it on a terminal."""

import io
import stat
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory

from tests.unit.harness.client.fake_ensemble import FakeEnsemble
from zab_chaos.harness.client import connect
from zab_chaos.harness.live import prompt
from zab_chaos.harness.live.prompt import Completions
from zab_chaos.harness.live.shell import shell


@pytest.mark.parametrize(
    ("lines", "code", "out", "err"),
    [
        ("create /a 1\n\nls /\n", 0, "/a version 0, zxid 1:1\na\n", ""),
        ("get /no\nls /\n", 1, "\n", "line 1: failed, no node: there is no znode /no\n"),
        (
            "\ngte /\nget /no\n",
            4,
            "",
            "line 2: there is no request 'gte'. Did you mean get?\nline 3: failed, no node: there is no znode /no\n",
        ),
        ("exit\nget /no\n", 0, "", ""),
        ("ls '/\n", 4, "", "line 1: ls '/: No closing quotation\n"),
        ("create /a \udcff\nget /a\n", 0, "/a version 0, zxid 1:1\n\\xff\nversion 0, zxid 1:1\n", ""),
    ],
)
def test_the_worst_line_of_a_pipe_is_the_exit_code_and_errors_go_to_stderr(
    ensemble: FakeEnsemble, lines: str, code: int, out: str, err: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    data = lines.encode(errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    with connect(ensemble.addresses, ensemble.keys) as session:
        assert shell(session) == code
    assert capsys.readouterr() == (out, err)


def test_help_lists_every_request(
    ensemble: FakeEnsemble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("help\n"))
    with connect(ensemble.addresses, ensemble.keys) as session:
        assert shell(session) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["create", "get", "set", "delete", "check", "exists", "ls", "multi"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["create", "get", "set", "delete", "check", "exists", "ls", "multi", "exit"]),
        ("  ex", ["exists", "exit"]),
        ("get /", ["/a", "/abc"]),
        ("set /ab", ["/abc"]),
        ("get /a/", ["/a/x"]),
        ("get x", []),
        ("get /no/x", []),
    ],
)
def test_requests_and_paths_are_completed(ensemble: FakeEnsemble, typed: str, offered: list[str]) -> None:
    with connect(ensemble.addresses, ensemble.keys) as session:
        for path in ("/a", "/abc", "/a/x"):
            session.create(path, b"")
        found = list(Completions(session).get_completions(Document(typed), CompleteEvent()))
    assert [typed[: len(typed) + one.start_position] + one.text for one in found] == [
        typed[: len(typed) - len(typed.rsplit(" ", 1)[-1])] + one for one in offered
    ]


def test_the_history_is_a_private_file_or_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    history = prompt._history()
    assert isinstance(history, FileHistory)
    assert stat.S_IMODE((tmp_path / ".zab_history").stat().st_mode) == 0o600
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert isinstance(prompt._history(), InMemoryHistory)


def test_a_user_without_a_home_folder_has_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a container's user without an entry in the list of users."""

    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    assert isinstance(prompt._history(), InMemoryHistory)
