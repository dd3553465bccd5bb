"""The conversation of kernel and worker, over memory streams and a virtual clock."""

from dataclasses import dataclass, field

import trio
import trio.testing

from kernel.services.dialogue import LOG_LINES, Dialogue, Ears
from kernel.services.link import Link
from kernel.services.outcome import Ending
from protocol.agent import Timeouts
from protocol.codec import encode
from protocol.ipc import (
    Delta,
    Entry,
    Error,
    Go,
    Limits,
    Log,
    McpAddress,
    Progress,
    Ready,
    Result,
    Start,
    WorkerFrame,
)  # fmt: skip

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


@dataclass
class Scene:
    """A dialogue under test, and what its ears heard."""

    timeouts: Timeouts = Timeouts()
    entries: list[int] = field(default_factory=list)
    heard: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.to_worker, self.worker_in = trio.testing.memory_stream_one_way_pair()
        self.worker_out, self.from_worker = trio.testing.memory_stream_one_way_pair()

    async def say(self, *frames: WorkerFrame) -> None:
        """Write frames as the worker."""
        for frame in frames:
            await self.worker_out.send_all(encode(frame))

    async def run(self) -> Ending | None:
        """Run the kernel's side to its end."""

        async def entry(frame: Entry) -> Go:
            self.entries.append(frame.k)
            return Go(k=frame.k)

        async def log(frame: Log) -> None:
            self.heard.append(frame.text)

        async def ready(frame: Ready) -> None:
            self.heard.append(frame.pid)

        def live(frame: Delta | Progress) -> None:
            self.heard.append(frame)

        link = Link(Streams(self.to_worker, self.from_worker))  # type: ignore[arg-type]
        return await Dialogue(
            link=link, start=START, timeouts=self.timeouts, ears=Ears(entry=entry, log=log, live=live, ready=ready)
        ).run()


READY = Ready(pid=7, version="1")


async def test_every_entry_is_heard_before_it_is_answered() -> None:
    """Promise P5: the answer follows the commit."""
    scene = Scene()
    await scene.say(READY, Entry(k=0, kind="reply", text="a"), Entry(k=1, kind="tool"), Result(status="done", text="a"))
    ending = await scene.run()
    assert ending == Ending("done", "a")
    assert scene.entries == [0, 1]
    said = bytes(await scene.worker_in.receive_some(10_000))
    assert said == encode(START) + encode(Go(k=0)) + encode(Go(k=1))


async def test_the_last_entry_is_heard_before_the_end_and_not_answered() -> None:
    """Promise P5: durable before the result counts; who sent it has left."""
    scene = Scene()
    await scene.say(READY, Entry(k=0, kind="reply", text="a", last=True), Result(status="done", text="a"))
    ending = await scene.run()
    assert ending == Ending("done", "a")
    assert scene.entries == [0]
    assert bytes(await scene.worker_in.receive_some(10_000)) == encode(START)


async def test_the_first_terminal_frame_wins() -> None:
    """Fault IF09."""
    scene = Scene()
    await scene.say(READY, Result(status="done", text="first"), Error(cause="crash", text="second"))
    ending = await scene.run()
    assert ending is not None and ending.text == "first"


async def test_output_that_ends_in_half_a_frame_is_no_result() -> None:
    """Fault IF04: the fragment is logged, the exit decides."""
    scene = Scene()
    await scene.say(READY)
    await scene.worker_out.send_all(b'{"t":"result","status":"do')
    await scene.worker_out.aclose()
    assert await scene.run() is None
    assert "ended in the middle" in str(scene.heard[-1])


async def test_noise_is_logged_with_a_limit_and_ends_nothing() -> None:
    """Fault IF14: banner lines before the frames."""
    scene = Scene()
    await scene.worker_out.send_all(b"npm notice\n" * 1000)
    await scene.say(READY, Result(status="done"))
    ending = await scene.run()
    assert ending is not None and ending.ended_as == "done"
    assert len(scene.heard) == 21


async def test_a_flood_of_log_lines_is_cut_and_the_work_goes_on() -> None:
    """Fault IF15: each line is a commit, so their number is bounded."""
    scene = Scene()
    await scene.say(READY, *(Log(level="info", text=str(n)) for n in range(5000)), Result(status="done"))
    ending = await scene.run()
    assert ending is not None and ending.ended_as == "done"
    assert len(scene.heard) == 1 + LOG_LINES
    assert "dropped" in str(scene.heard[-1])


async def test_silence_before_ready_is_a_startup_timeout(autojump_clock: trio.testing.MockClock) -> None:
    """promises.md 4.3: no first frame in 120 s."""
    scene = Scene()
    ending = await scene.run()
    assert ending is not None and ending.cause == "startup_timeout"
    assert trio.current_time() == Timeouts().startup


async def test_silence_after_ready_is_an_idle_timeout(autojump_clock: trio.testing.MockClock) -> None:
    """promises.md 4.3: no progress in 600 s."""
    scene = Scene()
    await scene.say(READY)
    ending = await scene.run()
    assert ending is not None and ending.cause == "idle_timeout"


async def test_a_worker_that_talks_for_ever_ends_at_the_total_deadline(autojump_clock: trio.testing.MockClock) -> None:
    """promises.md 4.3: total_timeout is incomplete, not failed."""
    scene = Scene(timeouts=Timeouts(total=50.0, idle=20.0))

    async def chatter() -> None:
        await scene.say(READY)
        while True:
            await trio.sleep(10)
            await scene.say(Progress(what="thinking"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(chatter)
        ending = await scene.run()
        nursery.cancel_scope.cancel()
    assert ending is not None and (ending.ended_as, ending.cause) == ("incomplete", "total_timeout")


async def test_a_worker_of_another_major_protocol_is_refused_before_it_is_told_anything() -> None:
    """Fault IF07."""
    scene = Scene()
    await scene.say(Ready(pid=1, version="9", protocol=(9, 0)))
    ending = await scene.run()
    assert ending is not None and ending.cause == "spawn_permanent"
    assert scene.heard == []
