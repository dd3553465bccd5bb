"""Codex: ``codex exec --json`` (0.169.0), with a home of its own, our provider, and Daemon MCP over its own client.

It connects to Daemon MCP by itself: with ``required`` it does not start without, it speaks MCP as it should, and
keeps variables from its shells, so a bridge would be one process more and nothing else. Nobody can be asked by it.
"""

import re
from collections.abc import Iterable
from typing import Final

from protocol.errors import UNREACHED
from protocol.instruction import Usage
from protocol.ipc import Result, Start
from worker.backends import private
from worker.backends.codex_config import DAEMON, OPENAI, config, secrets
from worker.backends.codex_record import why
from worker.backends.codex_stream import Thread, parse
from worker.backends.codex_tally import Tally
from worker.backends.outcome import unfinished, unserved
from worker.backends.program import Ended, Event, Job, Launch, Program
from worker.models.errors import Failed

TITLE: Final = "Codex"
METERED: Final = {"openai": OPENAI}
"""Dialect -> where its requests go, unless its provider has an address of its own."""
_NO_SESSION: Final = "no rollout found for thread id"
_NO_SERVER: Final = re.compile(r"required MCP servers failed to initialize: (?P<which>.*)")
"""Its words for two ends that leave nothing on standard output: they are all there is."""


def open(job: Job) -> Program:  # noqa: A001  (what every backend's file is entered by)
    """One attempt."""
    return Codex(job)


class Codex:
    """One process of it: a thread begun, or gone on with."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._thread = Thread(_booked(job.start, job.session), Tally(job.home).count)

    def launch(self) -> Launch:
        """How to start it. Writes its configuration. Raises Failed."""
        job = self._job
        private.write(job.home / "config.toml", config(job.start, job.endpoint))
        resume = () if job.session is None else ("resume",)
        session = () if job.session is None else (job.session,)
        argv = (job.binary, "exec", *resume, "--json", "--skip-git-repo-check", *session, "-")
        env = {**job.env, "CODEX_HOME": str(job.home), **secrets(job.start)}
        return Launch(argv=argv, env=env, stdin=job.message.encode())

    def read(self, line: bytes) -> Iterable[Event]:
        """What one line means."""
        parsed = parse(line)
        return () if parsed is None else self._thread.take(parsed)

    def conclude(self, ended: Ended) -> Result:
        """What came of it. Raises Failed."""
        thread = self._thread
        if thread.completed and ended.well:
            return Result(status="done", text=thread.text)
        if thread.failure is not None:
            return self._failed(thread.failure)
        if _NO_SESSION in ended.stderr:
            raise Failed("session_lost", f"{TITLE} does not know its thread {self._job.session} any more")
        if (unstarted := _NO_SERVER.search(ended.stderr)) is not None:
            raise _unserved(unstarted["which"], self._job.start.mcp_servers)
        raise unfinished(TITLE, ended)

    def _failed(self, message: str) -> Result:
        found = why(self._job.home, self._thread.id, message)
        if found.cause == "max_tokens":
            return Result(status="incomplete", text=self._thread.text, cause=found.cause)
        raise Failed(found.cause, f"{TITLE}: {message}", http_status=found.status)


def _unserved(which: str, own: Iterable[str]) -> Failed:
    """The failure of servers that did not come: ``own: why; daemon: why``, in its words."""
    for name in own:
        if re.search(rf"(?:^|; ){re.escape(name)}: ", which) and not re.search(rf"(?:^|; ){DAEMON}: ", which):
            return unserved(TITLE, name, which)
    return Failed("network", f"{TITLE} did not reach the kernel's tools: {which}", code=UNREACHED)


def _booked(start: Start, session: str | None) -> Usage:
    """What the entries of ``session`` have booked: codex counts a thread from its beginning, whoever worked on it."""
    total, in_session = Usage(), False
    for entry in start.entries:
        if entry.kind == "session":
            in_session = session is not None and entry.session == session
        if in_session and entry.usage is not None:
            total = total.plus(entry.usage)
    return total
