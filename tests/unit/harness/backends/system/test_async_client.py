"""A backend's client that uses asyncio, in a thread of its own."""

import asyncio
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system import AsyncClient, Failed, Get, Outcome, Request, Unknown, done
from zab_chaos.harness.backends.system.clients import SystemClient
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.client.transport import SocketLine


class Library(AsyncClient):
    """Has a task of its own, as the reader of a library's connection, and answers with what `answer` returns."""

    def __init__(self, answer: Any, fails: Exception | None = None, hangs: bool = False, timeout: float = 20.0) -> None:
        self.answer, self.fails, self.hangs = answer, fails, hangs
        self.hung_up, self.waiting = threading.Event(), threading.Event()
        self.reader: asyncio.Task[None] | None = None
        self.reading = True
        super().__init__(timeout)

    async def connect(self) -> None:
        if self.fails is not None:
            raise self.fails
        if self.hangs:
            await asyncio.Event().wait()
        self.thread = threading.current_thread()
        self.reader = asyncio.create_task(self.read())

    async def read(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.reading = False

    async def ask(self, request: Request) -> Outcome:
        return await self.answer(self)

    async def hang_up(self) -> None:
        self.hung_up.set()


async def reads(_: Library) -> Outcome:
    await asyncio.sleep(0)
    return done(b"1")


async def breaks(_: Library) -> Outcome:
    raise ConnectionResetError("gone")


async def waits(client: Library) -> Outcome:
    client.waiting.set()
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(("answer", "outcome"), [(reads, done(b"1")), (breaks, Unknown("ConnectionResetError: gone"))])
def test_what_ask_returns_or_raises_is_the_outcome(tmp_path: Path, answer: Any, outcome: Outcome) -> None:
    history, told = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts()), list[Outcome]()
    line = SocketLine(SystemClient({1: lambda: Library(answer)}, 1, 1, 20.0), history)
    line.submit(Get("/a"), told.append)
    line.wait(lambda: bool(told), 20.0)
    line.close()
    assert told == [outcome]


def test_a_client_is_closed_while_it_waits_and_leaves_nothing_running(recwarn: pytest.WarningsRecorder) -> None:
    client, answers = Library(waits), SimpleQueue[Any]()
    client.submit(Get("/a"), answers.put)
    assert client.waiting.wait(20)
    assert client.reading
    client.close()
    client.thread.join(20)
    assert not client.thread.is_alive()
    assert client.hung_up.is_set()
    assert not client.reading
    assert answers.empty()
    assert [str(one.message) for one in recwarn] == []


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (ConnectionRefusedError("no"), "no"),
        (ValueError("no servers"), f"ValueError: no servers (raised in {Path(__file__).name}"),
    ],
    ids=["oserror", "of-the-library"],
)
def test_a_client_that_can_not_connect(tmp_path: Path, fails: Exception, words: str) -> None:
    history, told = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts()), list[Outcome]()
    line = SocketLine(SystemClient({1: lambda: Library(reads, fails)}, 1, 1, 20.0), history)
    line.submit(Get("/a"), told.append)
    line.wait(lambda: bool(told), 20.0)
    line.close()
    (outcome,) = told
    assert isinstance(outcome, Failed)
    assert outcome.error == "no leader"
    assert words in outcome.words


def test_a_client_that_does_not_connect_in_time() -> None:
    with pytest.raises(TimeoutError):
        Library(reads, hangs=True, timeout=0.05)
