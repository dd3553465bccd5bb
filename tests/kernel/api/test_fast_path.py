"""The fast path beside Quart: every route that can be answered both ways gives the same bytes both ways."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from kernel.api import entry
from kernel.api.routes import ROUTES
from tests.builders.api import SALT, ServedKernel, serve_kernel
from tests.kernel.api.client import Answer

Words = tuple[str, str]
"""Method and path."""

BODIES: dict[str, Any] = {
    "POST /shutdown": {"grace": 1},
    "POST /agents": {"name": "helper", "model": "mock/x", "mock": [{"text": "hi"}]},
    "POST /workflows": {"workflow": "task"},
    "POST /serve": {"to": "@review", "text": "nobody is woken by this"},
    "POST /messages": {"to": "alice", "text": "hi"},
    "POST /spaces": {"name": "lab", "members": ["alice"]},
    "POST /instructions/cancel": {"agent": "alice", "queued": True, "dry_run": True},
    "POST /instructions/retry": {"dry_run": True},
    "POST /dead/clear": None,
    "POST /feedback": {"text": "slow"},
    "POST /reindex": None,
    "POST /tokens": {"scope": "read"},
    "POST /nodes": {"name": "gpu1", "node": {"via": "command"}},
    "POST /page/keys": {"read_only": True},
    "POST /page/token": {"key": SALT + SALT},
    "POST /worktrees/remove": {"run": None},
    "POST /prune": {"what": ["logs"], "dry_run": True},
    "POST /unblock": {"target": "alice"},
    "POST /upgrade": {"to": "/nowhere"},
}
"""A body that each of them takes; the others need none."""


async def _answers(folder: Path, words: Sequence[Words]) -> list[list[tuple[int, dict[str, str], bytes]]]:
    found = []
    async with serve_kernel(folder) as kernel:
        await kernel.ask("POST", "/workflows", {"workflow": "review"})
        await kernel.attempt()
        kernel.services.kernel.keys.page.offer(SALT + SALT, trio.current_time(), read_only=True)
        for method, path in words:
            if path == "/unblock":
                await kernel.ask("POST", "/agents/alice/pause")
            if path == "/search":
                path += "?query=hi"  # noqa: PLW2901
            body = BODIES.get(f"{method} {path}")
            wrong = b'{"no such field": 1, "no such field": 2}' if method == "POST" else None
            given = [
                await kernel.ask(method, path, raw=wrong),
                await kernel.ask(method, path, headers=kernel.headers(None)),
                await kernel.ask(method, f"{path}{'&' if '?' in path else '?'}limit=1&space=dm:alice", body),
                await kernel.ask(method, path, body),
            ]
            found.append([_normal(kernel, answer, folder) for answer in given])
    return found


def _normal(kernel: ServedKernel, answer: Answer, folder: Path) -> tuple[int, dict[str, str], bytes]:
    body = answer.body.replace(str(kernel.port).encode(), b"PORT").replace(str(folder).encode(), b"FOLDER")
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    if len(body) != len(answer.body):
        del headers["content-length"]
    return answer.status, headers, body


UNLIKE: Final = {("GET", "/events"), ("POST", "/run"), ("GET", "/metrics")}
"""Streams, and numbers that change."""
DOCUMENTS: Final = [
    *(words for words in entry.FAST if words not in UNLIKE),
    ("GET", "/agents/alice"),
    ("GET", "/agents/%61lice"),
]
READS: Final = tuple(words for words in DOCUMENTS if words[0] == "GET")
"""They change nothing: one kernel answers them all."""


@pytest.mark.parametrize("words", [READS, *((words,) for words in DOCUMENTS if words not in READS)], ids=str)
async def test_the_fast_path_and_quart_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[Words]
) -> None:
    fast = await _answers(tmp_path / "fast", words)
    monkeypatch.setattr(entry.ApiApp, "_answer", entry.ApiApp.answer_by_quart)
    by_quart = await _answers(tmp_path / "quart", words)
    for asked, one, other in zip(words, fast, by_quart, strict=True):
        assert one == other, asked
        assert min(status for status, _, _ in one) < 400, "the comparison is of answers, and not of refusals alone"


def test_every_route_with_at_most_one_variable_at_its_end_is_fast() -> None:
    streams = {route.path for route in ROUTES if route.answers is None}
    exports, pages = {"/runs/<run>/export", "/spaces/<space>/export"}, {"/page", "/page/<name>", "/page/vendor/<name>"}
    assert streams == {"/run", "/events", "/metrics"} | exports | pages
    named = {route for route, _ in entry.NAMED.values()}
    assert {*entry.FAST.values(), *named} == {route for route in ROUTES if "<" not in route.path.rpartition("/")[0]}
    assert {f"{method} {path}" for method, path in DOCUMENTS if method != "GET"} == set(BODIES)
