"""The cost of durability and identity per request, as a share of a handler that does nothing."""

import hashlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import apsw

from protocol.discovery import DATABASE
from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import Connection, rate
from scripts.benchmarks.running_kernel import MeasuredProject, running

CLIENTS = 16
SECONDS = 2.0
ROUNDS = 3
TOKEN = "bench-token-of-a-worker-that-sleeps"
FILES = {
    ".workflows/bench.yaml": """
        agents:
          busy: { backend: mock, mock: [ { sleep: 600 } ], limits: { messages: 1000000, bytes: 1GiB } }
    """
}
MODERN = "2026-07-28"


@contextmanager
def bare() -> Generator[int]:
    """The port of the yardstick, in a process of its own."""
    command = [sys.executable, "-m", "scripts.benchmarks.bare"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def _use_our_token(measured: MeasuredProject) -> None:
    """Let the sleeping worker's attempt be ours: only the hash of its token is stored, so store another."""
    connection = apsw.Connection(str(measured.project.state / DATABASE))
    connection.set_busy_timeout(5000)
    digest = hashlib.sha256(TOKEN.encode()).digest()
    connection.execute("UPDATE attempts SET token_hash = ? WHERE ended_ms IS NULL", (digest,))
    assert connection.changes() == 1
    connection.close()


def _tool(measured: MeasuredProject, name: str, arguments: dict[str, object]) -> Callable[[int], Callable[[], object]]:
    ids = itertools.count()
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN}
    headers |= {"mcp-method": "tools/call", "mcp-name": name}

    def make(_: int) -> Callable[[], object]:
        connection = measured.connect(TOKEN, **headers)

        def call() -> None:
            number = next(ids)
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
                "agent-worker/call": f"call-{number}",
            }
            params = {"name": name, "arguments": arguments, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            answer = connection.call("POST", "/mcp", body)
            if answer["result"].get("isError"):
                raise RuntimeError(str(answer))

        return call

    return make


def _post(make: Callable[[], Connection], path: str, body: object) -> Callable[[int], Callable[[], object]]:
    def client(_: int) -> Callable[[], object]:
        connection = make()
        return lambda: connection.call("POST", path, body)

    return client


def measure() -> Iterator[Figure]:
    """Interleaved rounds, so that a slow moment of the machine hits all alike."""
    with bare() as port, running(FILES) as measured:
        started = measured.project.awk("start", "bench", "--trust")
        assert started.code == 0, started.err
        sent = measured.connect().call("POST", "/messages", {"to": "busy@bench", "text": "sleep"})
        measured.until_leased(sent["instruction_ids"][0])
        _use_our_token(measured)
        said = {"to": "@bench", "text": "x" * 200}
        kinds = {
            "bare": _post(lambda: Connection(port), "/", said),
            "POST /messages, share of a bare handler": _post(measured.connect, "/messages", said),
            "MCP team_members, share of a bare handler": _tool(measured, "team_members", {}),
            "MCP channel_send, share of a bare handler": _tool(measured, "channel_send", {"message": "x" * 200}),
        }
        rates: dict[str, list[float]] = {name: [] for name in kinds}
        for name, make in [*kinds.items()] * ROUNDS:
            rates[name].append(rate(make, CLIENTS, SECONDS))
        yardstick = p50(rates.pop("bare"))
        for name, values in rates.items():
            yield Figure(name, p50(values) / yardstick, 0.6, "x", least=True)
