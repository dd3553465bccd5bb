"""The table that one program of a kernel writes and the next one reads, and a conversation that goes on by it."""

import json
import os
from pathlib import Path
from typing import Any, cast

import msgspec
import psutil
import pytest
import trio
import trio.testing

from kernel import adoption
from kernel.boot.replacement import ProcessHoldings
from kernel.policy.budget import Allowance
from kernel.policy.circuit_breaker import ModelEndpoint
from kernel.policy.scheduling import HERE, WorkerLimits
from kernel.procs.handle import HandedHandle
from kernel.procs.procfs import ProcessId
from kernel.services.budgets import HandedBudget
from kernel.services.completion import AttemptOutcome
from kernel.services.dispatcher import Dispatcher
from kernel.services.handover import (
    HandedAttempt,
    HandedUpgrade,
    KernelHandover,
    KernelProgram,
    TrialFailed,
    UnreadableHandover,
    children_of,
    decode,
    encode,
    interpreter_at,
    try_version,
    without_prompt,
)
from kernel.services.kept_workers import WorkerPlace
from kernel.services.preparation import HandedLogin, PreparedAttempt
from kernel.services.start_frame import StartFrame
from kernel.services.worker_link import HandedLine, HandedSession, SessionPause, WorkerLink
from kernel.services.worker_session import WorkerSession
from protocol.agent import Action, AgentDefinition, Rule, Timeouts
from protocol.errors import Refused
from protocol.ipc import Entry, Ready, Result
from protocol.limits import PlaceNeeds
from protocol.ndjson import encode as line_of
from tests.kernel.services.landing_project import FIRST_LEASE
from tests.kernel.services.test_worker_session import START, Conversation
from tests.shorthand import beside

LEASED = msgspec.structs.replace(
    FIRST_LEASE, epoch=2, attempts=2, lane="immediate", entries=3, attempt="i1-2", n=2, text="hi", source_text="hi"
)
DEFINITION = AgentDefinition(name="alice", backend="mock", mock=(Rule(do=(Action(text="hi"),)),))
ATTEMPT = HandedAttempt(
    leased=LEASED,
    token="secret",
    frame=StartFrame(
        definition=DEFINITION,
        start=msgspec.structs.replace(START, hooks=msgspec.Raw(b'{"a":[1]}'), env={"A": "b"}),
        manifest=("one",),
        sdks=frozenset({"anthropic"}),
        endpoint=ModelEndpoint("mock", "", ""),
    ),
    handle=HandedHandle(
        attempt="i1-2",
        cookie="c",
        pid=5,
        keeper_pid=4,
        processes=(ProcessId(5, 50), ProcessId(4, 40)),
        stdin=10,
        stdout=11,
        stderr=12,
        lifeline=13,
        heard=b'{"t":"exi',
    ),
    session=HandedSession(ready=True, left_seconds=1.5, pings=3, tool_runs=True, doing="bash"),
    budget=HandedBudget(
        provider="mock", model="m", input_tokens=1, opened_ms=2, worked_ms=3, reserved=Allowance(7), unpriced=True
    ),
    line=HandedLine(b'{"t":"ent\xff', dropping=True),
    prepared=PreparedAttempt(placeholders=(".git",), login=HandedLogin(lock=14, key="k", record=b"{}", seen=(1, 2, 3))),
    provider="mock",
    needs=PlaceNeeds(memory=2**33),
    stderr=b"\xff\x00 said",
    identity=b"\x01" * 32,
    pid=5,
    steps=2,
    probing=("p",),
    warned=("/etc",),
)
TABLE = KernelHandover(
    upgrade=HandedUpgrade(id="u1", before="1.0", to="2.0", began=3.5),
    attempts=(ATTEMPT,),
    children=(4, 9),
    safe_mode=False,
    signals=(15,),
)


class Adopting:
    """Attempts, as far as a dispatcher hands them what an earlier program has begun."""

    def __init__(self) -> None:
        self.places: list[WorkerPlace] = []

    def adopt(self, _handed: HandedAttempt, place: WorkerPlace) -> None:
        self.places.append(place)


def test_what_was_set_aside_for_an_attempt_stays_so_under_the_next_program() -> None:
    attempts = Adopting()
    dispatcher = Dispatcher(
        reader=cast("Any", None),
        wake=cast("Any", None),
        attempts=cast("Any", attempts),
        limits=WorkerLimits(workers=4),
        pressed=lambda: False,
        now_ms=lambda: 0,
    )
    dispatcher.take_over(decode(encode(TABLE)).attempts)
    (place,) = attempts.places
    assert (place.agent, place.node, place.provider, place.needs.memory) == ("alice", HERE, "mock", 2**33)


@pytest.mark.promise("P92")
def test_a_table_is_read_as_it_was_written() -> None:
    read = decode(encode(TABLE))
    assert read == TABLE
    assert bytes(read.attempts[0].frame.start.hooks) == b'{"a":[1]}'
    assert read.descriptors == (10, 11, 12, 13, 14)
    assert children_of(read.attempts, [9]) == (9, 4)


