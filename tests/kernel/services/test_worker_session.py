"""The conversation of kernel and worker, over memory streams and a virtual clock."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest
import trio
import trio.testing

from kernel.services.completion import AttemptOutcome, of_result
from kernel.services.worker_link import HandedSession, PausableDeadline, WorkerLink
from kernel.services.worker_session import (
    DUMP_SECONDS,
    EVERY_SECONDS,
    LOG_LINES,
    NOISE_LIMIT,
    NOISE_LINES,
    PACE_FRAMES,
    PACE_SECONDS,
    WITHIN_SECONDS,
    WorkerSession,
)
from protocol.agent import Timeouts
from protocol.ipc import (
    PROTOCOL,
    Delta,
    Entry,
    Error,
    Go,
    KernelFrame,
    Limits,
    Log,
    McpAddress,
    Ping,
    Pong,
    Progress,
    Ready,
    Result,
    Start,
    WorkerFrame,
)  # fmt: skip
from protocol.ndjson import FrameReader, encode
from tests.shorthand import present

START = Start(
    instruction="i1", attempt="i1-1", epoch=1, agent="alice", space="dm:alice", backend="mock", model="", provider=None,
    system="", messages=(), message="hi", entries=(), limits=Limits(), mcp=McpAddress(url=""), token="t", cwd="/",
    env={}, idempotency_key="i1",
)  # fmt: skip


@dataclass
class Streams:
    """A handle's stdio, with the worker's ends in the test's hands."""

    stdin: trio.abc.SendStream
    stdout: trio.abc.ReceiveStream
    signals: list[int] = field(default_factory=list)

    async def signal(self, number: int) -> None:
        self.signals.append(number)


@dataclass
class Conversation:
    """A session under test, and what its handlers (it is them) heard."""

    timeouts: Timeouts = Timeouts()
    entries: list[int] = field(default_factory=list)
    heard: list[object] = field(default_factory=list)
    pings: int = 0
    """Those that ``answer_pings`` got."""
    commit: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    deadline: PausableDeadline = field(default_factory=PausableDeadline)

    def __post_init__(self) -> None:
        to_worker, self.worker_in = trio.testing.memory_stream_one_way_pair()
        self.worker_out, from_worker = trio.testing.memory_stream_one_way_pair()
        self.handle = Streams(to_worker, from_worker)

    async def say(self, *frames: WorkerFrame) -> None:
        for frame in frames:
            await self.worker_out.send_all(encode(frame))

    async def answer_pings(
        self, shift: int = 0, before: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    ) -> None:
        """Be a worker whose loop turns: each ping is answered after ``before``, by a number ``shift`` too high."""
        frames: FrameReader[KernelFrame] = FrameReader(KernelFrame)
        async for chunk in self.worker_in:
            for frame in frames.feed(bytes(chunk)):
                if isinstance(frame, Ping):
                    self.pings += 1
                    await before()
                    await self.say(Pong(n=frame.n + shift))

    async def chatter(self, autojump_clock: trio.testing.MockClock) -> None:
        """Be a worker that says every ten seconds that it thinks."""
        await self.say(READY)
        while True:
            await trio.sleep(10)
            await self.say(Progress(what="thinking"))

    async def run_beside(self, *others: Callable[[], Awaitable[None]]) -> AttemptOutcome | None:
        """Run the kernel's side to its end, while ``others`` play the worker."""
        async with trio.open_nursery() as nursery:
            for other in others:
                nursery.start_soon(other)
            ending = await self.run()
            nursery.cancel_scope.cancel()
        return ending

    async def hear(self, *frames: WorkerFrame) -> AttemptOutcome:
        """Say ``frames``, and run the kernel's side to the ending that they are."""
        await self.say(*frames)
        return present(await self.run())

    async def run(self) -> AttemptOutcome | None:
        link = WorkerLink(self.handle)  # type: ignore[arg-type]
        return await WorkerSession(
            link=link, start=START, timeouts=self.timeouts, handlers=self, deadline=self.deadline
        ).run()

    async def on_ready(self, ready: Ready, /) -> None:
        self.heard.append(ready.pid)

    async def on_entry(self, entry: Entry, /) -> Go:
        self.entries.append(entry.k)
        await self.commit()
        return Go(k=entry.k)

    async def on_at_work(self) -> None:
        """Nobody is to be told."""

    async def on_result(self, result: Result, last: Entry | None = None, /) -> AttemptOutcome:
        """Commit what came with it, and take it at its word."""
        if last is not None:
            await self.on_entry(last)
        return of_result(result)

    async def on_log(self, log: Log, /) -> None:
        self.heard.append(log.text)

    def on_live(self, frame: Delta | Progress, /) -> None:
        self.heard.append(frame)

    def on_pause(self) -> None:
        """Nothing was gathered."""


