"""The outcomes that a backend's client may return."""

import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system import Client, Create, Failed, Get, Request, Set, Unknown, done
from zab_chaos.harness.backends.system.clients import SystemClient, ThenOrRaised
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.tree.requests import Exists


class Says(Client):
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def submit(self, request: Request, then: ThenOrRaised) -> None:
        then(self._answer)

    def close(self) -> None: ...


def asked(folder: Path, answer: Any) -> list[Any]:
    history, told = HistoryFile(folder / "ops.jsonl", OutcomeCounts()), []
    line = SocketLine(SystemClient({1: lambda: Says(answer)}, 1, 1, 1.0), history)
    line.submit(Get("/a"), told.append)
    line.wait(lambda: bool(told), 1.0)
    return told


@pytest.mark.parametrize("nodes", [[1], [1, 2]])
def test_after_an_unknown_outcome_a_new_client_is_used(tmp_path: Path, nodes: list[int]) -> None:
    """The old connection may be broken for good, also if there is no other node to go to."""
    history, told = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts()), []
    answers = iter([Unknown("broken pipe"), done(b"1")])
    line = SocketLine(SystemClient(dict.fromkeys(nodes, lambda: Says(next(answers))), 1, 1, 1.0), history)
    for count in (1, 2):
        line.submit(Get("/a"), told.append)
        line.wait(lambda count=count: len(told) == count, 1.0)
    assert told == [Unknown("broken pipe"), done(b"1")]


@pytest.mark.parametrize("answer", [done(b"1"), Failed("no node", ""), Unknown("who knows")])
def test_each_kind_of_outcome_is_accepted(tmp_path: Path, answer: Any) -> None:
    assert asked(tmp_path, answer) == [answer]


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (Create("/a", b""), "create"),
        (Create("/a", b"", True), "sequential"),
        (Set("/a", b"", 3), "cas"),
        (Exists("/a"), "exists"),
    ],
)
def test_an_operation_that_the_backend_lacks_is_refused_and_not_recorded(
    tmp_path: Path, request_: Request, name: str
) -> None:
    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    line = SocketLine(SystemClient({1: lambda: Says(done())}, 1, 1, 1.0, operations={"get", "set"}), history)
    with pytest.raises(BadInput, match=f"have no {name}; its `operations` are get, set"):
        line.submit(request_, print)
    line.submit(Set("/a", b""), print)
    assert (tmp_path / "ops.jsonl").read_text().count("invoke") == 1


def test_anything_else_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"must be done\(...\), Failed\(...\) or Unknown\(...\), not None"):
        asked(tmp_path, None)


@pytest.mark.parametrize("wrong", [{"value": "text"}, {"version": "1"}, {"path": b"/a"}])
def test_what_was_done_has_the_right_types(tmp_path: Path, wrong: Any) -> None:
    """Otherwise the first to notice would be the judge, who could not read the record."""
    with pytest.raises(
        TypeError, match=rf"the {next(iter(wrong))} in done\(\.\.\.\) must be (bytes|int|str) or None, not"
    ):
        asked(tmp_path, done(**wrong))


def test_an_unknown_error_of_a_refusal_is_refused(tmp_path: Path) -> None:
    """The judge would learn nothing from it, but learns that the key is missing from "no node"."""
    with pytest.raises(ValueError, match=r"error='not found'.*: a client's errors are 'no node', 'node exists'"):
        asked(tmp_path, Failed("not found", ""))


class Silent(Client):
    def submit(self, request: Request, then: ThenOrRaised) -> None: ...

    def close(self) -> None: ...


def test_a_request_that_is_not_answered_in_time_is_unknown() -> None:
    told: list[Any] = []
    client = SystemClient({1: Silent}, 1, 1, 60.0)
    client.submit(Get("/a"), lambda operation, outcome: told.append(outcome))
    client.poll(0.01)
    assert (client.outstanding, told) == (1, [])
    client = SystemClient({1: Silent}, 1, 1, 0.01)
    client.submit(Get("/a"), lambda operation, outcome: told.append(outcome))
    client.poll(60.0)
    assert (client.outstanding, told) == (0, [Unknown("no answer within 0.01 s")])


