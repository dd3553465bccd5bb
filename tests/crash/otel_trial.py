"""A kernel that is killed again and again while it works and tells of it: the spans that arrived against the log.

The judge reads the database with SQL of its own. It knows the ids, and nothing else of how spans are made.
"""

import random
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from kernel.policy.traces import span_id
from protocol.discovery import DATABASE
from tests.builders.collector import Collector, attributes
from tests.builders.http_server import Asked, Reply, serving
from tests.crash.life import Gone, InSafeMode, Life
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project
from tests.soak import rows, run_trial, say

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


@contextmanager
def collecting(chance: random.Random) -> Generator[Collector]:
    """A collector in this process, which outlives every kernel. It refuses every tenth request."""
    collector, lock = Collector(), threading.Lock()

    def take(asked: Asked) -> Reply:
        with lock:
            return Reply(503 if chance.random() < 0.1 else collector.take(asked.body))

    with serving(take) as collector.port:
        yield collector


def trial(project: Project, kills: int, chance: random.Random) -> tuple[int, int, list[str]]:
    """Kill so many kernels. Returns how many died, how many spans there are, and what is wrong."""
    project.write(".workflows/team.yaml", TEAM)
    died = 0
    with collecting(chance) as collector:
        project.write("moniro.yaml", f"otel: {{endpoint: '{collector.url}'}}\n")
        with Life(project) as life:
            life.wait_ready()
            assert life.ask("POST", "/workflows", {"workflow": "team"}, "start").accepted
            life.stop()
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
                        life.ask("POST", "/messages", {"to": "carol@team", "text": f"go {number * 3 + more}"})
                    life.until(lambda: not life.ask("GET", "/instructions?limit=1").body["instructions"])
                    life.stop()
                except Gone:
                    died += life.wait_dead() == -signal.SIGKILL
        with Life(project) as life:
            try:
                life.wait_ready()
            except InSafeMode:
                life.stop()
        with Life(project) as life:
            life.wait_ready()
            life.until(lambda: not life.ask("GET", "/instructions?limit=1").body["instructions"])
            with suppress(Gone):
                life.ask("DELETE", "/workflows/team")
            path = str(project.state / DATABASE)
            wait_until(lambda: not _untold(path, project, collector), FINISH_SECONDS)
            life.stop()
        wrong = list(_judge(str(project.state / DATABASE), str(project.root), collector))
        return died, len(collector.spans), wrong


STEPS: Final = "SELECT instruction, epoch, k FROM entries WHERE epoch > 0 AND kind IN ('reply', 'tool')"
ATTEMPTS: Final = "SELECT instruction, epoch FROM attempts WHERE ended_ms IS NOT NULL"
INSTRUCTIONS: Final = "SELECT id FROM instructions WHERE ended_ms IS NOT NULL"
RUNS: Final = "SELECT 'run', id FROM workflows WHERE state = 'stopped'"


def _expected(path: str, project: str) -> Iterator[tuple[bytes, str]]:
    [(born,)] = rows(path, "SELECT at_ms FROM boots ORDER BY id LIMIT 1")
    for what, question in (("step", STEPS), ("attempt", ATTEMPTS), ("instruction", INSTRUCTIONS), ("", RUNS)):
        yield from ((span_id(f"{project}\0{born}", *row), f"{what} {row}") for row in rows(path, question))


def _untold(path: str, project: Project, collector: Collector) -> list[str]:
    told = {key[16:] for key in collector.spans}
    return [what for id_, what in _expected(path, str(project.root)) if id_ not in told]


def _judge(path: str, project: str, collector: Collector) -> Iterator[str]:
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


def main(base: Path, kills: int, seed: int) -> int:
    """Kill ``kills`` kernels of one project. Returns 1 where something is wrong."""
    died, spans, wrong = trial(empty_project(base), kills, random.Random(seed))
    for one in wrong:
        say(one)
    say(f"seed {seed}: {died} of {kills} kernels killed, {spans} spans, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    run_trial(main, 100, 20261123)
