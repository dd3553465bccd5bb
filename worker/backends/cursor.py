"""cursor-agent, headless, by its documented format: it runs with an account of Cursor's only, so nothing was measured.

All it knows lies below HOME, so it has one of its own: there its permissions are written, and a link into the
attempt's folder leads to its MCP servers, so that the token goes with the attempt. It has no place for a system
prompt, which opens the first message instead; nobody can be asked before a tool runs, so what would be asked about is
refused.

It takes what a project brings along, without an option that leaves it alone. ``--trust --approve-mcps``, without
which it does not begin, agree to servers and hooks of ``.cursor`` in the working directory and its parents, and rules
there speak to the model. A repository's files are not trusted here to do either, so such a project is not opened with
it. What lies in the user's own home, and above that, is the user's.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from protocol.agent import Approval
from protocol.ipc import Result
from protocol.tools import OFFERED_TO, TO_MODEL
from worker.backends import private_files
from worker.backends.backend import BackendJob, Ended, Event, LastEvent, Launch, SessionStarted, unfinished_result
from worker.backends.cursor_stream import DAEMON, Line, Replies, parse
from worker.models.errors import Failed

_FOLDER: Final = ".cursor"


def brought_in(cwd: Path, home: str) -> Path | None:
    """The ``.cursor`` that cursor-agent would take up in ``cwd``; None: there is none with anything in it.

    A link counts, wherever it leads. ``home`` is the user's. Raises OSError.
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
    """Tools that are allowed, and refused by name: one that is merely not allowed makes it wait for half a minute."""

    allows: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()
    everything: bool = False
    """Whether all is allowed, the agent's own MCP servers too."""


_PERMISSIONS: Final[Mapping[Approval, _Permission]] = {
    "auto": _Permission(everything=True),
    "ask": _Permission(allows=_READING, refuses=_CHANGING),
    "all": _Permission(refuses=(*_CHANGING, *_READING)),
    "deny": _Permission(allows=_READING, refuses=_CHANGING),
}


class Cursor:
    """One attempt of cursor-agent."""

    def __init__(self, job: BackendJob) -> None:
        self._job = job
        self._permission = _PERMISSIONS[job.start.approval]
        self._replies = Replies()
        self._prose = ""
        """What it said instead of an event, last: why it will not begin stands there."""
        self._result: Line | None = None
        self._text = ""

    def launch(self) -> Launch:
        """Write its configuration, and say how it is started."""
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
        """Translate a line into events. Raises Failed if it is not the session that was to be resumed."""
        found = parse(line)
        if found is None:
            self._prose = line[:1000].decode("utf-8", "replace")
            return ()
        match found.type, found.subtype:
            case "system", "init":
                # One that it does not know it replaces by a new one without a word, and would begin from nothing.
                wanted = self._job.session
                if wanted is not None and found.session_id != wanted:
                    raise Failed("session_lost", f"{TITLE} no longer has the session {wanted}")
                return (SessionStarted(found.session_id),)
            case "result", _:
                return self._end(found)
            case _:
                return self._replies.take(found)

    def conclude(self, ended: Ended) -> Result:
        """Return the result of the attempt. Raises Failed.

        It names no cause for a failure, and its prose is not searched for one: it is tried again, a few times.
        """
        result = self._result
        if result is None:
            ended = msgspec.structs.replace(ended, stderr=ended.stderr or self._prose)
            if not ended.code:  # 0 says nothing: with that it also refuses to begin in a directory it does not trust
                raise unfinished_result(TITLE, ended)
            raise Failed("overloaded", f"{TITLE} ended with exit code {ended.code}: {ended.stderr}")
        if result.is_error or result.subtype != "success":
            raise Failed("overloaded", f"{TITLE} failed: {result.result or result.subtype}")
        if not ended.well:
            raise unfinished_result(TITLE, ended)
        return Result(status="done", text=self._text)

    def _end(self, line: Line) -> Iterator[Event]:
        self._result = line
        if line.is_error:
            yield from self._replies.broke(line)
        else:
            turn = self._replies.last(line)
            self._text = turn.text
            yield turn
        yield LastEvent()


def open(job: BackendJob) -> Cursor:  # noqa: A001  (the name is the contract's)
    """The program of one attempt. Raises Failed where the project would bring its own servers, hooks or rules."""
    brought = brought_in(Path(job.start.cwd), job.env.get("HOME", ""))
    if brought is not None:
        text = f"{TITLE} would start servers and hooks of {brought}, and cannot be told to leave them alone"
        raise Failed("untrusted", f"{text}: move that away, or choose another backend")
    return Cursor(job)