READY = Ready(pid=7, version="1")


@pytest.mark.promise("P5")
async def test_every_entry_is_heard_before_it_is_answered() -> None:
    session = Conversation()
    await session.say(
        READY, Entry(k=0, kind="reply", text="a"), Entry(k=1, kind="tool"), Result(status="done", text="a")
    )
    ending = await session.run()
    assert ending == AttemptOutcome("done", "a", leaves=True)
    assert session.entries == [0, 1]
    said = bytes(await session.worker_in.receive_some(10_000))
    assert said == encode(START) + encode(Go(k=0)) + encode(Go(k=1))


@pytest.mark.promise("P5")
async def test_the_last_entry_is_heard_before_the_end_and_not_answered() -> None:
    session = Conversation()
    await session.say(READY, Entry(k=0, kind="reply", text="a", last=True), Result(status="done", text="a"))
    ending = await session.run()
    assert ending == AttemptOutcome("done", "a", leaves=True)
    assert session.entries == [0]
    assert bytes(await session.worker_in.receive_some(10_000)) == encode(START)


@pytest.mark.promise("IF09")
async def test_the_first_terminal_frame_wins() -> None:
    session = Conversation()
    assert (
        await session.hear(READY, Result(status="done", text="first"), Error(cause="crash", text="second"))
    ).text == "first"


@pytest.mark.promise("IF04")
async def test_output_that_ends_in_half_a_frame_is_no_result() -> None:
    session = Conversation()
    await session.say(READY)
    await session.worker_out.send_all(b'{"t":"result","status":"do')
    await session.worker_out.aclose()
    assert await session.run() is None
    assert "ended within a line" in str(session.heard[-1])


@pytest.mark.promise("IF17")
@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b'{"t":"entry","k":0,"kind":"reply","usage":{"input_tokens":-1000000}}', "entry"),
        (b'{"t":"entry","k":0,"kind":"reply","usage":{"cost_usd":NaN}}', "entry"),
        (b'{"t":"entry","k":0,"k":0,"kind":"reply"}', "entry"),
        (b'{"t":"result","status":"ready"}', "result"),
        (b'{"t":"error","cause":"mood","text":"x"}', "error"),
        (b'{"t":"ready","pid":"seven","version":"1"}', "ready"),
    ],
)
async def test_a_frame_that_counts_and_cannot_be_ends_the_attempt(line: bytes, wrong: str) -> None:
    session = Conversation()
    await session.say(READY)
    await session.worker_out.send_all(line + b"\n")
    ending = await session.hear(Result(status="done", text="all done"))
    assert (ending.ended_as, ending.cause) == ("failed", "protocol")
    assert ending.text.startswith(f"worker sent an invalid frame of kind {wrong}: ")
    assert session.entries == []


async def test_a_last_frame_counts_though_nothing_ends_its_line() -> None:
    session = Conversation()
    await session.say(READY)
    await session.worker_out.send_all(encode(Result(status="done", text="a")).rstrip())
    await session.worker_out.aclose()
    assert await session.run() == AttemptOutcome("done", "a", leaves=True)


