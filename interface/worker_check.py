"""Check of a worker program against the worker protocol (contracts 6), run as a kernel would run it.

The program runs four times: to its end; with the entries of the first run, as after a crash; with a request to yield to
more urgent work; and with a request to stop. A stub replaces the kernel's tools; no kernel is used and no data stored.
"""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

import msgspec

from protocol.inspection import WorkerCheckRow
from protocol.ipc import (
    PROTOCOL,
    Entry,
    Error,
    Go,
    KernelFrame,
    Limits,
    McpAddress,
    Ping,
    Pong,
    Ready,
    Result,
    Start,
    Stop,
    WorkerFrame,
    Yield,
)

LINE_BYTES: Final = 1024 * 1024
LEAVE_SECONDS: Final = 30.0
"""Time for a program to exit after its result: an interpreter with large libraries takes seconds on a busy machine."""
STOP_SECONDS: Final = 5.0
EAGER_SECONDS: Final = 0.2
"""Time in which a program that does not wait for an answer is expected to continue."""
TOKEN: Final = "of-a-check"
_SHOWN: Final = 160
_KINDS: Final = frozenset({"ready", "entry", "delta", "progress", "log", "pong", "result", "error"})

FIXES: Final = {
    "starts": "name a program that can be executed, with its arguments",
    "ready": 'say {"t":"ready","pid":PID,"version":"1"} first of all, before you read anything',
    "frames": "write one JSON object a line to standard output, at most 1 MiB, and all else to standard error",
    "pong": 'answer {"t":"ping","n":N} with {"t":"pong","n":N} within 30 s, whatever else you do',
    "entries": "number entries from first_k on, over all attempts and without a gap",
    "waits": "wait for go or yield after each entry; the entry is not durable before",
    "result": 'end with {"t":"result","status":"done","text":...}, or an error with its cause',
    "leaves": "leave once the result is said: what runs on is killed",
    "resumes": "continue after the entries of the start frame and do not write them again",
    "yields": 'after {"t":"yield"} end with {"t":"result","status":"yielded"}',
    "stops": 'after {"t":"stop"} end within its deadline_seconds',
}
"""Checks in order, each with its fix."""


