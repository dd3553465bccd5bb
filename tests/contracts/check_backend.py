"""What every backend owes the kernel, whoever does the work behind it.

``SCENARIOS`` is the suite: each asserts one thing of a run with a scripted provider, Daemon MCP's stand-in, and a
kernel that remembers entries. A subject may say of a scenario that it is *weaker* there (then it does the ``least``
of that row, or where it has none what is lacking is harmless, and the plain check has to pass all the same) or that
it *lacks* it: then the plain check has to fail, so that documents made of this table stay true.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol.agent import McpServer
from protocol.errors import UNSERVED, Cause
from protocol.instruction import Usage
from protocol.ipc import Entry, Error, Go, Limits, McpAddress, Result, Stop, Yield
from tests.worker import stdio_server
from tests.worker.backends.scenario import ScenarioRun, when
from tests.worker.backends.subject import Quiet, Refuse, Reply, Shell, Subject, Tell, Use
from tests.worker.fake_kernel import Answer, Attempt
from worker.backends.backend import GO_ON

Check = Callable[[ScenarioRun], Awaitable[None]]
TRIES: Final = 3
"""Of the kernel; and how often a program may ask again where it cannot be kept from that."""


@dataclass(frozen=True)
class Scenario:
    """One row: its name, what it shows, and the check. ``programs``: only where another program does the work."""

    name: str
    shows: str
    check: Check
    programs: bool = False
    least: Check | None = None
    """What a subject that is weaker here has to do all the same; None: the check itself."""

    def by(self, subject: Subject) -> Check:
        return self.least if subject.weaker.get(self.name) and self.least is not None else self.check

    def of(self, subject: Subject) -> bool:
        """Whether it can be asked of ``subject`` at all."""
        return subject.program or not self.programs


def usage(attempt: Attempt) -> Usage:
    """What an attempt booked."""
    total = Usage()
    for entry in attempt.entries:
        total = total.plus(entry.usage or Usage())
    return total


def kinds(attempt: Attempt) -> list[str]:
    """Its entries, but for those that only name the session."""
    return [entry.kind for entry in attempt.entries if entry.kind != "session"]


def replies(attempt: Attempt) -> int:
    return kinds(attempt).count("reply")


def failed(attempt: Attempt, cause: Cause, status: int | None = None) -> None:
    assert isinstance(attempt.ended, Error), attempt.ended
    assert (attempt.ended.cause, attempt.ended.http_status) == (cause, status), attempt.ended


async def _success(run: ScenarioRun) -> None:
    run.script(Tell("hello", text="I will say it."), Reply("All is said."))
    attempt = await run.attempt()
    assert (attempt.result.status, attempt.result.text) == ("done", "All is said.")
    assert kinds(attempt) == ["reply", "tool", "reply"]
    (called,) = (entry for entry in attempt.entries if entry.kind == "tool")
    assert called.name == "channel_send" and not called.is_error
    assert asked(attempt, called) == {"message": "hello"}
    assert all(entry.duration_ms is not None for entry in attempt.entries if entry.kind != "session")
    assert not run.live or run.daemon.said == ["hello"]


def asked(attempt: Attempt, called: Entry) -> Any:
    """The arguments that the reply gave of the call that came back as ``called``, under the same name."""
    (call,) = (call for entry in attempt.entries for call in entry.calls if call.id == called.call_id)
    assert call.name == called.name
    return json.loads(bytes(call.args))


async def _system_prompt(run: ScenarioRun) -> None:
    run.script(Reply("I am Alice."))
    attempt = await run.attempt()
    assert attempt.result.status == "done"
    told = json.dumps([request.body for request in run.requests]) if run.live else _configured(run)
    assert "You are Alice, the canary." in told


def _configured(run: ScenarioRun) -> str:
    files = [path for place in ("run-*", "session") for path in run.folder.glob(f"{place}/**/*") if path.is_file()]
    return repr(run.words()) + "".join(path.read_text("utf-8", "replace") for path in files)


async def _usage(run: ScenarioRun) -> None:
    run.script(
        Tell("hello", input_tokens=11, output_tokens=5, cached_tokens=3),
        Reply("done", input_tokens=20, output_tokens=7, cached_tokens=4),
    )
    attempt = await run.attempt()
    booked = [_tokens(entry.usage or Usage()) for entry in attempt.entries if entry.kind == "reply"]
    assert booked == [
        Usage(input_tokens=11, output_tokens=5, cache_read_tokens=3),
        Usage(input_tokens=20, output_tokens=7, cache_read_tokens=4),
    ]
    assert _tokens(usage(attempt)) == Usage(input_tokens=31, output_tokens=12, cache_read_tokens=7)


def _tokens(used: Usage) -> Usage:
    return msgspec.structs.replace(used, cost_usd=None)


async def _usage_in_all(run: ScenarioRun) -> None:
    run.script(
        Tell("hello", input_tokens=11, output_tokens=5, cached_tokens=3),
        Reply("done", input_tokens=20, output_tokens=7, cached_tokens=4),
    )
    assert _tokens(usage(await run.attempt())) == Usage(input_tokens=31, output_tokens=12, cache_read_tokens=7)


async def _resume(run: ScenarioRun) -> None:
    await _resumed(run, Usage(input_tokens=20, output_tokens=7))


async def _resume_in_all(run: ScenarioRun) -> None:
    counts = ((20, 7), (31, 12), (40, 14), (51, 19))
    await _resumed(run, *(Usage(input_tokens=read, output_tokens=written) for read, written in counts))


async def _resumed(run: ScenarioRun, *booked: Usage) -> None:
    # A program may have asked again before it is stopped, so that the answer is there for whoever asks.
    run.script(Tell("one", input_tokens=11), otherwise=Reply("Done at last.", input_tokens=20, output_tokens=7))
    cut = await run.attempt(when("tool", lambda entry: Stop(reason="shutdown", k=entry.k)))
    failed(cut, "cancelled")
    attempt = await run.attempt()
    assert (attempt.result.status, attempt.result.text) == ("done", "Done at last.")
    assert kinds(attempt) == ["reply"]
    assert "usage" in run.subject.lacks or _tokens(usage(attempt)) in booked
    if run.live:
        assert run.daemon.said == ["one"]
        assert not run.requests or "one" in json.dumps(run.requests[-1].body)
    if run.subject.program:
        assert GO_ON in repr([(word.stdin, word.argv) for word in run.words()[1:]])


async def _refused(run: ScenarioRun, refusal: Refuse, cause: Cause) -> None:
    run.script(otherwise=refusal)
    failed(await run.attempt(), cause, refusal.status)
    assert not run.live or len(run.requests) <= TRIES


async def _refused_unnamed(run: ScenarioRun, refusal: Refuse) -> None:
    run.script(otherwise=refusal)
    attempt = await run.attempt()
    failed(attempt, "overloaded")
    assert refusal.message in attempt.error.text
    assert not run.live or len(run.requests) <= TRIES


async def _throttled_late(run: ScenarioRun) -> None:
    run.script(otherwise=Refuse(429, "rate_limit_error", headers={"retry-after": "0"}))
    attempt = await run.attempt()
    assert attempt.error.cause in ("rate_limited", "overloaded")
    assert "not today" in attempt.error.text


async def _overloaded_twice(run: ScenarioRun, status: int | None = 529) -> None:
    run.script(
        Refuse(529, "overloaded_error", headers={"retry-after": "0"}),
        Refuse(529, "overloaded_error", headers={"retry-after": "0"}),
        Reply("third time lucky"),
    )
    attempt = await run.attempt()
    for _ in range(TRIES - 1):
        if isinstance(attempt.ended, Result):
            break
        failed(attempt, "overloaded", status)
        assert attempt.error.fired is None or run.counts.setdefault(attempt.error.fired, 1)
        attempt = await run.attempt()
    assert attempt.result.text == "third time lucky"
    assert not run.live or len(run.requests) <= TRIES


async def _daemon_unreachable(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Reply("all is well"))
    failed(await run.attempt(mcp=McpAddress(url="http://127.0.0.1:9/mcp")), "network")


async def _nobody_came(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Reply("all is well"))
    assert (await run.attempt(mcp=McpAddress(url="http://127.0.0.1:9/mcp"))).result.status == "done"
    assert run.daemon.methods == []


async def _refused_permission(run: ScenarioRun) -> None:
    run.script(Shell("touch done-all-the-same"), Reply("I was not allowed to."))
    run.daemon.grants = False
    attempt = await run.attempt(approval="deny")
    assert attempt.result.text == "I was not allowed to."
    assert [entry.is_error for entry in attempt.entries if entry.kind == "tool"] == [True]
    assert not (run.cwd / "done-all-the-same").exists()


async def _not_done(run: ScenarioRun) -> None:
    run.script(Shell("touch done-all-the-same"), Reply("I was not allowed to."))
    run.daemon.grants = False
    attempt = await run.attempt(approval="deny")
    assert attempt.result.text == "I was not allowed to."
    assert not (run.cwd / "done-all-the-same").exists()


async def _max_steps(run: ScenarioRun) -> None:
    run.script(otherwise=Tell("again"))
    attempt = await run.attempt(limits=Limits(max_steps=2, tool_seconds=20.0, idle_seconds=20.0))
    assert (attempt.result.status, attempt.result.cause, replies(attempt)) == ("incomplete", "max_steps", 2)


async def _continued(run: ScenarioRun) -> None:
    run.script(Tell("one"), otherwise=Reply("And that was the rest."))
    limits = Limits(max_steps=1, tool_seconds=20.0, idle_seconds=20.0)
    cut = await run.attempt(limits=limits)
    assert (cut.result.cause, kinds(cut)) == ("max_steps", ["reply", "tool"])
    run.entries.append(Entry(k=run.entries[-1].k + 1, kind="note", text="continue, but quickly"))
    attempt = await run.attempt(limits=limits, earlier_steps=1)
    assert (attempt.result.status, attempt.result.text) == ("done", "And that was the rest.")
    if run.live:
        assert run.daemon.said == ["one"]
        assert not run.requests or "but quickly" in json.dumps(run.requests[-1].body)
    if run.subject.program:
        assert "but quickly" in repr([(word.stdin, word.argv) for word in run.words()[1:]])


BUDGET_TOKENS: Final = 10
"""Less than one reply of ``Tell`` costs."""


def account(tokens: int) -> Answer:
    """Answer as the kernel does with a budget of ``tokens``: by what was booked, and by nothing else."""
    spent = 0

    def answer(entry: Entry) -> Go:
        nonlocal spent
        spent += 0 if entry.usage is None else entry.usage.tokens
        return Go(k=entry.k, allowance=max(0, tokens - spent))

    return answer


async def _budget(run: ScenarioRun) -> None:
    run.script(otherwise=Tell("again"), recorded="budget")
    attempt = await run.attempt(account(BUDGET_TOKENS), allowance=BUDGET_TOKENS)
    assert isinstance(attempt.ended, Result), attempt.ended
    assert (attempt.result.status, attempt.result.cause, replies(attempt)) == ("incomplete", "budget", 1)


async def _budget_elsewhere(run: ScenarioRun) -> None:
    """The kernel counts at its gateway what the program only tells at the end."""
    run.script(Tell("again"), Reply("enough"), recorded="budget")
    assert isinstance((await run.attempt(account(BUDGET_TOKENS), allowance=BUDGET_TOKENS)).ended, Result)


async def _preempted(run: ScenarioRun) -> None:
    run.script(Tell("first"), otherwise=Reply("and the rest"))
    cut = await run.attempt(when("tool", lambda entry: Yield(k=entry.k)))
    assert (cut.result.status, kinds(cut)) == ("yielded", ["reply", "tool"])
    assert (await run.attempt()).result.text == "and the rest"
    assert not run.live or run.daemon.said == ["first"]


async def _stopped(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Quiet())
    failed(await run.attempt(when("tool", lambda entry: Stop(reason="cancelled", k=entry.k))), "cancelled")


async def _killed(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Quiet(), recorded="stopped")

    def kill(entry: Entry) -> Go:
        run.kill_program()
        return Go(k=entry.k)

    failed(await run.attempt(when("tool", kill)), "crash")


async def _stays(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Reply("All is said."), tamper="stay", recorded="success")
    assert (await run.attempt()).result.text == "All is said."


async def _garbage(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Reply("All is said."), tamper="garbage", recorded="success")
    assert (await run.attempt()).result.text == "All is said."


async def _no_result(run: ScenarioRun) -> None:
    run.script(Tell("hello"), Reply("All is said."), tamper="mute", recorded="success")
    failed(await run.attempt(), "protocol")


async def _session_lost(run: ScenarioRun, asked: int = 0) -> None:
    run.script(Reply("hello"), Reply("hello"))
    run.entries = [
        Entry(k=0, kind="session", session="00000000-0000-4000-8000-000000000000", note=str(run.cwd)),
        Entry(k=1, kind="reply", text="half"),
    ]
    failed(await run.attempt(), "session_lost")
    assert not run.live or len(run.requests) <= asked


SERVER: Final = Path(stdio_server.__file__)
_LATE: Final = "import runpy, sys, time; time.sleep(1); runpy.run_path(sys.argv[1], run_name='__main__')"


async def _own_servers(run: ScenarioRun) -> None:
    run.script(Use("add", '{"a": 2, "b": 3}'), Reply("It is five."))
    late = McpServer(command=sys.executable, args=("-I", "-S", "-c", _LATE, str(SERVER)))
    attempt = await run.attempt(mcp_servers={"own": late})
    assert attempt.result.text == "It is five."
    (called,) = (entry for entry in attempt.entries if entry.kind == "tool")
    assert "5" in called.text and not called.is_error
    assert (called.name, asked(attempt, called)) == ("mcp__own__add", {"a": 2, "b": 3})


ABSENT: Final = McpServer(command="/nowhere/server")
ENDS: Final = McpServer(command="/bin/sh", args=("-c", "exit 3"))


async def _own_server_missing(run: ScenarioRun, server: McpServer, cause: Cause = "network") -> None:
    run.script(otherwise=Reply("I did without."))
    attempt = await run.attempt(mcp_servers={"own": server})
    failed(attempt, cause)
    assert attempt.error.code == UNSERVED
    assert "could not use the MCP server own" in attempt.error.text


async def _own_server_told(run: ScenarioRun, server: McpServer) -> None:
    run.script(otherwise=Reply("I did without."))
    attempt = await run.attempt(mcp_servers={"own": server})
    assert attempt.result.text == "I did without."
    assert "mcp__own__unavailable" in json.dumps(run.requests[-1].body["tools"])


async def _own_server_dies(run: ScenarioRun) -> None:
    run.script(Use("die"), Reply("It is gone."))
    attempt = await run.attempt(mcp_servers={"own": McpServer(command=sys.executable, args=("-I", "-S", str(SERVER)))})
    assert attempt.result.text == "It is gone."
    (called,) = (entry for entry in attempt.entries if entry.kind == "tool")
    assert called.is_error and "own" in (called.name or "")


SCENARIOS: Final = (
    Scenario("success", "works through Daemon MCP to a result", _success),
    Scenario("system_prompt", "uses the agent's system prompt", _system_prompt),
    Scenario("usage", "books each reply with its tokens", _usage, least=_usage_in_all),
    Scenario("resume", "continues after an interruption", _resume, least=_resume_in_all),
    Scenario("bad_key", "reports a rejected key at once (401)", partial(
        _refused, refusal=Refuse(401, "authentication_error"), cause="auth"), least=partial(
        _refused_unnamed, refusal=Refuse(401, "authentication_error"))),
    Scenario("throttled", "reports throttling (429)", partial(
        _refused, refusal=Refuse(429, "rate_limit_error", headers={"retry-after": "7"}), cause="rate_limited"),
        least=_throttled_late),
    Scenario("overloaded_twice", "survives an overload (529 twice)", _overloaded_twice,
        least=partial(_overloaded_twice, status=None)),
    Scenario("unknown_model", "reports an unknown model (404)", partial(
        _refused, refusal=Refuse(404, "not_found_error", "model: nope"), cause="invalid"), least=partial(
        _refused_unnamed, refusal=Refuse(404, "not_found_error", "model: nope"))),
    Scenario("daemon_unreachable", "fails without the kernel's tools", _daemon_unreachable, least=_nobody_came),
    Scenario("refused_permission", "does nothing that is not allowed", _refused_permission, least=_not_done),
    Scenario("own_servers", "has the agent's own MCP servers", _own_servers),
    Scenario("own_program_missing", "reports an MCP server with a missing program", partial(
        _own_server_missing, server=ABSENT, cause="spawn_permanent"), least=partial(_own_server_told, server=ABSENT)),
    Scenario("own_server_missing", "reports an MCP server that exits at its start", partial(
        _own_server_missing, server=ENDS), least=partial(_own_server_told, server=ENDS)),
    Scenario("own_server_dies", "continues when an MCP server dies", _own_server_dies),
    Scenario("max_steps", "ends at the limit of steps", _max_steps),
    Scenario("continued", "continues after awk continue", _continued),
    Scenario("budget", "ends when the budget is exhausted during work", _budget, least=_budget_elsewhere),
    Scenario("preempted", "yields between two steps", _preempted),
    Scenario("stopped", "leaves when asked (SIGTERM)", _stopped),
    Scenario("killed", "is not done when killed (SIGKILL)", _killed, programs=True),
    Scenario("stays", "is ended after its result", _stays, programs=True),
    Scenario("garbage", "ignores garbage on its output", _garbage, programs=True),
    Scenario("no_result", "is not done without a result", _no_result, programs=True),
    Scenario("session_lost", "reports a lost session", _session_lost, programs=True, least=partial(
        _session_lost, asked=1)),
)  # fmt: skip
"""The suite, and the rows of the matrix in docs/reference/backends.md."""