@pytest.mark.promise("IF14")
async def test_noise_is_logged_with_a_limit_and_ends_nothing() -> None:
    session = Conversation()
    await session.worker_out.send_all(b"npm notice\n" * 1000)
    assert (await session.hear(READY, Result(status="done"))).ended_as == "done"
    assert len(session.heard) == 21


@pytest.mark.promise("IF14")
async def test_who_prints_no_frames_without_end_is_ended_for_that() -> None:
    session = Conversation()
    await session.worker_out.send_all(b"y\n" * 100_000)
    ending = await session.run()
    assert ending is not None and (ending.ended_as, ending.cause) == ("failed", "protocol")
    assert "not frames" in ending.text
    assert len(session.heard) == NOISE_LINES


@pytest.mark.promise("IF14")
async def test_noise_between_frames_may_add_up(autojump_clock: trio.testing.MockClock) -> None:
    session = Conversation()
    await session.say(READY)
    for _ in range(5):
        await session.worker_out.send_all(b"compiling\n" * NOISE_LIMIT)
        await session.say(Progress(what="x"))
    assert (await session.hear(Result(status="done"))).ended_as == "done"


@pytest.mark.promise("IF15")
@pytest.mark.parametrize("said", [encode(Pong(n=9)), encode(Log(level="info", text="x"))])
async def test_others_get_their_turn_while_a_worker_floods(said: bytes, autojump_clock: trio.testing.MockClock) -> None:
    session = Conversation(timeouts=Timeouts(startup=0.9))
    await session.worker_out.send_all(said * PACE_FRAMES * 5)
    turns: list[float] = []

    async def others() -> None:
        while True:
            await trio.sleep(PACE_SECONDS)
            turns.append(trio.current_time())

    assert present(await session.run_beside(others)).cause == "startup_timeout"
    assert trio.current_time() == pytest.approx(0.9)
    assert len(turns) >= 5


@pytest.mark.promise("IF15")
async def test_a_flood_of_log_lines_is_cut_and_the_work_goes_on() -> None:
    session = Conversation()
    await session.say(READY, *(Log(level="info", text=str(n)) for n in range(5000)), Result(status="done"))
    assert present(await session.run()).ended_as == "done"
    assert len(session.heard) == 1 + LOG_LINES
    assert "dropped" in str(session.heard[-1])


@pytest.mark.promise("IF15")
async def test_a_flood_of_words_is_read_no_faster_than_anybody_could(autojump_clock: trio.testing.MockClock) -> None:
    """Back pressure on the pipe, so that the kernel has time for the others; it is no silence either."""
    session = Conversation()
    flood = PACE_FRAMES * 10

    async def worker() -> None:
        await session.say(READY, *(Delta(text="x") for _ in range(flood)), Result(status="done", text="a"))

    began = trio.current_time()
    assert await session.run_beside(worker) == AttemptOutcome("done", "a", leaves=True)
    assert trio.current_time() - began == pytest.approx(10 * PACE_SECONDS, rel=0.2)
    assert sum(isinstance(one, Delta) for one in session.heard) == flood


async def test_silence_before_ready_is_a_startup_timeout(autojump_clock: trio.testing.MockClock) -> None:
    """No first frame in 120 s."""
    session = Conversation()
    assert present(await session.run()).cause == "startup_timeout"
    assert trio.current_time() == Timeouts().startup


@pytest.mark.promise("IF12")
@pytest.mark.parametrize("tool", [False, True])
async def test_heartbeats_without_progress_are_an_idle_timeout(
    autojump_clock: trio.testing.MockClock, tool: bool
) -> None:
    session = Conversation()
    await session.say(READY, Progress(what="x", tool=tool))
    assert present(await session.run_beside(session.answer_pings)).cause == "idle_timeout"
    assert trio.current_time() == (Timeouts().tool if tool else Timeouts().idle)


