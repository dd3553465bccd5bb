"""Projects with a running kernel for benchmarks, and the CPU time of a kernel."""

import hashlib
import http.client
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw
import psutil

from protocol.discovery import DATABASE
from scripts.benchmarks.load import LoadConnection
from tests import project
from tests.project import Project

MOCK: Final = "backend: mock\nmock:\n  - text: hi\n"
MEMBER: Final = "backend: mock, mock: [ { sleep: 600 } ], limits: { messages: 1000000, bytes: 1GiB }"
LIVE: Final = """
SELECT a.instruction, a.epoch, i.name FROM attempts AS a JOIN instructions AS i ON i.id = a.instruction
WHERE a.ended_ms IS NULL
"""
SET_TOKEN: Final = "UPDATE attempts SET token_hash = ? WHERE instruction = ? AND epoch = ?"
MODERN: Final = "2026-07-28"
SETTLE_SECONDS: Final = 5.0
SECONDS: Final = 30.0


@dataclass(frozen=True)
class MeasuredProject:
    """Project with the port, token and pid of its running kernel."""

    project: Project
    port: int
    token: str
    pid: int

    def connect(self, token: str | None = None, **headers: str) -> LoadConnection:
        """Return a connection with ``token`` (default: the administrator's token)."""
        return LoadConnection(self.port, {"authorization": f"Bearer {token or self.token}", **headers})

    @contextmanager
    def events(self, query: str) -> Generator[Iterator[Any]]:
        """Yield an iterator over the data of events. Queries of the process table instead would load the kernel."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/events?{query}", headers={"Authorization": f"Bearer {self.token}"})
        lines = connection.getresponse()
        try:
            yield (json.loads(line[6:])["data"] for line in lines if line.startswith(b"data: "))
        finally:
            connection.close()

    def until_leased(self, instruction: str) -> None:
        """Wait until ``instruction`` is leased to an attempt. Raises TimeoutError."""
        connection = self.connect()
        deadline = time.perf_counter() + 30
        while connection.call("GET", f"/instructions/{instruction}")["status"] == "queued":
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{instruction} did not start")
            time.sleep(0.01)


@contextmanager
def empty_project() -> Generator[Project]:
    """Yield a project without agents; stop its kernel at the end, if any."""
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        made = project.empty_project(Path(folder))
        try:
            yield made
        finally:
            made.stop()


@contextmanager
def running(files: dict[str, str], env: dict[str, str] | None = None) -> Generator[MeasuredProject]:
    """Yield a project of ``files`` (path -> text) whose kernel ``awk start`` has started. Raises RuntimeError."""
    with empty_project() as made:
        for path, text in files.items():
            made.write(path, text)
        started = made.awk("start", "--trust", env=env)
        if started.code:
            raise RuntimeError(started.err)
        record = made.record()
        yield MeasuredProject(made, record["port"], record["token"], record["pid"])


class Team:
    """Busy members of a running workflow ``team``, and calls of Daemon MCP tools on their behalf."""

    def __init__(self, measured: MeasuredProject, size: int) -> None:
        self.measured = measured
        self.names = [f"m{number}" for number in range(size)]
        self._calls = itertools.count()
        admin = measured.connect()
        for name in self.names:
            sent = admin.call("POST", "/messages", {"to": f"{name}@team", "text": "sleep"})
            measured.until_leased(sent["instruction_ids"][0])
        # The kernel stores only hashes of the attempts' tokens: replace them by hashes of known tokens.
        connection = apsw.Connection(str(measured.project.state / DATABASE))
        connection.set_busy_timeout(5000)
        for number, epoch, member in connection.execute(LIVE).fetchall():
            digest = hashlib.sha256(f"token of {member}".encode()).digest()
            connection.execute(SET_TOKEN, (digest, number, epoch))
        connection.close()

    def tool(self, member: str, name: str) -> Callable[[dict[str, object]], dict[str, Any]]:
        """Return a function that calls the tool ``name`` as ``member`` and returns the MCP result."""
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN}
        headers |= {"mcp-method": "tools/call", "mcp-name": name}
        connection = self.measured.connect(f"token of {member}", **headers)

        def call(arguments: dict[str, object]) -> dict[str, Any]:
            number = next(self._calls)
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
                "agent-worker/call": f"call-{number}",
            }
            params = {"name": name, "arguments": arguments, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            result: dict[str, Any] = connection.call("POST", "/mcp", body)["result"]
            return result

        return call


@contextmanager
def working_team(size: int) -> Generator[Team]:
    """Yield a team of ``size`` members, all of which sleep in a tool call."""
    members = "\n".join(f"  m{number}: {{ {MEMBER} }}" for number in range(size))
    files = {".workflows/team.yaml": f"agents:\n{members}\n", ".agents.yaml": f"limits: {{ workers: {2 * size} }}\n"}
    with running(files) as measured:
        started = measured.project.awk("start", "team", "--trust")
        assert started.code == 0, started.err
        yield Team(measured, size)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of the kernel and its descendant processes so far."""
    kernel = psutil.Process(pid)
    times = [process.cpu_times() for process in (kernel, *kernel.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def cpu_share(pid: int) -> float:
    """Return the CPU use of the kernel and its descendants, in percent of one core, over SECONDS."""
    time.sleep(SETTLE_SECONDS)
    before = cpu_seconds(pid)
    time.sleep(SECONDS)
    return (cpu_seconds(pid) - before) / SECONDS * 100