class WorkerCheck:
    """Findings about a program by check."""

    def __init__(self, argv: Sequence[str], cwd: str, message: str, seconds: float) -> None:
        self._argv = tuple(argv)
        self._cwd = cwd
        self._message = message
        self._seconds = seconds
        self._found: dict[str, tuple[bool, str]] = {}

    def rows(self) -> tuple[WorkerCheckRow, ...]:
        """Run the program and return the results. Checks that were not reached count as failed."""
        with _Tools() as tools:
            written = self._whole_run(tools)
            if written is not None:
                self._second_run(tools, written)
                self._urgent_run(tools, written)
                self._stopped_run(tools)
        rest = (False, "not reached")
        return tuple(
            WorkerCheckRow(check=name, ok=ok, detail=detail, fix="" if ok else fix)
            for name, fix in FIXES.items()
            for ok, detail in (self._found.get(name, rest),)
        )

    def _note(self, name: str, fault: str, fine: str) -> None:
        """Record a failed check with ``fault``, or a passed one (no fault) with ``fine``. The first fault remains."""
        if self._found.get(name, (True, ""))[0]:
            self._found[name] = (not fault, fault or fine)

    def _whole_run(self, tools: "_Tools") -> list[Entry] | None:
        """Follow the session from ready to end. Returns the written entries; None without an end."""
        try:
            program = _Program(self._argv, self._cwd)
        except OSError as error:
            self._note("starts", f"{self._argv[0]}: {error.strerror}", "")
            return None
        with program:
            self._note("starts", "", f"as {' '.join(self._argv)}"[:_SHOWN])
            first = program.hear(self._seconds)
            if not isinstance(first, Ready):
                self._note("ready", f"first came {_named(first, program)}", "")
                self._note("frames", program.wrong, "each line is one")
                return None
            other = first.protocol[0] != PROTOCOL[0]
            self._note("ready", f"it speaks protocol {first.protocol[0]}" if other else "", f"version {first.version}")
            program.say(Ping(n=7), self._start(tools))
            ponged: list[int] = []
            written, ended = self._follow(program, ponged)
            self._note("pong", "" if 7 in ponged else "no pong came before its end", "answered")
            self._note("entries", "", f"{len(written)} written" if written else "none written: it cannot resume")
            self._note("waits", "", "for each answer" if written else "nothing to wait for")
            if not isinstance(ended, Result | Error):
                self._note("result", f"instead of an end came {_named(ended, program)}", "")
            else:
                failed = f"error {ended.cause}: {ended.text}" if isinstance(ended, Error) else ""
                self._note("result", failed[:_SHOWN], f"{getattr(ended, 'status', '')}: {ended.text}"[:_SHOWN])
                left = program.leaves(LEAVE_SECONDS)
                self._note("leaves", "" if left else f"it still ran {LEAVE_SECONDS:.0f} s after its end", "at once")
            self._note("frames", program.wrong, "each line is one")
            return written if isinstance(ended, Result) else None

    def _second_run(self, tools: "_Tools", written: list[Entry]) -> None:
        if not written:
            self._note("resumes", "", "it starts over: no entries")
            return
        with _Program(self._argv, self._cwd) as program:
            program.hear(self._seconds)
            program.say(self._start(tools, tuple(written)))
            _more, ended = self._follow(program, [], first_k=len(written), name="resumes")
            missing = "" if isinstance(ended, Result) else f"instead of a result came {_named(ended, program)}"
            self._note("resumes", missing, f"behind {len(written)} entries")

    def _urgent_run(self, tools: "_Tools", written: list[Entry]) -> None:
        if not written or written[0].last:
            self._note("yields", "", "it has no entry behind which it could")
            return
        with _Program(self._argv, self._cwd) as program:
            program.hear(self._seconds)
            program.say(self._start(tools))
            more, ended = self._follow(program, [], yields=True)
            stopped = isinstance(ended, Result) and len(more) == 1  # or the entry was the last one
            came = f"{len(more) - 1} more entries" if len(more) > 1 else _named(ended, program)
            self._note("yields", "" if stopped else f"after yield came {came}", f"with {_named(ended, program)}")

    def _stopped_run(self, tools: "_Tools") -> None:
        with _Program(self._argv, self._cwd) as program:
            program.hear(self._seconds)
            program.say(self._start(tools), Stop(reason="cancelled", deadline_seconds=STOP_SECONDS))
            left = program.leaves(STOP_SECONDS)
            self._note("stops", "" if left else f"it still ran {STOP_SECONDS:.0f} s later", "in time")

    def _follow(
        self, program: "_Program", ponged: list[int], *, first_k: int = 0, yields: bool = False, name: str = "entries"
    ) -> tuple[list[Entry], object]:
        written: list[Entry] = []
        until = time.monotonic() + self._seconds
        while isinstance(frame := program.hear(until - time.monotonic()), WorkerFrame):
            if isinstance(frame, Pong):
                ponged.append(frame.n)
            if isinstance(frame, Result | Error):
                return written, frame
            if not isinstance(frame, Entry):
                continue
            k = first_k + len(written)
            if frame.k != k:
                self._note(name, f"entry {frame.k} came where {k} was next", "")
            written.append(frame)
            if frame.last:
                continue
            early = program.next_durable(EAGER_SECONDS)
            if early is not None:
                self._note("waits", f"{_named(early, program)} came before its answer", "")
            program.say(Yield(k=frame.k) if yields else Go(k=frame.k))
        return written, frame

    def _start(self, tools: "_Tools", entries: tuple[Entry, ...] = ()) -> Start:
        return Start(
            instruction="i1",
            attempt=f"i1-{2 if entries else 1}",
            epoch=2 if entries else 1,
            agent="checked",
            space="dm:checked",
            backend="exec",
            model="",
            provider=None,
            system="",
            messages=(),
            message=self._message,
            entries=entries,
            limits=Limits(),
            mcp=McpAddress(url=tools.url),
            token=TOKEN,
            cwd=self._cwd,
            env={},
            idempotency_key="check",
            source_text=self._message,
            interrupted=bool(entries),
            attempt_dir=tools.folder,
        )


