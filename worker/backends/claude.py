"""Claude Code, headless: what its events mean, and its end.

Facts of version 2.1.329: exit code 0 is no success, nor is ``subtype: success``; what it says it cost is of the whole
session, over all processes, so its own count is not used.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from protocol.errors import UNREACHED, Cause
from protocol.ipc import Result
from worker.backends import claude_setup
from worker.backends.claude_stream import Line, Replies, parse, spent
from worker.backends.outcome import unfinished, unserved
from worker.backends.program import Doing, Ended, Event, Hopeless, Job, Launch, Over, Reached, SessionIs, Spent
from worker.models.errors import CODES, Failed, cause_of

TITLE: Final = "Claude Code"
METERED: Final[Mapping[str, str]] = {}
"""It does not tell its provider itself all that it would if its requests went another way: only others are metered."""

_INCOMPLETE: Final[Mapping[str, Cause]] = MappingProxyType(
    {"error_max_turns": "max_steps", "error_max_budget_usd": "budget"}
)
"""Ways to end (``subtype``) that leave the work unfinished."""
_REASONS: Final[Mapping[str, Cause]] = MappingProxyType({"prompt_too_long": "context_overflow"})
"""Reasons to end (``terminal_reason``) that say more than the status."""
_CONNECTED: Final = "connected"
_API_FAILED: Final = "api_error"
_REFUSED_KEY: Final = frozenset({401, 403})


class Claude:
    """One attempt of Claude Code."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._replies = Replies()
        self._began = False
        self._complaint: Line | None = None
        self._result: Line | None = None

    def launch(self) -> Launch:
        """Write its configuration, and say how it is started."""
        return claude_setup.launch(self._job)

    def read(self, line: bytes) -> Iterable[Event]:
        """What a line means. Raises Failed where it has not got its tools, the kernel's or its agent's own."""
        found = parse(line)
        if found is None:
            return ()
        match found.type, found.subtype:
            case "system", "init":
                return self._begin(found)
            case "system", "api_retry":
                return (_retry(found),)
            case "system", "permission_denied":
                return (Doing(f"{found.tool_name} was refused"),)
            case "result", _:
                return self._end(found)
            case _:
                return self._talk(found)

    def conclude(self, ended: Ended) -> Result:
        """What came of it. Raises Failed."""
        result = self._result
        if result is None:
            raise unfinished(TITLE, ended)
        if result.subtype in _INCOMPLETE:
            return Result(status="incomplete", text=result.result or "", cause=_INCOMPLETE[result.subtype])
        if self._job.session is not None and not self._began:
            raise Failed("session_lost", f"{TITLE} no longer has the session {self._job.session}: {_said(result)}")
        if result.subtype != "success" or result.is_error:
            raise self._failed(result)
        if not ended.well:
            raise unfinished(TITLE, ended)
        return Result(status="done", text=result.result or "")

    def _begin(self, line: Line) -> Iterator[Event]:
        self._began = True
        states = {server.name: server.status for server in line.mcp_servers}
        for name in (claude_setup.DAEMON, *self._job.start.mcp_servers):
            status = states.get(name, "not configured")
            if status == _CONNECTED:
                continue
            if name != claude_setup.DAEMON:
                raise unserved(TITLE, name, f"it is {status}")
            text = f"{TITLE} did not reach the kernel's tools: its MCP server is {status}"
            raise Failed("network", text, code=UNREACHED)
        yield Reached()
        yield SessionIs(line.session_id)

    def _talk(self, line: Line) -> Iterable[Event]:
        if line.type == "stream_event":
            claude_setup.forget_key(self._job)
        elif line.error is not None:
            self._complaint = line
        return self._replies.take(line)

    def _end(self, line: Line) -> Iterator[Event]:
        self._result = line
        beside = spent(line.model_usage_since_last_result.values(), self._replies.told)
        if beside is not None and self._began:
            yield Spent(beside)
        yield Over()

    def _failed(self, result: Line) -> Failed:
        """The failure it reports; the message before the result says more of it than the result does."""
        complaint = self._complaint or result
        status = result.api_error_status or complaint.api_error_status
        words = [word for word in (complaint.error, complaint.api_error, complaint.api_error_type) if word]
        cause = _cause(result.terminal_reason or "", status, words)
        return Failed(cause, f"{TITLE}: {_said(result)}", http_status=status, code=words[0] if words else None)


def open(job: Job) -> Claude:  # noqa: A001  (the contract's name: it is called as claude.open)
    """The program for one attempt."""
    return Claude(job)


def _cause(reason: str, status: int | None, words: list[str]) -> Cause:
    if reason in _REASONS:
        return _REASONS[reason]
    if status is None and not CODES.keys() & set(words):
        return "network" if reason == _API_FAILED else "crash"  # no answer came, or it is no failure of the API's
    return cause_of(status, words)


def _retry(line: Line) -> Event:
    if line.error_status in _REFUSED_KEY:
        why = Failed("auth", f"{TITLE}: the key was refused", http_status=line.error_status, code=line.error)
        return Hopeless(why)
    return Doing("waiting to ask the model again")


def _said(result: Line) -> str:
    return result.result or "; ".join(result.errors) or result.terminal_reason or result.subtype
