"""The Cursor backend: headless cursor-agent. It follows the docs and is untested, because it needs a Cursor account.

All state of cursor-agent is below HOME. So it gets a private home with its permissions, and a link to the MCP servers
in the attempt's folder, so that the token is deleted with the attempt. It has no option for a system prompt, so the
first message starts with that. It cannot ask for permissions: calls that would need approval are refused.

It always loads the project's settings. It needs ``--trust --approve-mcps`` to start, which accept servers and hooks in
``.cursor`` of the working directory and its parents; rules there instruct the model. Files of a repository are not
trusted, so the backend refuses such projects. Settings in the user's home and above are the user's own.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from protocol.agent import Approval
from protocol.instruction import Usage
from protocol.ipc import NULL, Json, Result, ToolCall
from protocol.text import decoded
from protocol.tools import OFFERED_TO, TO_MODEL
from worker.backends import backend, private_files
from worker.backends.backend import BackendJob, Event, LastEvent, Launch, ProgramExit, SessionStarted, unfinished_result
from worker.models.model import Failed

DAEMON: Final = "daemon"
"""Name of the Daemon MCP server in the program's configuration."""
_KIND: Final = "ToolCall"
"""Suffix of the single key that names the tool of a call: ``readToolCall``, ``mcpToolCall``."""
_MCP: Final = f"mcp{_KIND}"
_FUNCTION: Final = "function"
"""Key of a call to a tool that has no key of its own."""
_ID: Final = "toolCallId"
"""Key of the call id, for events without one."""


class _CursorBlock(msgspec.Struct, frozen=True):
    """A part of a message. In a tool result the text is nested one level deeper."""

    type: str = ""
    text: "str | _CursorBlock" = ""


class _CursorMessage(msgspec.Struct, frozen=True):
    content: tuple[_CursorBlock, ...] = ()


class _CursorUsage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of all replies of a program run. ``input_tokens`` does not include cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class CursorLine(backend.StreamLine, frozen=True):
    """An event, with the fields that this module reads."""

    type: str = ""
    message: _CursorMessage = _CursorMessage()
    call_id: str = ""
    tool_call: dict[str, Json] = {}
    usage: _CursorUsage | None = None


class _Call(msgspec.Struct, frozen=True):
    args: Json = Json(b"{}")
    name: str = ""
    arguments: Json = Json(b"{}")
    result: "_Outcome | None" = None


class _Outcome(msgspec.Struct, frozen=True):
    success: Json = NULL
    error: Json = NULL
    rejected: Json = NULL


class _Returned(msgspec.Struct, frozen=True, rename="camel"):
    content: tuple[_CursorBlock, ...] = ()
    is_error: bool = False


