"""A program as a process: it is read, and it is ended, whatever it does."""

import re
import signal
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import trio

from protocol.agent import McpServer
from protocol.ipc import Entry, Go, Json, Limits, Start, ToolCall, Turn, Yield
from tests.e2e.processes import survivors
from tests.worker.conftest import fails
from tests.worker.fake_kernel import attempt, make_start
from tests.worker.test_sandbox import Place, real
from worker.backends import backend, process
from worker.backends.backend import Launch, ToolEnded
from worker.backends.entry_recorder import ARGUMENTS_BYTES, EntryRecorder, brief, ended_between_turns
from worker.backends.process import STDERR_BYTES, UNREAD, BackendProcess, LineSplitter, launched, note_leftovers
from worker.conversation import Conversation
from worker.kernel_link import KernelLink
from worker.models.model import Failed

Run = Callable[..., AbstractAsyncContextManager[BackendProcess]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a Python program, with little patience."""
    for name, seconds in (("TERM_SECONDS", 0.3), ("DRAIN_SECONDS", 0.3), ("LEAVE_SECONDS", 0.3)):
        monkeypatch.setattr(process, name, seconds)
    start = make_start(cwd=str(tmp_path), attempt_dir=str(tmp_path), session_dir=str(tmp_path))

    @asynccontextmanager
    async def running(
        program: str, log: re.Pattern[bytes] | None = None, *, talks: bool = False
    ) -> AsyncGenerator[BackendProcess]:
        command = (sys.executable, "-ISu", "-c", textwrap.dedent(program))
        litter = (f"{tmp_path}/{{pid}}.sock",)
        launch = Launch(argv=command, env={}, stdin=b"the prompt", litter=litter, log=log, talks=talks)
        made = await launched(launch, start)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.attend)
                try:
                    yield made
                finally:
                    await made.aclose()

    return running


async def lines(made: BackendProcess) -> list[bytes]:
    said: list[bytes] = []
    while (line := await made.line()) is not None:
        assert not callable(line), "nothing is slipped in"
        said.append(line)
    return said


async def test_its_input_ends_and_its_lines_are_heard(run: Run) -> None:
    async with run("import sys; print(sys.stdin.read()); sys.stdout.write('last'); sys.exit(3)") as made:
        assert await lines(made) == [b"the prompt", b"last"]
        ended = await made.ended()
    assert (ended.code, ended.signal, ended.pushed, ended.well) == (3, None, False, False)


async def test_a_program_that_reads_is_told_more_at_once_than_may_wait(run: Run) -> None:
    async with run("import sys; print(len(sys.stdin.read()))", talks=True) as made:
        for _ in range(UNREAD * 3):
            await made.say(b"x")
        made.over()
        assert await lines(made) == [str(len("the prompt") + UNREAD * 3).encode()]


async def told_without_end(made: BackendProcess) -> None:
    while True:
        await made.say(b"x" * 64 * 1024)


async def test_a_program_that_does_not_read_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "UNREAD_SECONDS", 0.2)
    async with run("import time; time.sleep(60)", talks=True) as made:
        with pytest.raises(Failed, match="does not read its input") as failed:
            await told_without_end(made)
    assert failed.value.cause == "protocol"


async def test_the_end_of_what_it_complained_is_kept(run: Run) -> None:
    async with run("import sys; sys.stderr.write('x' * 100_000 + 'that is why')") as made:
        assert await lines(made) == []
        stderr = (await made.ended()).stderr
    assert stderr.endswith("that is why") and len(stderr) == STDERR_BYTES


async def test_of_its_log_is_read_what_is_told_and_nothing_is_its_last_word(run: Run) -> None:
    program = """
        import sys
        def say(text): sys.stderr.write(text); sys.stderr.flush()
        say("log: nothing\\nlog: told 1\\nthat is ")
        sys.stdin.close()
        print("out")
        say("why\\nlog: nothing again")
    """
    log = re.compile(rb"log: (?P<event>told)?")
    async with run(program, log) as made:
        assert sorted(await lines(made)) == [b"log: told 1", b"out"]
        assert (await made.ended()).stderr == "that is why"


async def test_one_that_pauses_is_heard_while_it_says_nothing_else(run: Run) -> None:
    program = "import sys, time; sys.stderr.write('log: told\\n'); sys.stderr.flush(); time.sleep(60)"
    async with run(program, re.compile(rb"log: (?P<event>told)?")) as made:
        assert await made.line() == b"log: told"


async def test_one_that_ignores_sigterm_is_killed_with_its_group(run: Run) -> None:
    deaf = """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = os.fork()
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(60)
    """
    async with run(deaf) as made:
        pids = [int(line) for line in (await made.line(), await made.line()) if isinstance(line, bytes)]
        await made.stop()
        assert (await made.ended()).signal == 9
    assert survivors([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], seconds=2) == []


async def boxed(folder: Path, script: str) -> tuple[Place, BackendProcess]:
    """A shell in a sandbox."""
    place = Place(folder)
    start = msgspec.structs.replace(place.start, attempt_dir=str(place.attempt), session_dir=str(place.attempt))
    return place, await launched(Launch(argv=("/bin/sh", "-c", script), env=start.env, stdin=b""), start)


TIDY = "trap 'sleep 0.2; echo tidied > tidy; exit 7' TERM; echo up; while :; do sleep 0.05; done"


@pytest.mark.promise("P8")
@real
async def test_one_in_a_sandbox_is_asked_to_leave_and_waited_for_as_any_other(tmp_path: Path) -> None:
    place, made = await boxed(tmp_path, TIDY)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.attend)
            assert await made.line() == b"up"
            await made.stop()
            assert (await made.ended()).code == 7
            await made.aclose()
    assert (place.project / "tidy").read_text() == "tidied\n"
    assert [one for one in psutil.Process().children(recursive=True) if "tidied" in " ".join(one.cmdline())] == []


@pytest.mark.promise("P7")
@real
async def test_a_sandbox_that_has_nothing_in_it_yet_is_killed(tmp_path: Path) -> None:
    place, made = await boxed(tmp_path, "sleep 60; echo ran > ran")
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.attend)
            await made.aclose()
            ended = await made.ended()
    assert (ended.signal, ended.code) in ((signal.SIGKILL, None), (None, 128 + signal.SIGTERM))
    assert not (place.project / "ran").exists()
    assert [one for one in psutil.Process().children(recursive=True) if "echo ran" in " ".join(one.cmdline())] == []


async def test_one_that_stays_after_its_last_word_is_pushed_out(run: Run) -> None:
    async with run("import time; print('result', flush=True); time.sleep(60)") as made:
        assert await made.line() == b"result"
        made.over()
        assert await made.line() is None
        ended = await made.ended()
    assert (ended.signal, ended.pushed, ended.well) == (15, True, True)


@pytest.mark.promise("PF22")
async def test_nobody_who_inherited_its_output_holds_it_open(run: Run) -> None:
    async with run("import os, time\nif os.fork() == 0: time.sleep(60)\nprint('done')") as made:
        assert await lines(made) == [b"done"]
        assert (await made.ended()).code == 0
        children = [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    for child in children:  # a keeper's to end; there is none here
        child.kill()


async def test_what_it_leaves_outside_is_removed_even_if_we_were_killed_with_it(run: Run, tmp_path: Path) -> None:
    leave = "import os, sys; open(f'{os.getpid()}.sock', 'w').close(); print('left')"
    async with run(leave) as made:
        assert await lines(made) == [b"left"]
        assert ".sock" in str(left(tmp_path))
    assert left(tmp_path) == []
    (tmp_path / "1.sock").touch()
    note_leftovers(tmp_path, 1)
    async with run("") as made:
        assert await lines(made) == []
    assert left(tmp_path) == []


@pytest.mark.promise("P15")
async def test_what_a_program_writes_there_itself_removes_nothing(run: Run, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.touch()
    for said in (str(precious), "../precious", f"1\n{precious}\n"):
        async with run(f"open('litter.txt', 'w').write({said!r}); print('left')") as made:
            assert await lines(made) == [b"left"]
    assert left(tmp_path) == ["precious"]


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.promise("PF16")
async def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    start = make_start(cwd=str(tmp_path), attempt_dir=str(tmp_path))
    with fails("spawn_permanent", "/nowhere/claude could not be started"):
        await launched(Launch(argv=("/nowhere/claude",), env={}, stdin=b""), start)


async def test_a_session_is_resumed_where_it_was_made_or_not_at_all(tmp_path: Path) -> None:
    entries = (Entry(k=0, kind="session", session="s", note="/elsewhere"),)
    ended = await attempt(make_start(backend="claude", cwd=str(tmp_path), entries=entries))
    assert ended.error.cause == "session_lost" and "/elsewhere" in ended.error.text
    option = (Entry(k=0, kind="session", session="--dangerously-bypass-approvals-and-sandbox"),)
    ended = await attempt(make_start(backend="codex", cwd=str(tmp_path), entries=option))
    assert ended.error.cause == "session_lost"


def claude_start(folder: Path, program: str, **changes: Any) -> Start:
    """For a claude that is a script."""
    path = folder / "claude"
    path.write_text(program)
    path.chmod(0o700)
    places = dict.fromkeys(("cwd", "attempt_dir", "session_dir"), str(folder))
    return make_start(backend="claude", command=(str(path),), **places, **changes)


@pytest.mark.promise("P18")
async def test_no_secret_is_in_what_is_said_of_a_failure(tmp_path: Path) -> None:
    server = McpServer(
        url="http://127.0.0.1:9/", headers={"Authorization": "Bearer sk-of-header"}, env={"ROOT": "/a/long/path"}
    )
    program = "#!/bin/sh\necho not-for-you sk-of-header 12345678 /a/long/path >&2; exit 3\n"
    ended = await attempt(claude_start(tmp_path, program, token="not-for-you", mcp_servers={"own": server}))
    assert ended.error.cause == "crash"
    assert ended.error.text.endswith("[token] [secret] 12345678 /a/long/path")


LIVES = """#!/bin/sh
cat <<'END'
{"type":"system","subtype":"init","session_id":"s","mcp_servers":[{"name":"daemon","status":"connected"}]}
{"type":"stream_event","event":{"type":"message_start","message":{"usage":{"input_tokens":7}}}}
{"type":"assistant","message":{"content":[{"type":"text","text":"all done"}]}}
{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":2}}}
{"type":"stream_event","event":{"type":"message_stop"}}
{"type":"result","subtype":"success","result":"all done"}
END
"""


@pytest.mark.promise("P11")
async def test_it_makes_no_room_before_its_first_turn(tmp_path: Path) -> None:
    ended = await attempt(claude_start(tmp_path, LIVES), lambda entry: Yield(k=entry.k))
    assert [entry.kind for entry in ended.entries] == ["session", "reply"]
    assert (ended.result.status, ended.result.text) == ("done", "all done")


@pytest.mark.promise("IF01")
def test_lines_are_cut_where_they_are_too_long() -> None:
    made = LineSplitter(limit_bytes=10)
    assert made.feed(b"one\r\n\ntw") == [b"one"]
    assert made.feed(b"o\n" + b"x" * 11) == [b"two"]
    assert (made.feed(b"x" * 50 + b"\nthree\nlast"), made.dropped) == ([b"three"], 1)
    assert made.rest() == [b"last"]


def conversation(*entries: Entry, **changes: object) -> Conversation:
    return Conversation(make_start(entries=entries, **changes))


SIDE_BY_SIDE = Entry(k=0, kind="reply", calls=(ToolCall(id="a", name="one"), ToolCall(id="b", name="two")))
ONE_BACK = Entry(k=1, kind="tool", call_id="b", name="two")
BOTH_BACK = Entry(k=2, kind="tool", call_id="a", name="one")
GO = Go(k=0)


@pytest.mark.promise("P9", "P11")
@pytest.mark.parametrize(
    ("entries", "answer", "steps", "stops"),
    [
        ((SIDE_BY_SIDE, ONE_BACK), Yield(k=1), 9, None),
        ((SIDE_BY_SIDE, ONE_BACK, BOTH_BACK), Yield(k=2), 9, "yielded"),
        ((SIDE_BY_SIDE, ONE_BACK, BOTH_BACK), Go(k=2, allowance=0), 9, "budget"),
        ((SIDE_BY_SIDE, ONE_BACK, BOTH_BACK), GO, 1, "max_steps"),
        ((SIDE_BY_SIDE, ONE_BACK, BOTH_BACK), GO, 2, None),
        ((Entry(k=0, kind="reply", text="done"),), Yield(k=0), 1, None),
        ((), Go(k=0, allowance=0), 9, "budget"),
    ],
)
def test_it_is_stopped_between_two_turns_alone(
    entries: tuple[Entry, ...], answer: Go | Yield, steps: int, stops: str | None
) -> None:
    ended = ended_between_turns(conversation(*entries), Limits(max_steps=steps), answer)
    assert (ended and (ended.cause or ended.status)) == stops


@pytest.mark.promise("XF07")
def test_the_thread_is_quoted_and_the_instruction_is_not() -> None:
    before = (Turn(role="user", text="# hello\nyou"), Turn(role="assistant", text="hi"))
    text = backend.first_prompt(conversation(messages=before, message="look"))
    assert "> # hello\n> you" in text and text.endswith("# Your instruction\n\nlook")
    assert backend.first_prompt(conversation(message="look")) == "look"


def test_the_word_to_go_on_carries_what_was_added() -> None:
    note = Entry(k=1, kind="note", text="continue, but quickly")
    told = backend.resume_prompt(conversation(Entry(k=0, kind="reply", text="half"), note))
    assert told == f"{backend.GO_ON}\n\ncontinue, but quickly"
    assert backend.resume_prompt(conversation(message="look")).endswith("look")


def test_arguments_of_any_size_fit() -> None:
    call = ToolCall(id="a", name="Write", args=Json(b'{"content": "' + b"x" * 2_000_000 + b'"}'))
    assert len(brief(call, "Write").args) < ARGUMENTS_BYTES + 100


@pytest.mark.promise("P9")
async def test_what_its_log_tells_while_nobody_reads_it_is_left_out(run: Run) -> None:
    flood = "import sys; sys.stderr.write('log: again\\n' * 100_000); sys.stderr.write('the end')"
    async with run(flood, re.compile(rb"log: (?P<event>again)")) as made:
        ended = await made.ended()
        assert 0 < len(await lines(made)) <= process.WAITING
    assert ended.stderr == "the end"


class Records(KernelLink):
    """A link whose entries are kept here."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def record(self, entry: Entry) -> Go:
        self.entries.append(entry)
        return Go(k=entry.k)

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Nobody watches."""


@pytest.mark.promise("P31")
async def test_a_call_that_was_cut_by_a_kill_has_an_outcome_that_nobody_knows() -> None:
    """Its program may never speak of it again, and a transcript is not to leave it out."""
    calls = tuple(ToolCall(id=name, name=name) for name in ("back", "cut", "never"))
    entries = (Entry(k=0, kind="reply", calls=calls), Entry(k=1, kind="tool", call_id="back", name="back", text="ok"))
    start, link = make_start(entries=entries), Records()
    conversation = Conversation(start)
    await EntryRecorder(conversation, link, start, "s").record_interrupted()
    assert [(one.k, one.call_id, one.is_error) for one in link.entries] == [(2, "cut", True), (3, "never", True)]
    assert all("unknown" in one.text for one in link.entries) and not conversation.pending


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("mcp__daemon__channel_send", "channel_send"), ("daemon.channel_send", "channel_send"),
        ("daemon_channel_send", "channel_send"), ("mcp__own__add", "mcp__own__add"), ("own.add", "mcp__own__add"),
        ("own_add", "mcp__own__add"), ("own-files-read", "mcp__own-files__read"), ("Bash", "Bash"),
    ],
)  # fmt: skip
async def test_a_tool_has_one_name_whatever_a_program_calls_it(told: str, kept: str) -> None:
    servers = {name: McpServer(command="true") for name in ("own", "own-files")}
    start, link = make_start(mcp_servers=servers), Records()
    recorder = EntryRecorder(Conversation(start), link, start, None)
    await recorder.record(backend.ReplyEnded(calls=(ToolCall(id="a", name=told),)))
    await recorder.record(ToolEnded(call_id="a", name=told, text="ok"))
    assert [link.entries[0].calls[0].name, link.entries[1].name] == [kept, kept]
    assert all(one.duration_ms is not None for one in link.entries)
