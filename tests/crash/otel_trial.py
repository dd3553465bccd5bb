"""A kernel that is killed again and again while it works and tells of it: the spans that arrived against the log.

The judge reads the database with SQL of its own. It knows the ids, and nothing else of how spans are made.
"""

import random
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from kernel.policy.traces import span_id
from protocol.discovery import DATABASE
from tests.builders.collector import Collector, attributes
from tests.crash.life import Gone, InSafeMode, Life
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project

TEAM: Final = """
agents:
  carol:
    backend: mock
    mock:
      - when: 'go (?P<n>\\d+)'
        do:
          - { tool: note_write, args: { content: "went ${{ match.n }}" } }
          - { tool: channel_send, args: { message: "@dave look at ${{ match.n }}" } }
          - { text: "carol asked ${{ match.n }}" }
  dave:
    backend: mock
    mock:
      - when: 'look at (?P<n>\\d+)'
        do:
          - { tool: my_inbox }
          - { text: "dave looked at ${{ match.n }}" }
"""
FINISH_SECONDS: Final = 60.0


@dataclass
class Receiver:
    """A collector in this process, which outlives every kernel. It is away now and then."""

    chance: random.Random
    collector: Collector = field(default_factory=Collector)
    refused: int = 0
    _server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> "Receiver":
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer._lock:
                    away = outer.chance.random() < 0.1
                    outer.refused += away
                    status = 503 if away else outer.collector.take(body)
                with suppress(OSError):  # who asked is dead
                    self.send_response(status)
                    self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.collector.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def trial(project: Project, kills: int, chance: random.Random) -> tuple[int, int, list[str]]:
    """Kill so many kernels. Returns how many died, how many spans there are, and what is wrong."""
    project.write(".workflows/team.yaml", TEAM)
    died = 0
    with Receiver(chance) as receiver:
        project.write("moniro.yaml", f"otel: {{endpoint: '{receiver.collector.url}'}}\n")
        with Life(project) as life:
            life.wait_ready()
            assert life.ask("POST", "/workflows", {"workflow": "team"}, "start").accepted
            _stop(life)
        for number in range(kills):
            place = chance.choice(
                (
                    f"traces.told:{chance.randint(1, 3)}",
                    f"store.committed:{chance.randint(5, 60)}",
                    f"attempt.go:{chance.randint(1, 4)}",
                )
            )
            with Life(project, crash_at=place) as life, suppress(InSafeMode):
                try:
                    life.wait_ready()
                    for more in range(3):
                        _say_it(life, number * 3 + more)
                    _until_done(life)
                    _stop(life)
                except Gone:
                    died += life.wait_dead() == -signal.SIGKILL
        with Life(project) as life:
            try:
                life.wait_ready()
            except InSafeMode:
                _stop(life)
        with Life(project) as life:
            life.wait_ready()
            _until_done(life)
            with suppress(Gone):
                life.ask("DELETE", "/workflows/team")
            path = str(project.state / DATABASE)
            wait_until(lambda: not _untold(path, project, receiver.collector), FINISH_SECONDS)
            _stop(life)
        wrong = list(_judge(str(project.state / DATABASE), str(project.root), receiver.collector))
        return died, len(receiver.collector.spans), wrong


def _say_it(life: Life, number: int) -> None:
    life.ask("POST", "/messages", {"to": "carol@team", "text": f"go {number}"}, f"go {number}")


def _until_done(life: Life) -> None:
    """Wait until nothing is open. Raises Gone."""

    def done() -> bool:
        if life.is_dead():
            return True
        return not life.ask("GET", "/instructions?limit=1").body["instructions"]

    wait_until(done, FINISH_SECONDS)
    if life.is_dead():
        raise Gone


def _stop(life: Life) -> None:
    life.kill(signal.SIGTERM)
    life.wait_dead()


def _expected(path: str, project: str) -> Iterator[tuple[bytes, str]]:
    """The ids of the spans that the log speaks of, and what each is of."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        (born,) = conn.execute("SELECT at_ms FROM boots ORDER BY id LIMIT 1").fetchone()
        log = f"{project}\0{born}"
        for row in conn.execute(
            "SELECT instruction, epoch, k FROM entries WHERE epoch > 0 AND kind IN ('reply', 'tool')"
        ):
            yield span_id(log, *row), f"step {row}"
        for row in conn.execute("SELECT instruction, epoch FROM attempts WHERE ended_ms IS NOT NULL"):
            yield span_id(log, *row), f"attempt {row}"
        for row in conn.execute("SELECT id FROM instructions WHERE ended_ms IS NOT NULL"):
            yield span_id(log, *row), f"instruction {row}"
        for (run,) in conn.execute("SELECT id FROM workflows WHERE state = 'stopped'"):
            yield span_id(log, "run", run), f"run {run}"


def _untold(path: str, project: Project, collector: Collector) -> list[str]:
    told = {key[16:] for key in collector.spans}
    return [what for id_, what in _expected(path, str(project.root)) if id_ not in told]


def _judge(path: str, project: str, collector: Collector) -> Iterator[str]:
    """What is not as the log has it."""
    expected = dict(_expected(path, project))
    told: dict[bytes, Any] = {}
    for key, span in collector.spans.items():
        if key[16:] in told:
            yield f"{span.name} is in two traces"
        told[key[16:]] = span
    yield from (f"{what} was not told" for id_, what in expected.items() if id_ not in told)
    yield from (
        f"{span.name} {attributes(span)} is not in the log" for id_, span in told.items() if id_ not in expected
    )
    yield from (f"{collector.spans[key].name} was told in two ways" for key in collector.differing)
    for span in told.values():
        if span.parent_span_id and span.parent_span_id not in told:
            yield f"the parent of {span.name} {attributes(span)} is missing"
        elif span.parent_span_id and told[span.parent_span_id].trace_id != span.trace_id:
            yield f"{span.name} is not in the trace of its parent"


def main(kills: int, seed: int) -> int:
    """Kill ``kills`` kernels of one project. Returns 1 where something is wrong."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        died, spans, wrong = trial(empty_project(Path(folder)), kills, random.Random(seed))
    for one in wrong:
        sys.stdout.write(f"{one}\n")
    sys.stdout.write(f"seed {seed}: {died} of {kills} kernels killed, {spans} spans, {len(wrong)} wrong\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, int(sys.argv[2]) if len(sys.argv) > 2 else 20261123))