class _McpArgs(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    provider_identifier: str = ""
    server_identifier: str = ""
    tool_name: str = ""
    args: Json = Json(b"{}")


def parse(line: bytes) -> CursorLine | None:
    """Return the event in ``line``, or None. Older versions put the usage next to the result."""
    found = decoded(line, CursorLine)
    if found is not None and found.type == "result" and found.usage is None:
        return msgspec.structs.replace(found, usage=decoded(line, _CursorUsage))
    return found


class CursorReplies:
    """Assembler of replies from single events.

    There are no events for replies, only for text and for calls that start and end. The events
    between two call results count as one reply. The usage of all replies arrives once, at the end.
    """

    def __init__(self) -> None:
        self._reply = backend.OpenReply()

    def take(self, line: CursorLine) -> Iterable[backend.Event]:
        """Translate a line of the conversation into events."""
        match line.type, line.subtype:
            case "thinking", _:
                return (backend.ActivityChanged("thinking"),)
            case "assistant", _:
                text = "".join(map(_text, line.message.content))
                self._reply.texts.append(text)
                return (backend.ReplyText(text),)
            case "tool_call", "started":
                # A running call; others of the same reply may follow.
                call, _body = _called(line)
                self._reply.calls.append(call)
                return (backend.ActivityChanged(f"tool {call.name}", tool=True),)
            case "tool_call", "completed":
                return self._returned(line)
            case _:
                return ()

    def last(self, line: CursorLine) -> backend.ReplyEnded:
        """Return the last reply, with the usage of all replies. Calls without a result are dropped."""
        self._reply.calls = []
        turn = self._reply.turn(_usage(line.usage))
        return turn if turn.text else msgspec.structs.replace(turn, text=line.result or "")

    def broke(self, line: CursorLine) -> Iterator[backend.Event]:
        """Yield the usage of a program run that failed."""
        if (usage := _usage(line.usage)) is not None:
            yield backend.SubagentUsage(usage)

    def _returned(self, line: CursorLine) -> Iterator[backend.Event]:
        call, body = _called(line)
        if self._reply.calls:
            yield self._reply.turn()
        outcome = body.result or _Outcome()
        bad = next((said for said in (outcome.error, outcome.rejected) if said != NULL), None)
        good = decoded(outcome.success, _Returned) or _Returned()
        shown = outcome.success if bad is None else bad
        text = "\n".join(map(_text, good.content)) or bytes(shown).decode("utf-8", "replace")
        ended = backend.ToolEnded(call_id=call.id, name=call.name, text=text, is_error=bad is not None or good.is_error)
        # Detect calls of the kernel's tools. Servers of a plugin are named plugin:server.
        args = decoded(body.args, _McpArgs) or _McpArgs()
        if (DAEMON in (args.provider_identifier, args.server_identifier.rpartition(":")[2])) and not ended.is_error:
            yield backend.DaemonConnected()
        yield ended


def _usage(count: _CursorUsage | None) -> Usage | None:
    if count is None or count == _CursorUsage():
        return None
    return Usage(**msgspec.structs.asdict(count))


def _called(line: CursorLine) -> tuple[ToolCall, _Call]:
    found = ((key, raw) for key, raw in line.tool_call.items() if key.endswith(_KIND) or key == _FUNCTION)
    kind, raw = next(found, ("?", NULL))
    body = decoded(raw, _Call) or _Call()
    name, args = kind.removesuffix(_KIND), body.args
    if kind == _FUNCTION:
        name, args = body.name, body.arguments
    elif kind == _MCP:
        mcp = decoded(body.args, _McpArgs) or _McpArgs()
        name, args = mcp.name or f"{mcp.provider_identifier}-{mcp.tool_name}", mcp.args
    return ToolCall(id=line.call_id or decoded(line.tool_call.get(_ID, NULL), str) or "", name=name, args=args), body


def _text(block: _CursorBlock) -> str:
    return block.text if isinstance(block.text, str) else _text(block.text)


_FOLDER: Final = ".cursor"


def brought_in(cwd: Path, home: str) -> Path | None:
    """Return the ``.cursor`` folder with content that cursor-agent would load in ``cwd``, or None.

    A link counts as content, whatever its target is. ``home`` is the user's home. Raises OSError.
    """
    own = Path(home) if home else None
    for folder in (cwd, *cwd.parents):
        if own is not None and own.is_relative_to(folder):
            break
        found = folder / _FOLDER
        if os.path.islink(found) or os.path.isfile(found) or (found.is_dir() and any(found.iterdir())):
            return found
    return None


TITLE: Final = "Cursor"
_CHANGING: Final = ("Shell(*)", "Write(*)", "WebFetch(*)")
_READING: Final = ("Read(*)",)


class _Permission(msgspec.Struct, frozen=True):
    """Tools to allow and to refuse by name: for a tool in neither list, cursor waits half a minute."""

    allows: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()
    everything: bool = False
    """Whether all tools are allowed, including those of the agent's own MCP servers."""


_PERMISSIONS: Final[Mapping[Approval, _Permission]] = {
    "auto": _Permission(everything=True),
    "ask": _Permission(allows=_READING, refuses=_CHANGING),
    "all": _Permission(refuses=(*_CHANGING, *_READING)),
    "deny": _Permission(allows=_READING, refuses=_CHANGING),
}


class Cursor:
    """Attempt of cursor-agent."""

    def __init__(self, job: BackendJob) -> None:
        self._job = job
        self._permission = _PERMISSIONS[job.start.approval]
        self._replies = CursorReplies()
        self._prose = ""
        """Last output that is not an event; it contains the reason if the program does not start."""
        self._result: CursorLine | None = None
        self._text = ""

    def launch(self) -> Launch:
        """Write the configuration and return how to start the program."""
        job, start, permission = self._job, self._job.start, self._permission
        settings = private_files.folder(job.home, ".cursor")
        own = () if permission.everything else tuple(f"Mcp({name}:*)" for name in start.mcp_servers)
        rules = {"allow": [f"Mcp({DAEMON}:*)", *permission.allows], "deny": [*permission.refuses, *own]}
        options = {"version": 1, "editor": {"vimMode": False}, "permissions": rules}
        private_files.write(settings / "cli-config.json", options)
        headers = {"Authorization": f"Bearer {start.token}", OFFERED_TO: TO_MODEL}
        servers = {name: private_files.server_entry(one, typed=False) for name, one in start.mcp_servers.items()}
        servers[DAEMON] = {"url": start.mcp.url, "headers": headers}
        path = settings / "mcp.json"
        path.unlink(missing_ok=True)
        path.symlink_to(private_files.write(job.place / "mcp.json", {"mcpServers": servers}))
        variables = {
            "HOME": str(job.home),
            "XDG_CONFIG_HOME": str(job.home / ".config"),
            "CURSOR_CONFIG_DIR": str(settings),
            "CURSOR_API_KEY": (start.provider and start.provider.api_key) or "",
        }
        argv = [job.binary, "-p", "--output-format", "stream-json", "--trust", "--approve-mcps"]
        argv += [f"--workspace={start.cwd}", f"--model={start.model}"]
        argv += ["--force"] if permission.everything else []
        argv += [f"--resume={job.session}"] if job.session else []
        message = job.message if job.session or not start.system else f"{start.system}\n\n{job.message}"
        return Launch(argv=tuple(argv), env={**job.env, **variables}, stdin=message.encode())

    def read(self, line: bytes) -> Iterable[Event]:
        """Translate a line into events. Raises Failed if the program did not resume the session."""
        found = parse(line)
        if found is None:
            self._prose = line[:1000].decode("utf-8", "replace")
            return ()
        match found.type, found.subtype:
            case "system", "init":
                # Cursor silently replaces an unknown session by a new one, which would lose the work done.
                wanted = self._job.session
                if wanted is not None and found.session_id != wanted:
                    raise Failed("session_lost", f"{TITLE} cannot find session {wanted}")
                return (SessionStarted(found.session_id),)
            case "result", _:
                return self._end(found)
            case _:
                return self._replies.take(found)

    def conclude(self, ended: ProgramExit) -> Result:
        """Return the result of the attempt. Raises Failed.

        Cursor reports no cause of a failure, and its prose is not parsed: the attempt is retried a few times.
        """
        result = self._result
        if result is None:
            ended = msgspec.structs.replace(ended, stderr=ended.stderr or self._prose)
            if not ended.code:  # exit code 0 is not reliable: cursor also returns it for an untrusted directory
                raise unfinished_result(TITLE, ended)
            raise Failed("overloaded", f"{TITLE} exited with code {ended.code}: {ended.stderr}")
        if result.is_error or result.subtype != "success":
            raise Failed("overloaded", f"{TITLE} failed: {result.result or result.subtype}")
        if not ended.well:
            raise unfinished_result(TITLE, ended)
        return Result(status="done", text=self._text)

    def _end(self, line: CursorLine) -> Iterator[Event]:
        self._result = line
        if line.is_error:
            yield from self._replies.broke(line)
        else:
            turn = self._replies.last(line)
            self._text = turn.text
            yield turn
        yield LastEvent()


def open(job: BackendJob) -> Cursor:  # noqa: A001  (name required by the interface)
    """Return the backend of one attempt. Raises Failed if the project has servers, hooks or rules for cursor."""
    brought = brought_in(Path(job.start.cwd), job.env.get("HOME", ""))
    if brought is not None:
        text = f"{TITLE} would load servers and hooks of {brought}, which cannot be disabled"
        raise Failed("untrusted", f"{text}: move this folder away, or choose another backend")
    return Cursor(job)
