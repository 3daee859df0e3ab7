"""The outcomes that a backend's client may return."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system import (
    AsyncClient,
    BlockingClient,
    Client,
    Create,
    Failed,
    Get,
    Outcome,
    Request,
    Set,
    Unknown,
    done,
)
from zab_chaos.harness.backends.system.clients import SystemClient, ThenOrRaised
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.tree.requests import Exists

GET = Get("/a")


class Says(Client):
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def submit(self, request: Request, then: ThenOrRaised) -> None:
        then(self._answer)

    def close(self) -> None: ...


def asked(folder: Path, answer: Any, request: Request = GET, kind: Callable[[Any], Client] = Says) -> list[Any]:
    history, told = HistoryFile(folder / "ops.jsonl", OutcomeCounts()), []
    line = SocketLine(SystemClient({1: lambda: kind(answer)}, 1, 1, 20.0), history)
    line.submit(request, told.append)
    line.wait(lambda: bool(told), 20.0)
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


@pytest.mark.parametrize("answer", [done(b"1"), Failed("no node", ""), Failed("no node"), Unknown("who knows")])
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
    with pytest.raises(BackendMistake, match=r"must be done\(...\), Failed\(...\) or Unknown\(...\), not None"):
        asked(tmp_path, None)


class Blocking(BlockingClient):
    def __init__(self, answer: Any) -> None:
        self._answer = answer
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        answer: Outcome = self._answer
        return answer


def test_the_error_has_the_place_of_the_method(tmp_path: Path) -> None:
    place = rf"{Path(__file__).name}, line {Blocking.ask.__code__.co_firstlineno}"
    with pytest.raises(
        BackendMistake, match=rf"^`ask` of the backend \({place}\): the answer to get must be .*, not None$"
    ):
        asked(tmp_path, None, kind=Blocking)


@pytest.mark.parametrize(
    ("request_", "answer", "words"),
    [
        (Get("/a"), done("text"), r"get is done\(value, version\), in which the value must be bytes, not 'text'"),
        (Get("/a"), done(), r"value must be bytes, not None\. If there is no such key, return Failed\('no node'\)"),
        (Get("/a"), done("é" * 9999), r"not 'é{20,60}\.\.\.é{20,60}'$"),
        (Get("/a"), done(b"", "1"), "version must be a whole number from 0 on, not '1'"),
        (Get("/a"), done(b"", True), "version must be a whole number from 0 on, not True"),
        (Get("/a"), done(b"", -1), "version must be a whole number from 0 on, not -1"),
        (Set("/a", b""), done(0), r"set is done\(version=\.\.\.\), in which the value must be bytes, not 0"),
        (Create("/a", b""), done(path=b"/a"), "path must be a text, not b'/a'"),
        (Create("/a", b"", True), done(), "path must be a text, not None"),
        (Get("/a"), Failed("no node", 5), r"must have texts in Failed\(\.\.\.\), not 5"),
        (Get("/a"), Unknown(ValueError("x")), r"must have a text in Unknown\(\.\.\.\), not ValueError\('x'\)"),
    ],
)
def test_an_answer_has_what_it_needs_in_the_right_types(
    tmp_path: Path, request_: Request, answer: Any, words: str
) -> None:
    """Otherwise the first to notice would be the judge, who could not read the record."""
    with pytest.raises(BackendMistake, match=words):
        asked(tmp_path, answer, request_)


@pytest.mark.parametrize(("base", "given"), [(BlockingClient, ""), (AsyncClient, "timeout")])
def test_a_client_that_has_not_called_its_base_class_is_named(tmp_path: Path, base: type[Client], given: str) -> None:
    class Forgetful(base):  # type: ignore[misc, valid-type]
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def ask(self, request: Request) -> Outcome:
            raise AssertionError

        def connect(self) -> None: ...

    line = Forgetful.__init__.__code__.co_firstlineno
    words = rf"of Forgetful \({Path(__file__).name}, line {line}\) must call super\(\)\.__init__\({given}\)"
    with pytest.raises(BackendMistake, match=words):
        asked(tmp_path, None, kind=Forgetful)


def test_an_unknown_error_of_a_refusal_is_refused(tmp_path: Path) -> None:
    """The judge would learn nothing from it, but learns that the key is missing from "no node"."""
    with pytest.raises(BackendMistake, match=r"error='not found'.*, but the errors are 'no node', 'node exists'"):
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
        super().__init__(done(b""))
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
