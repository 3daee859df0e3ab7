"""The shell of `zab client`, whose lines come from a pipe. tests/integration/test_up.py runs it on a terminal."""

import io

import pytest

from tests.unit.harness.client.fake_ensemble import FakeEnsemble
from zab_chaos.harness.client import connect
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
    ],
)
def test_the_worst_line_of_a_pipe_is_the_exit_code_and_errors_go_to_stderr(
    ensemble: FakeEnsemble, lines: str, code: int, out: str, err: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    with connect(ensemble.addresses, ensemble.keys) as session:
        assert shell(session) == code
    assert capsys.readouterr() == (out, err)
