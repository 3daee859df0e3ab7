"""The sessions of the client library check the types in a request before they send it."""

import asyncio
import contextlib
import errno
import json
import math
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.client.fake_ensemble import FakeEnsemble
from zab_chaos.harness.client import Create, Delete, Get, Multi, Set, connect, connect_async
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.session import Failed, Session, Unknown
from zab_chaos.harness.client.transport import CLOSED, FORKED
from zab_chaos.model import manifest

TEXT: Any = "text"
NUMBER: Any = 3
READ: Any = Get("/a")
WRONG: list[tuple[Any, str]] = [
    (
        Create("/a", TEXT),
        "Create(path='/a', data='text', sequential=False) can't be sent: Expected `bytes`, got `str`. A path",
    ),
    (Set("/a", b"1", TEXT), "Expected `int`, got `str`. A path is str, data is bytes, a version is int"),
    (Delete("/a", version=True), "Expected `int`, got `bool`"),
    (Get(NUMBER), "Expected `str`, got `int`"),
    (Multi([Create("/a", b""), Set("/a", TEXT * 500)]), "... can't be sent: Expected `bytes`, got `str`"),
    (Multi([READ]), "the steps of a multi are a list of Create, Set, Delete and Check"),
    (TEXT, "'text' can't be sent"),
]


@pytest.mark.parametrize(("request_", "words"), WRONG)
def test_a_value_of_a_wrong_type_is_an_error_at_the_call(ensemble: FakeEnsemble, request_: Any, words: str) -> None:
    with connect(ensemble.addresses, ensemble.keys) as client:
        with pytest.raises(TypeError) as error:
            client.submit(request_)
        assert words in str(error.value)
        assert client.get("/").value == b""

    async def submit() -> None:
        async with connect_async(ensemble.addresses, ensemble.keys) as client:
            with pytest.raises(TypeError) as error:
                client.submit(request_)
            assert words in str(error.value)
            assert client.outstanding == 0

    asyncio.run(submit())


@pytest.mark.parametrize(
    ("request_", "words"),
    [(Get("/\ud800"), r"bad request: Get\(path='/\\ud800'\) can't be sent"), (Delete("/a", 2**70), f"version={2**70}")],
)
def test_text_and_numbers_that_cannot_be_encoded_are_bad_requests(
    ensemble: FakeEnsemble, tmp_path: Path, request_: Any, words: str
) -> None:
    """They are not recorded either: the record could not contain such text."""
    record = tmp_path / "ops.jsonl"
    with connect(ensemble.addresses, ensemble.keys, record=record) as client, pytest.raises(Failed, match=words):
        client.ask(request_)

    async def ask() -> None:
        async with connect_async(ensemble.addresses, ensemble.keys, record=record) as client:
            with pytest.raises(Failed, match=words):
                await client.ask(request_)

    asyncio.run(ask())
    assert record.read_bytes() == b""


@pytest.mark.parametrize("in_task", [True, False])
def test_an_error_while_answers_are_received_is_raised_wherever_they_are_awaited(
    ensemble: FakeEnsemble, monkeypatch: pytest.MonkeyPatch, in_task: bool
) -> None:
    """The client is polled by a task, and by a callback of the event loop after something was submitted."""
    original, full = Client.poll, OSError(errno.ENOSPC, "No space left on device")

    def poll(client: Client, timeout: float = 0.0) -> None:
        if client.outstanding and (asyncio.current_task() is not None) is in_task:
            raise full
        original(client, timeout)

    async def submit() -> None:
        async with connect_async(ensemble.addresses, ensemble.keys) as client:
            monkeypatch.setattr(Client, "poll", poll)
            for node in ensemble.nodes.values():
                node.passing = False  # nothing is answered
            pending = [client.submit(Set("/", b"%d" % number)) for number in range(3)]
            done, _ = await asyncio.wait(pending, timeout=20)
            raised.extend(future.exception() for future in done)
            client.submit(Get("/"))

    raised: list[BaseException | None] = []
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(submit())
    assert raised == [full] * 3