@pytest.mark.promise("P92")
def test_a_table_of_the_version_before_lacks_what_has_a_default_and_has_what_is_known_no_more() -> None:
    table: dict[str, Any] = json.loads(encode(TABLE))
    attempt = table["attempts"][0]
    for name in ("line", "prepared", "provider", "stderr", "steps", "probing", "warned", "doing"):
        attempt.pop(name)
    for name in ("pings", "tool_runs", "doing", "log_lines"):
        attempt["session"].pop(name)
    attempt["handle"].pop("kill_sent")
    attempt["of_an_older_version"] = {"any": 1}
    table["gone"] = []
    read = decode(json.dumps(table).encode())
    assert (read.attempts[0].steps, read.attempts[0].line, read.attempts[0].session.pings) == (0, HandedLine(), 0)


@pytest.mark.promise("P93")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "handover has format 2, but this version reads 1 to 1"),
        ({"format": 0}, "handover has format 0"),
        ({"upgrade": 1}, r"handover is unreadable: .*\$.upgrade"),
        ({"attempts": [{}]}, r"handover is unreadable: .*\$.attempts"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UnreadableHandover, match=said):
        decode(json.dumps({**json.loads(encode(TABLE)), **changes}).encode())


def test_a_new_version_gives_way_if_the_descriptor_of_a_worker_is_missing() -> None:
    nothing: Any = None
    held = ProcessHoldings(7, "1.0", 0, (0, None), "t", "2026-11-23T00:00:00.000Z", 0, None, descriptors=(0,))
    gone = msgspec.structs.replace(ATTEMPT, handle=msgspec.structs.replace(ATTEMPT.handle, stdin=1_000_000))
    table = encode(msgspec.structs.replace(TABLE, attempts=(gone,)))
    # The caller ends in an exec, so the check is called directly.
    with pytest.raises(OSError, match="Bad file descriptor"):
        adoption._get_ready(nothing, held, table)  # pyright: ignore[reportPrivateUsage]


def test_the_prompt_of_a_worker_that_has_it_is_left_out() -> None:
    long = msgspec.structs.replace(START, system="s" * 10**6, entries=(Entry(k=0, kind="reply", text="t" * 10**6),))
    frame = without_prompt(msgspec.structs.replace(ATTEMPT.frame, start=long))
    assert len(encode(msgspec.structs.replace(TABLE, attempts=(msgspec.structs.replace(ATTEMPT, frame=frame),)))) < 9000
    assert (frame.start.attempt, frame.start.cwd, frame.start.token) == (START.attempt, START.cwd, START.token)


class Interrupted(Conversation):
    """A conversation that stands still, and is gone on with by another session over the same streams."""

    def sessions(self) -> tuple[SessionPause, WorkerLink, WorkerSession]:
        pause, link = SessionPause(), WorkerLink(self.handle)  # type: ignore[arg-type]
        return pause, link, self._session(link, pause, HandedSession())

    def _session(self, link: WorkerLink, pause: SessionPause, resumed: HandedSession) -> WorkerSession:
        return WorkerSession(
            link=link,
            start=START,
            timeouts=self.timeouts,
            handlers=self,
            deadline=type(self.deadline)(),
            pause=pause,
            resumed=resumed,
        )

    async def until_it_stands(self) -> tuple[HandedSession, HandedLine]:
        """Run the first one until it stands still, and return what is told of it."""
        pause, link, session = self.sessions()
        async with beside(session.run):
            await trio.testing.wait_all_tasks_blocked()
            pause.ask()
            await trio.testing.wait_all_tasks_blocked()
            assert pause.stands
            return session.export(), link.export()

    async def go_on(self, told: tuple[HandedSession, HandedLine]) -> AttemptOutcome | None:
        """Run another one to its end."""
        link = WorkerLink(self.handle)  # type: ignore[arg-type]
        link.resume(told[1])
        return await self._session(link, SessionPause(), told[0]).run()


@pytest.mark.promise("P92")
async def test_a_conversation_goes_on_in_the_middle_of_a_line() -> None:
    talk = Interrupted()
    whole = line_of(Entry(k=1, kind="reply", text="b" * 100))
    await talk.say(Ready(pid=7, version="1"), Entry(k=0, kind="reply", text="a"))
    await talk.worker_out.send_all(whole[:40])
    told = await talk.until_it_stands()
    assert (told[0].ready, told[1].pending) == (True, whole[:40])
    await talk.worker_out.send_all(whole[40:])
    await talk.say(Result(status="done", text="end"))
    ending = await talk.go_on(told)
    assert (ending and ending.ended_as, talk.entries, talk.heard) == ("done", [0, 1], [7])


@pytest.mark.promise("P92")
async def test_a_worker_that_is_not_ready_yet_is_told_its_start_by_who_goes_on() -> None:
    talk = Interrupted()
    told = await talk.until_it_stands()
    assert not told[0].ready
    await talk.say(Ready(pid=7, version="1"), Result(status="done", text="end"))
    ending = await talk.go_on(told)
    assert (ending and ending.text, talk.heard) == ("end", [7])
    assert (await talk.worker_in.receive_some()).count(b'"t":"start"') == 1


