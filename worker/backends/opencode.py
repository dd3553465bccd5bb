"""opencode: ``opencode run --format json`` (1.18.33), with a home of its own and Daemon MCP over our bridge.

The bridge, because it shows what opencode says nowhere: whether it is connected. It also keeps the token from where its
shells could see it. Nobody can be asked by it: what is not allowed is not offered.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from protocol.ipc import Result
from worker import bridge
from worker.backends import private
from worker.backends.opencode_config import OFFICIAL, PROVIDER, config, environment
from worker.backends.opencode_project import code_in
from worker.backends.opencode_stream import GOES_ON, LOG, TITLE, Replies, parse, retried
from worker.backends.opencode_trace import Trace
from worker.backends.outcome import unfinished
from worker.backends.program import Ended, Event, Job, Launch, Program, Reached
from worker.models.errors import Failed

METERED: Final = OFFICIAL
"""Dialect -> where its requests go, unless its provider has an address of its own."""
_NO_SESSION: Final = "Session not found"
"""Its word for an end that leaves nothing on standard output: it is all there is."""
_PYTHON: Final = (sys.prefix, sys.base_prefix, str(Path(bridge.__file__).parents[1]))
"""What the bridge is made of."""
_INSTALLED: Final = '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}'
"""What it takes for a sign that packages for plugins, which it is not to load, are there: else it fetches 60 MB."""


def open(job: Job) -> Program:  # noqa: A001  (what every backend's file is entered by)
    """One attempt. Raises Failed where opencode would run code of the project by itself."""
    code = code_in(Path(job.start.cwd))
    if code is not None:
        text = f"{TITLE} would run code of the project as it starts: {code}; remove that, or choose another backend"
        raise Failed("untrusted", text)
    return Opencode(job)


class Opencode:
    """One process of it: a session begun, or gone on with."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._replies = Replies()
        self._trace = Trace(Path(job.start.cwd))
        self._mark = job.place / "opencode.listed"
        self._reached = False

    def launch(self) -> Launch:
        """How to start it. Writes its configuration. Raises Failed."""
        job = self._job
        self._prepare_home()
        session = () if job.session is None else (f"--session={job.session}",)
        model = f"--model={PROVIDER}/{job.start.model}"
        argv = (job.binary, "run", "--print-logs", "--log-level", "INFO", "--format", "json", model)
        env = environment(job.env, home=job.home, config=self._write_config())
        env["TMPDIR"] = str(job.place)  # it unpacks a library there each time, and leaves it
        argv += (f"--title={job.start.agent}", *session)
        return Launch(argv=argv, env=env, stdin=job.message.encode(), see=_PYTHON, log=LOG)

    def read(self, line: bytes) -> Iterator[Event]:
        """What one line means. The first comes after its first reply, and so after it has looked for its tools."""
        log = retried(line)
        if log is not None:
            yield from log
            return
        self._trace.wipe()
        if not self._reached and self._mark.exists():
            self._reached = True
            yield Reached()
        parsed = parse(line)
        if parsed is not None:
            yield from self._replies.take(parsed)

    def conclude(self, ended: Ended) -> Result:
        """What came of it. Raises Failed."""
        self._trace.wipe()
        replies = self._replies
        if replies.failure is not None:
            raise replies.failure
        if _NO_SESSION in ended.stderr:
            raise Failed("session_lost", f"{TITLE} does not know its session {self._job.session} any more")
        if not ended.well or replies.reason in ("", GOES_ON):
            raise unfinished(TITLE, ended)
        if replies.reason == "length":
            return Result(status="incomplete", text=replies.text, cause="max_tokens")
        return Result(status="done", text=replies.text)

    def _prepare_home(self) -> None:
        modules = private.folder(self._job.home, "config", "opencode", "node_modules")
        private.write(modules.parent / "package-lock.json", _INSTALLED)

    def _write_config(self) -> Path:
        job, place = self._job, self._job.place
        key = job.start.provider.api_key if job.start.provider is not None else None
        told = bridge.Pass(url=job.start.mcp.url, token=job.start.token, mark=str(self._mark))
        daemon = private.write(place / "daemon.json", msgspec.json.encode(told).decode())
        written = config(
            job.start,
            bridge=(sys.executable, "-I", "-m", "worker.bridge", str(daemon)),
            key=private.write(place / "provider.key", key) if key else None,
            endpoint=job.endpoint,
            system=private.write(job.home / "system.md", job.start.system),
        )
        return private.write(place / "opencode.json", msgspec.json.encode(written).decode())