def test_an_error_that_nobody_awaited_is_raised_at_the_end(
    ensemble: FakeEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave() -> None:
        async with connect_async(ensemble.addresses, ensemble.keys):
            monkeypatch.setattr(Client, "poll", broken)
            await asyncio.sleep(0)

    def broken(client: Client, timeout: float = 0.0) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        asyncio.run(leave())


def test_a_task_that_is_cancelled_while_its_session_ends_is_cancelled(ensemble: FakeEnsemble) -> None:
    went_on = []

    async def user() -> None:
        async with connect_async(ensemble.addresses, ensemble.keys) as client:
            assert await client.exists("/")
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)  # when the end of the block next waits
        went_on.append("after the session")

    async def main() -> None:
        task = asyncio.create_task(user())
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert not went_on


def test_a_session_that_another_thread_closes_ends_as_if_its_own_had(ensemble: FakeEnsemble) -> None:
    """The owner of the ensemble closes all sessions at the end, whoever still uses them."""
    raised: list[Exception] = []

    def use(session: Session, began: threading.Event) -> None:
        try:
            while True:
                session.exists("/")
                began.set()
        except (Unknown, ValueError) as error:
            raised.append(error)

    for _ in range(10):
        session, began = connect(ensemble.addresses, ensemble.keys), threading.Event()
        thread = threading.Thread(target=use, args=[session, began])
        thread.start()
        began.wait()
        session.close()
        thread.join()
    assert {str(error) for error in raised} <= {CLOSED, str(Unknown("the client was closed"))}
    assert len(raised) == 10


def test_a_session_is_of_no_use_in_a_fork_and_goes_on_in_its_own_process(
    ensemble: FakeEnsemble, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    with connect(ensemble.addresses, ensemble.keys) as client:
        sent = client.submit(Get("/"))
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that hangs
            with contextlib.suppress(BaseException):
                words = []
                for use in (lambda: client.submit(Get("/")), sent.outcome):
                    try:
                        use()
                    except ValueError as error:
                        words.append(str(error))
                client.close()
                told.write_text("\n".join(words))
            os._exit(0)
        os.waitpid(child, 0)
        assert told.read_text() == f"{FORKED}\n{FORKED}"
        assert sent.result().value == b""
        assert client.get("/").value == b""


def test_nothing_is_recorded_once_the_run_is_sealed(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    """A client may outlive its ensemble, and what it then wrote would count as damage."""
    with connect(ensemble.addresses, ensemble.keys, record=tmp_path / "ops.jsonl") as client:
        client.create("/a")
        late = client.submit(Get("/a"))
        manifest.seal(tmp_path)
        late.result()
        client.set("/a", b"1")
    with connect(ensemble.addresses, ensemble.keys, record=tmp_path / "other.jsonl") as client:
        client.get("/a")
    assert manifest.check(tmp_path)[1] == []
    recorded = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert [(line["type"], line.get("op")) for line in recorded] == [
        ("invoke", "create"),
        ("complete", None),
        ("invoke", "get"),
    ]


def test_a_record_needs_a_folder_only_at_the_beginning(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    """The folder of a run that is over may be removed."""
    with pytest.raises(FileNotFoundError):
        connect(ensemble.addresses, ensemble.keys, record=tmp_path / "run" / "ops.jsonl")
    (tmp_path / "run").mkdir()
    with connect(ensemble.addresses, ensemble.keys, record=tmp_path / "run" / "ops.jsonl") as client:
        shutil.rmtree(tmp_path / "run")
        assert client.get("/").value == b""


def test_a_timeout_may_be_infinite_and_must_not_be_negative(ensemble: FakeEnsemble) -> None:
    with connect(ensemble.addresses, ensemble.keys, timeout=math.inf) as client:
        assert client.get("/").value == b""
    for timeout in (-1.0, math.nan):
        with pytest.raises(ValueError, match="a timeout is a number of seconds, not"):
            connect(ensemble.addresses, ensemble.keys, timeout=timeout)