class _Timeout:
    """Result of a wait in which no frame arrived in time."""


class _Gone:
    """Marks the end of the output: the program exited or closed its standard output."""


def _named(frame: object, program: "_Program") -> str:
    if isinstance(frame, _Timeout):
        return "nothing in time"
    if isinstance(frame, _Gone):
        said = program.complaint()
        return f"its end (exit code {program.code()}){f', after: {said}' if said else ''}"
    if isinstance(frame, Result):
        return f"result {frame.status}"
    return type(frame).__name__.lower()


class _Program:
    """Run of the program in a separate session, whose processes are killed at the end."""

    def __init__(self, argv: Sequence[str], cwd: str) -> None:
        self.wrong = ""
        """First invalid line of the output, with the reason."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the program)
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except BaseException:
            self._errors.close()
            raise
        self._frames: queue.Queue[object] = queue.Queue()
        self._kept: list[object] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(LEAVE_SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):
                if stream is not None:
                    stream.close()

    def say(self, *frames: KernelFrame) -> None:
        """Write frames, unless the program has exited."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"".join(msgspec.json.encode(frame) + b"\n" for frame in frames))
            self._process.stdin.flush()

    def hear(self, seconds: float) -> object:
        """Return the next frame of the program, or the reason that there is none."""
        if self._kept:
            return self._kept.pop(0)
        return self._later(time.monotonic() + seconds)

    def next_durable(self, seconds: float) -> object:
        """Return a durable frame that the program wrongly writes before an answer; None if it waits ``seconds``."""
        until = time.monotonic() + seconds
        while not isinstance(frame := self._later(until), _Timeout):
            self._kept.append(frame)
            if isinstance(frame, Entry | Result | Error | _Gone):
                return frame
        return None

    def _later(self, until: float) -> object:
        try:
            return self._frames.get(timeout=max(until - time.monotonic(), 0.0))
        except queue.Empty:
            return _Timeout()

    def leaves(self, seconds: float) -> bool:
        """Return whether the program exits within ``seconds``."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def code(self) -> int | None:
        """Return the exit code after at most LEAVE_SECONDS; None if the program still runs."""
        self.leaves(LEAVE_SECONDS)
        return self._process.returncode

    def complaint(self) -> str:
        """Return the last line of the program's standard error, shortened."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LINE_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:_SHOWN] if lines else ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(LINE_BYTES + 1):
            try:
                if len(line) > LINE_BYTES:
                    raise ValueError("longer than 1 MiB")
                if not line.strip():
                    continue
                if msgspec.json.decode(line, type=_Tagged).t in _KINDS:
                    self._frames.put(msgspec.json.decode(line, type=WorkerFrame))
            except ValueError as error:
                shown = line[:60].decode("utf-8", "replace").strip()
                self.wrong = self.wrong or f"{shown!r} is no frame: {error}"[:_SHOWN]
        self._frames.put(_Gone())


class _Tagged(msgspec.Struct):
    t: str


class _Tools:
    """Stub of the kernel tools: MCP over loopback HTTP that reports success for each call."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _ToolsHandler)
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = self._temporary.name
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._temporary.cleanup()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    match request.get("method"):
        case "initialize":
            version = request.get("params", {}).get("protocolVersion", "2025-06-18")
            server = {"name": "agent-worker", "version": "check"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            names: Iterable[str] = ("channel_send", "channel_read", "ask_agent")
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "{}"}], "structuredContent": {}, "isError": False}
        case _:
            return {}


class _ToolsHandler(BaseHTTPRequestHandler):
    """Handler that only answers POST requests with the token of the start frame."""

    def do_POST(self) -> None:
        size = min(int(self.headers.get("content-length") or 0), LINE_BYTES)
        body = self.rfile.read(size)
        status, answer = 401, b"{}"
        if self.headers.get("authorization") == f"Bearer {TOKEN}":
            try:
                request = json.loads(body)
            except ValueError:
                request = {}
            asked = isinstance(request, dict) and request.get("id") is not None
            status = 200 if asked else 202
            document = {"jsonrpc": "2.0", "id": request["id"], "result": _answer(request)} if asked else {}
            answer = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log of the server, because standard error belongs to the user."""