def test_a_request_that_breaks_off_while_it_is_sent_has_not_failed() -> None:
    """A part of it may have arrived. Only a node that can't be reached has got nothing."""

    class BreaksOff(Silent):
        def submit(self, request: Request, then: ThenOrRaised) -> None:
            raise ConnectionResetError

    def unreachable() -> Client:
        raise ConnectionRefusedError

    for connect, failed in ((BreaksOff, False), (unreachable, True)):
        told: list[Any] = []
        client = SystemClient({1: connect}, 1, 1, 60.0)
        client.submit(Set("/a", b""), lambda operation, outcome, told=told: told.append(outcome))
        with suppress(OSError):
            client.poll(60.0)
        assert [isinstance(outcome, Failed) for outcome in told] == [True] * failed


class Noted(Says):
    """Notes when it is made and closed."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__(done())
        self._name, self._notes = name, notes
        notes.append(f"{name} made")

    def close(self) -> None:
        self._notes.append(f"{self._name} closed")


def noted_client(notes: list[str]) -> SystemClient:
    return SystemClient({node: partial(Noted, f"node-{node}", notes) for node in (1, 2)}, 7, 1, 60.0)


def test_a_client_that_is_moved_asks_the_other_node() -> None:
    notes: list[str] = []
    client, operations = noted_client(notes), []
    for node in (1, 1, 2, 1):
        client.move(node, now=0)
        operations.append(client.submit(Get("/a"), lambda operation, outcome: None))
        client.poll(60.0)
    client.close()
    assert [operation.node for operation in operations] == [1, 1, 2, 1]
    one, two = ["node-1 made", "node-1 closed"], ["node-2 made", "node-2 closed"]
    assert notes == one + two + one


def test_a_new_session_has_a_new_client_and_another_number() -> None:
    notes: list[str] = []
    client = noted_client(notes)
    for number in (7, 8):
        client.begin_new_session(number, now=0)
        client.submit(Get("/a"), lambda operation, outcome: None)
        client.poll(60.0)
        assert client.number == number
    assert notes == ["node-1 made", "node-1 closed", "node-1 made"]


def test_outcomes_are_told_while_the_lock_is_held() -> None:
    """All clients of a load share one record of what is outstanding."""
    lock, told = threading.Lock(), []
    client = noted_client([])
    client.lock = lock
    client.submit(Get("/a"), lambda operation, outcome: told.append(lock.locked()))
    client.poll(60.0)
    client.submit(Get("/a"), lambda operation, outcome: told.append(lock.locked()))
    client.close()
    assert told == [True, True]
    assert not lock.locked()


def test_an_outcome_after_the_record_is_closed_is_not_recorded(tmp_path: Path) -> None:
    """A client's thread may outlive a run that was stopped at once."""
    counts, told = OutcomeCounts(), []
    history = HistoryFile(tmp_path / "ops.jsonl", counts)
    line = SocketLine(SystemClient({1: Silent}, 1, 1, 1.0), history)
    line.submit(Get("/a"), told.append)
    history.close()
    line.close()
    assert told == [Unknown("the client was closed")]
    assert (tmp_path / "ops.jsonl").read_text().count("\n") == 1


def test_a_line_that_another_thread_closes_completes_each_request_once(tmp_path: Path) -> None:
    class Late(Client):
        """Its answer comes when the line is closed."""

        def submit(self, request: Request, then: ThenOrRaised) -> None:
            answers.append(then)

        def close(self) -> None: ...

    def use(line: SocketLine) -> None:
        try:
            line.submit(Get("/a"), told.append)
            sent.set()
            line.wait(lambda: bool(told), 0.2)
        except IndexError as error:
            told.append(error)

    for number in range(3):
        answers: list[ThenOrRaised] = []
        told: list[Any] = []
        sent = threading.Event()
        history = HistoryFile(tmp_path / f"ops-{number}.jsonl", OutcomeCounts())
        line = SocketLine(SystemClient({1: Late}, 1, 1, 10.0), history)
        thread = threading.Thread(target=use, args=[line])
        thread.start()
        assert sent.wait(10)
        line.close()
        answers[0](done(b"1"))
        thread.join()
        assert told == [Unknown("the client was closed")]