@pytest.mark.promise("P92")
async def test_what_has_come_already_is_handled_before_a_conversation_stands(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Only what is still in the pipe waits there: an entry that was read is committed and answered first."""
    talk = Interrupted()
    pause, _, session = talk.sessions()
    slow = trio.Event()
    talk.commit = slow.wait
    async with beside(session.run):
        entries = (Entry(k=k, kind="reply", text="t") for k in range(3))
        await talk.worker_out.send_all(b"".join(map(line_of, (Ready(pid=7, version="1"), *entries))))
        await trio.testing.wait_all_tasks_blocked()
        pause.ask()
        await trio.testing.wait_all_tasks_blocked()
        assert (pause.stands, talk.entries) == (False, [0])
        slow.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (pause.stands, talk.entries) == (True, [0, 1, 2])
        await talk.say(Entry(k=3, kind="reply", text="t"))
        await trio.sleep(3600)
        assert talk.entries == [0, 1, 2]
        pause.release()
        await trio.testing.wait_all_tasks_blocked()
        assert talk.entries == [0, 1, 2, 3], "an hour in which the kernel stood still is nobody's silence"


@pytest.mark.promise("P92")
async def test_limits_of_time_go_on_and_clocks_of_silence_begin_anew(autojump_clock: trio.testing.MockClock) -> None:
    talk = Interrupted(timeouts=Timeouts(total=100, idle=50))
    await talk.say(Ready(pid=7, version="1"))
    pause, link, session = talk.sessions()
    async with beside(session.run, talk.answer_pings):
        await trio.sleep(40)
        pause.ask()
        await trio.testing.wait_all_tasks_blocked()
        told = session.export(), link.export()
    assert told[0].left_seconds == pytest.approx(60, abs=1)
    assert told[0].pings == talk.pings > 0
    began = trio.current_time()
    async with beside(talk.answer_pings):
        ending = await talk.go_on(told)
    assert ending is not None
    assert ending.cause == "idle_timeout"
    assert trio.current_time() - began == pytest.approx(50, abs=1)


SECONDS = 20.0


def program(folder: Path, script: str) -> KernelProgram:
    """A program that does what ``script`` says, whatever its arguments; the last of them is what it is given."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nfor given; do :; done\n{script}\n")
    path.chmod(0o755)
    return KernelProgram(str(path), ("--project", "/p"))


async def test_a_version_that_reads_what_it_is_given_says_its_own(tmp_path: Path) -> None:
    says = """echo noise; grep -q table /proc/self/fd/$given && echo '{"version": "2.0", "more": 1}'"""
    assert await try_version(program(tmp_path, says), b"the table", SECONDS) == "2.0"


@pytest.mark.promise("P93")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such schema' >&2; exit 78", r"cannot take over \(exit code 78\): no such schema"),
        ("exit 3", r"exit code 3\): no reason given"),
        ("kill -9 $$", r"exit code -9"),
        ("echo 'python: No module named kernel' >&2; exit 1", r"agent-worker is not installed beside \S+: install"),
        ("echo 2.0", "did not report its version; its output: b'2.0'"),
        ("yes | head -c 10000000", "did not report its version"),
    ],
)
async def test_a_version_that_fails_says_why(tmp_path: Path, script: str, said: str) -> None:
    with trio.fail_after(SECONDS), pytest.raises(TrialFailed, match=said):
        await try_version(program(tmp_path, script), b"", SECONDS)


@pytest.mark.promise("P93")
async def test_a_version_that_says_nothing_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with trio.fail_after(SECONDS), pytest.raises(TrialFailed, match=r"did not answer within 0\.2 s"):
        await try_version(program(tmp_path, f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 600"), b"", 0.2)
    noted = note.read_text() if note.exists() else ""
    assert not noted or not psutil.pid_exists(int(noted))


async def test_what_cannot_be_executed_is_no_version(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="cannot be executed: No such file"):
        await try_version(KernelProgram(str(tmp_path / "gone"), ()), b"", SECONDS)


def test_a_virtual_environment_is_named_by_its_folder_or_by_a_program_in_it(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python"
    python.touch(0o755)
    for place in (tmp_path, programs / "agent-worker", programs / "awk", python):
        assert interpreter_at(str(place)) == str(python)
    for name in ("venv", str(tmp_path / "nowhere"), str(programs / "bash"), str(programs)):
        with pytest.raises(Refused, match=r"is not absolute|neither a virtual environment"):
            interpreter_at(name)
    with pytest.raises(Refused, match=r"nowhere is neither .*: the path does not exist"):
        interpreter_at(str(tmp_path / "nowhere"))
    os.chmod(python, 0o644)
    if os.geteuid():
        with pytest.raises(Refused, match="neither a virtual environment"):
            interpreter_at(str(tmp_path))
