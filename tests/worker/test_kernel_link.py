"""The worker's end of the pipe: what it answers, what ends it, what it never says."""

import os
import subprocess
import sys

import msgspec
import pytest
import trio

from protocol.discovery import VERSION
from protocol.ipc import PROTOCOL, Entry, Error, Go, Log, Ping, Pong, Result, Stop, Yield
from protocol.ndjson import LINE_LIMIT_BYTES, encode
from tests.worker.fake_kernel import SECONDS, attempt, attempt_process, make_start, script, worker

SLEEPER = make_start(mock=script({"sleep": 3600}))


async def test_a_worker_is_ready_before_it_is_started() -> None:
    """contracts 6: ready{pid, backend, version, protocol} comes first."""
    async with worker() as kernel:
        ready = await kernel.greet(make_start())
        await kernel.serve()
    assert (ready.pid, ready.version, ready.protocol) == (os.getpid(), VERSION, PROTOCOL)


async def test_pings_are_answered_before_start_and_while_working() -> None:
    async with worker() as kernel:
        await kernel.hear()
        await kernel.tell(Ping(n=1))
        assert await kernel.hear() == Pong(n=1)
        await kernel.tell(SLEEPER)
        await kernel.hear()
        await kernel.tell(Ping(n=2))
        assert await kernel.hear() == Pong(n=2)
        await kernel.tell(Stop(reason="enough"))
        await kernel.serve()


@pytest.mark.promise("P8")
@pytest.mark.parametrize("started", [False, True])
async def test_a_stop_is_a_clean_end(started: bool) -> None:
    async with worker() as kernel:
        await kernel.hear()
        if started:
            await kernel.tell(SLEEPER)
            await kernel.hear()
        await kernel.tell(Stop(reason="shutdown"))
        ended = await kernel.serve()
        assert await kernel.hear() is None
    assert isinstance(ended, Error)
    assert (ended.cause, ended.text) == ("cancelled", "stopped: shutdown")


async def test_an_entry_answered_with_stop_is_the_last() -> None:
    """contracts 6: go, yield or stop answers an entry."""
    two = make_start(mock=script({"text": "one"}, {"text": "two"}))
    made = await attempt(two, answer=lambda entry: Stop(reason="cancelled", k=entry.k))
    assert [entry.text for entry in made.entries] == ["one"]
    assert made.error.cause == "cancelled"


@pytest.mark.promise("P5")
async def test_nothing_happens_before_the_answer() -> None:
    async with worker(answer=lambda entry: None) as kernel:
        await kernel.greet(make_start(mock=script({"text": "one"}, {"text": "two"})))
        while not isinstance(await kernel.hear(), Entry):
            pass
        for wrong in (Go(k=7), Yield(k=1), Ping(n=1)):
            await kernel.tell(wrong)
        assert await kernel.hear() == Pong(n=1), "answers to other entries were no answer"
        await kernel.tell(Yield(k=0))
        assert await kernel.serve() == Result(status="yielded")


@pytest.mark.promise("P5")
async def test_a_yield_after_the_last_entry_is_a_done() -> None:
    """Work that is complete is not queued again only to say so."""
    made = await attempt(make_start(mock=script({"text": "one"})), answer=lambda entry: Yield(k=entry.k))
    assert made.result == Result(status="done", text="one")


@pytest.mark.promise("IF07", "IF14")
async def test_a_second_start_and_strange_frames_change_nothing() -> None:
    async with worker() as kernel:
        await kernel.hear()
        await kernel.send.send_all(b'{"t":"wave","n":1}\n\xff\xfe banner\r\n\n[[[[\n')
        starts = [make_start(mock=script({"text": text})) for text in ("first", "second")]
        await kernel.send.send_all(b"".join(map(encode, starts)))
        ended = await kernel.serve()
    assert ended == Result(status="done", text="first")
    assert sum(isinstance(frame, Log) for frame in kernel.frames) == 3


