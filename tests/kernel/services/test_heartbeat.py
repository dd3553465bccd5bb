"""The heartbeat, as a clock that is handed its times."""

import os
import signal
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import stop
from kernel.procs.spec import Spec
from kernel.services import worker_session
from kernel.services.completion import AttemptOutcome, of_result
from kernel.services.worker_link import WorkerLink, WorkerStderr
from kernel.services.worker_session import EVERY_SECONDS, SELDOM_SECONDS, Heartbeat, WorkerSession
from protocol.agent import Action, Rule, Timeouts
from protocol.ipc import Delta, Entry, Go, Log, McpAddress, Progress, Ready, Result
from tests.kernel.procs.conftest import make
from tests.kernel.procs.trees import ENV, gone
from tests.kernel.services.test_worker_session import START as START_FRAME
from tests.shorthand import present

START = 100.0


def begun() -> Heartbeat:
    """A worker that was greeted at START."""
    heartbeat = Heartbeat()
    heartbeat.begin(START)
    return heartbeat


def test_nothing_is_due_before_the_worker_speaks() -> None:
    heartbeat = Heartbeat()
    heartbeat.heard(START)
    assert heartbeat.due_at == float("inf")


@pytest.mark.promise("IF13")
def test_an_answer_to_another_ping_is_passed_over() -> None:
    heartbeat = begun()
    heartbeat.pong(0, START + 1)
    assert heartbeat.due_at == START + EVERY_SECONDS
    for _ in range(3):
        asked = present(heartbeat.ask(heartbeat.due_at))
        due = heartbeat.due_at
        for n in (asked.n - 1, asked.n + 1, -1, 10**9):
            heartbeat.pong(n, due - 1)
        assert heartbeat.due_at == due
        heartbeat.pong(asked.n, due - 1)
        assert heartbeat.due_at == due - 1 + SELDOM_SECONDS
        heartbeat.pong(asked.n, due)
        assert heartbeat.due_at == due - 1 + SELDOM_SECONDS


def test_who_only_says_that_it_lives_is_asked_once_a_minute_until_it_says_something() -> None:
    """After 5 s of silence, then after 60."""
    heartbeat, pauses, now = begun(), list[float](), START
    for _ in range(4):
        pauses.append(heartbeat.due_at - now)
        now = heartbeat.due_at
        heartbeat.pong(present(heartbeat.ask(now)).n, now)
    assert pauses == [5, 60, 60, 60]
    heartbeat.heard(now)
    assert heartbeat.due_at == now + EVERY_SECONDS


@given(st.floats(0, 1e6), st.booleans())
def test_time_that_is_forgiven_counts_for_nothing(seconds: float, asked: bool) -> None:
    heartbeat = begun()
    if asked:
        heartbeat.ask(START + 5)
    due = heartbeat.due_at
    heartbeat.forgive(seconds)
    assert abs(heartbeat.due_at - (due + seconds)) < 1e-6


ASLEEP = (Rule(do=(Action(sleep=1000.0),)),)
SLEEPS = msgspec.structs.replace(START_FRAME, mcp=McpAddress(url="http://127.0.0.1:9/mcp"), mock=ASLEEP)


class Listener:
    """Hears a worker out, and knows when it has begun to work."""

    def __init__(self) -> None:
        self.works = trio.Event()

    async def on_entry(self, entry: Entry, /) -> Go:
        return Go(k=entry.k)

    async def on_at_work(self) -> None:
        """Nobody is to be told."""

    async def on_result(self, result: Result, last: Entry | None = None, /) -> AttemptOutcome:
        return of_result(result)

    async def on_log(self, line: Log, /) -> None:
        raise AssertionError(f"nothing to say, but {line.text}")

    async def on_ready(self, ready: Ready, /) -> None:
        pass

    def on_live(self, frame: Delta | Progress, /) -> None:
        self.works.set()

    def on_pause(self) -> None:
        """Nothing was gathered."""


class WatchedHeartbeat(Heartbeat):
    """Tells when three pings have been answered."""

    def __init__(self, every_seconds: float, within_seconds: float) -> None:
        super().__init__(every_seconds, within_seconds)
        self.answered = trio.Event()

    def pong(self, n: int, now: float) -> None:
        super().pong(n, now)
        if n == 3:
            self.answered.set()


@pytest.mark.promise("PF04", "P7")
async def test_a_worker_that_is_stopped_is_noticed_and_its_tree_is_gone(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_session, "DUMP_SECONDS", 0.1)
    monkeypatch.setattr(worker_session, "SELDOM_SECONDS", 0.05)
    launcher = ForkLauncher(run_dir=tmp_path / "run", environ=ENV)
    await nursery.start(launcher.run)
    endings: list[AttemptOutcome | None] = []
    listener, heartbeat = Listener(), WatchedHeartbeat(0.05, 0.5)
    async with await launcher.spawn(Spec(attempt="i1-1")) as handle:
        session = WorkerSession(
            link=WorkerLink(handle), start=SLEEPS, timeouts=Timeouts(), handlers=listener, heartbeat=heartbeat
        )

        async def run() -> None:
            endings.append(await session.run())

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery_of_session:
                nursery_of_session.start_soon(run)
                await listener.works.wait()
                await heartbeat.answered.wait()
                assert endings == []
                os.kill(handle.pid, signal.SIGSTOP)
            exited = await stop(handle, grace_seconds=0.0, term_seconds=1.0)
        await gone([handle.pid])
    assert endings[0] is not None and endings[0].cause == "unresponsive"
    assert exited.killed


@pytest.mark.parametrize("kind", ["fork", "exec"])
async def test_a_worker_that_is_asked_writes_where_it_stands_and_lives_on(
    tmp_path: Path, nursery: trio.Nursery, kind: str
) -> None:
    """SIGUSR1 dumps every thread to stderr, which the kernel keeps the end of."""
    launcher = make(kind, tmp_path / "run")
    await nursery.start(launcher.run)
    listener, tail = Listener(), WorkerStderr()
    async with await launcher.spawn(Spec(attempt="i1-1")) as handle:
        link = WorkerLink(handle)
        session = WorkerSession(
            link=link, start=SLEEPS, timeouts=Timeouts(), handlers=listener, heartbeat=Heartbeat(0.05, 5.0)
        )
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery_of_session:
                nursery_of_session.start_soon(tail.drain, handle.stderr)
                nursery_of_session.start_soon(session.run)
                await listener.works.wait()
                await link.ask_for_dump()
                while "most recent call first" not in tail.text:
                    await trio.testing.wait_all_tasks_blocked(0.01)
                assert handle.is_quiet()
                nursery_of_session.cancel_scope.cancel()