async def test_who_waits_for_a_person_is_not_called_silent(autojump_clock: trio.testing.MockClock) -> None:
    session = Conversation(timeouts=Timeouts(total=1e6))
    waits = 2 * Timeouts().tool + 7.0

    async def wait_for_a_person() -> None:
        with session.deadline.hold():
            await trio.sleep(waits)

    await session.say(READY, Progress(what="x", tool=True))
    ending = present(await session.run_beside(session.answer_pings, wait_for_a_person))
    assert (ending.cause, ending.text[-18:]) == ("idle_timeout", "; last activity: x")
    assert trio.current_time() == pytest.approx(waits + Timeouts().tool)


async def test_a_session_knows_its_age_and_its_silence(autojump_clock: trio.testing.MockClock) -> None:
    """A wait for a person is no silence. The next kernel process continues age and step."""
    session = Conversation(timeouts=Timeouts(quiet=60.0))
    link = WorkerLink(session.handle)  # type: ignore[arg-type]
    kernel = WorkerSession(
        link=link, start=START, timeouts=session.timeouts, handlers=session, deadline=session.deadline,
        resumed=HandedSession(age_seconds=100.0, step_seconds=50.0),
    )  # fmt: skip
    seen: list[tuple[float, float, float, bool]] = []

    async def look(seconds: float) -> None:
        await trio.sleep(seconds)
        seen.append(msgspec.structs.astuple(kernel.elapsed()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.answer_pings)
        nursery.start_soon(kernel.run)
        await look(1)
        await session.say(READY, Entry(k=0, kind="reply", text="a"))
        await look(59)
        await look(1)
        await session.say(Progress(what="x", tool=True))
        await look(30)
        with session.deadline.hold():
            await look(100)
        await look(5)
        nursery.cancel_scope.cancel()
    assert seen == [
        (101, 51, 1, False), (160, 59, 59, False), (161, 60, 60, True), (191, 90, 30, False), (291, 190, 0, False),
        (296, 195, 5, False),
    ]  # fmt: skip


async def test_the_total_deadline_stands_still_while_a_person_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = Conversation(timeouts=Timeouts(total=50.0, idle=20.0))

    async def wait(begin: float, end: float) -> None:
        await trio.sleep_until(begin)
        with session.deadline.hold():
            await trio.sleep_until(end)

    waits = (partial(wait, 10, 7210), partial(wait, 7000, 8000), partial(wait, 8020, 8120))
    ending = await session.run_beside(session.answer_pings, partial(session.chatter, autojump_clock), *waits)
    assert ending is not None and ending.cause == "total_timeout"
    assert trio.current_time() == pytest.approx(50 + (8000 - 10) + (8120 - 8020))


async def test_a_wait_that_began_before_the_deadline_was_set_does_not_count_either(
    autojump_clock: trio.testing.MockClock,
) -> None:
    deadline = PausableDeadline()

    async def wait() -> None:
        with deadline.hold():
            await trio.sleep(7200)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        with deadline.move_on_after(50) as patience:
            await trio.Event().wait()
    assert patience.cancelled_caught
    assert trio.current_time() == pytest.approx(7250)


@pytest.mark.promise("IF12")
async def test_a_flood_of_log_lines_is_no_progress(autojump_clock: trio.testing.MockClock) -> None:
    """Only text, entries and word of what is being done are."""
    session = Conversation()

    async def chatter() -> None:
        await session.say(READY)
        while True:
            await trio.sleep(1)
            await session.say(Log(level="info", text="still here"))

    assert present(await session.run_beside(chatter)).cause == "idle_timeout"
    assert trio.current_time() == Timeouts().idle


@pytest.mark.promise("IF13")
@pytest.mark.parametrize("shift", [None, -1, 1])
async def test_a_worker_that_does_not_answer_is_asked_for_a_dump_and_given_up(
    autojump_clock: trio.testing.MockClock, shift: int | None
) -> None:
    """Dead after 30 s; an answer to another ping is none."""
    session = Conversation()
    await session.say(READY)
    ending = await session.run_beside(*([] if shift is None else [lambda: session.answer_pings(shift)]))
    assert ending is not None and (ending.ended_as, ending.cause) == ("failed", "unresponsive")
    assert session.handle.signals == [signal.SIGUSR1]
    assert trio.current_time() == EVERY_SECONDS + WITHIN_SECONDS + DUMP_SECONDS


@pytest.mark.promise("IF16")
async def test_a_result_after_the_verdict_is_ignored(autojump_clock: trio.testing.MockClock) -> None:
    session = Conversation()

    async def wakes_up() -> None:
        await session.say(READY)
        await trio.sleep(EVERY_SECONDS + WITHIN_SECONDS + DUMP_SECONDS / 2)
        await session.say(Result(status="done", text="sorry"))

    assert present(await session.run_beside(wakes_up)).cause == "unresponsive"


async def test_a_worker_that_answers_late_but_in_time_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    session = Conversation()

    async def ends() -> None:
        await session.say(READY)
        await trio.sleep(440)
        await session.say(Result(status="done"))

    async def take_time() -> None:
        await trio.sleep(WITHIN_SECONDS - 1)

    assert present(await session.run_beside(partial(session.answer_pings, before=take_time), ends)).ended_as == "done"
    assert session.pings == 5  # after 5, 60, 60 ... s of silence, each answered 29 s later


async def test_who_is_kept_waiting_for_a_person_is_not_asked_whether_it_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = Conversation()
    asked: list[int] = []

    async def hold() -> None:
        await session.say(READY)
        with session.deadline.hold():
            await trio.sleep(3600)
        asked.append(session.pings)

    assert present(await session.run_beside(hold, session.answer_pings)).cause == "idle_timeout"
    assert asked == [0] and session.pings > 0


@pytest.mark.promise("SF03")
async def test_a_commit_that_takes_long_is_nobodys_silence(autojump_clock: trio.testing.MockClock) -> None:
    async def slow() -> None:
        await trio.sleep(5000.0)

    session = Conversation(commit=slow)
    await session.say(READY, Progress(what="x"), Entry(k=0, kind="reply", text="a"))

    async def goes_on() -> None:
        await trio.sleep(5000.0 + EVERY_SECONDS - 1)
        await session.say(Result(status="done"))

    assert present(await session.run_beside(goes_on)).ended_as == "done"
    assert session.handle.signals == []


@pytest.mark.promise("TF03")
async def test_a_kernel_that_was_stopped_itself_gives_its_worker_its_time_again_once(
    mock_clock: trio.testing.MockClock,
) -> None:
    session = Conversation()
    await session.say(READY)
    endings: list[AttemptOutcome | None] = []

    async def run() -> None:
        endings.append(await session.run())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        for seconds in (3000.0, WITHIN_SECONDS - 1, 2.0, WITHIN_SECONDS - 1):
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
            assert (endings, session.handle.signals) == ([], [])
        mock_clock.jump(100.0)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(DUMP_SECONDS)
    assert endings[0] is not None and endings[0].cause == "unresponsive"


async def test_a_worker_that_talks_for_ever_ends_at_the_total_deadline(autojump_clock: trio.testing.MockClock) -> None:
    session = Conversation(timeouts=Timeouts(total=50.0, idle=20.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.chatter, autojump_clock)
        ending = await session.run()
        nursery.cancel_scope.cancel()
    assert ending is not None and (ending.ended_as, ending.cause) == ("incomplete", "total_timeout")


@pytest.mark.promise("IF07")
async def test_a_worker_of_a_later_minor_protocol_is_understood() -> None:
    session = Conversation()
    await session.say(Ready(pid=1, version="9", protocol=(PROTOCOL[0], PROTOCOL[1] + 1)))
    await session.worker_out.send_all(b'{"t":"from-the-future"}\n')
    assert (await session.hear(Result(status="done"))).ended_as == "done"


@pytest.mark.promise("IF07")
async def test_a_worker_of_another_major_protocol_is_refused_before_it_is_told_anything() -> None:
    session = Conversation()
    assert (await session.hear(Ready(pid=1, version="9", protocol=(9, 0)))).cause == "spawn_permanent"
    assert session.heard == []