async def test_a_start_of_many_chunks_is_read() -> None:
    """A pipe holds 64 KiB; a start frame may be close to a whole line."""
    text = "x" * (LINE_LIMIT_BYTES - 10_000)
    with trio.fail_after(SECONDS):
        made = await attempt(make_start(message=text, mock=script({"text": "got it"})))
    assert made.result.text == "got it"


async def test_a_huge_reply_fits_its_frames() -> None:
    """contracts 6: at most 1 MiB a line; what is cut says so."""
    text = "\0" * 100_000
    made = await attempt(make_start(message="go", source_text=text, mock=script({"text": "${{ message.text }}" * 2})))
    shown = "".join(getattr(frame, "text", "") for frame in made.frames if type(frame).__name__ == "Delta")
    assert shown == text * 2
    assert "characters left out" in made.entries[0].text
    assert "characters left out" in made.result.text


@pytest.mark.promise("P10")
async def test_a_reply_that_fits_no_frame_is_a_failure_with_a_name() -> None:
    twice = {"tool": "channel_send", "args": {"message": "${{ message.text }}" * 2}}
    made = await attempt(make_start(message="go", source_text="x" * 600_000, mock=script({"text": "so far"}, twice)))
    assert (made.error.cause, made.error.partial) == ("resource", "so far")
    assert [entry.text for entry in made.entries] == ["so far"]


async def test_entries_that_do_not_fit_into_start_follow_it() -> None:
    """contracts 6: at most 1 MiB a line; a long task resumes all the same."""
    done = [Entry(k=k, kind="reply", text="x" * 500_000, stop_reason="pause_turn") for k in range(4)]
    start = make_start(mock=script(*({"text": f"{k}"} for k in range(6))), entries=(done[0],), entries_follow=3)
    async with worker() as kernel:
        await kernel.greet(start)
        for entry in done[1:]:
            await kernel.send.send_all(encode(entry))
        ended = await kernel.serve()
    assert [entry.k for entry in kernel.entries] == [4, 5]
    assert ended == Result(status="done", text="5")


@pytest.mark.promise("P7")
@pytest.mark.parametrize("moment", ["before start", "while working", "instead of an answer"])
async def test_a_kernel_that_hangs_up_is_left_quietly(moment: str) -> None:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-I", "-u", "-m", "worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": os.defpath},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with trio.fail_after(30):
        async with process.stdin, process.stdout, process.stderr:
            await process.stdout.receive_some()
            if moment != "before start":
                actions = ({"sleep": 3600},) if moment == "while working" else ({"text": "x"}, {"text": "y"})
                await process.stdin.send_all(encode(make_start(mock=script(*actions))))
                await process.stdout.receive_some()
            await process.stdin.aclose()
            await process.stdout.aclose()
            errors = b"".join([chunk async for chunk in process.stderr])
            assert await process.wait() == 1
    assert errors == b""


@pytest.mark.promise("P5")
async def test_the_reply_that_ends_the_work_waits_for_no_answer() -> None:
    ended = await attempt(make_start(mock=script({"text": "x"})), answer=lambda _entry: None)
    assert [entry.last for entry in ended.entries] == [True]
    assert ended.result == Result(status="done", text="x")


async def test_a_whole_attempt_in_a_process_of_its_own() -> None:
    """The same bytes over real stdio, as the exec launcher starts it; exit 0 after the terminal frame."""
    made = await attempt_process(make_start(mock=script({"shell": "echo on stdout"}, {"text": "done"})))
    assert made.result == Result(status="done", text="done")
    assert made.entries[1].text == "on stdout\n"
    assert made.exit_code == 0


@pytest.mark.promise("PF02")
async def test_a_bug_of_ours_is_a_crash_the_kernel_can_name(capfd: pytest.CaptureFixture[str]) -> None:
    """Never a silent end; the traceback goes to stderr, the words to the kernel."""
    mcp = msgspec.structs.replace(make_start().mcp, url="gopher://x")
    made = await attempt(make_start(mcp=mcp, mock=script({"tool": "todo_read", "args": {}})))
    assert made.error.cause == "crash"
    assert "gopher" in made.error.text
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Traceback" in captured.err
