"""Time from a message to the model's first request: the overhead of the kernel, the fork and the model client."""

import json
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.running_kernel import running
from tests.builders.http_server import Asked, Reply, serving

WARM_UP = 5
TIMES = 50
ANTHROPIC_EVENTS: tuple[dict[str, Any], ...] = (
    {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 1},
    },
    {"type": "message_stop"},
)  # fmt: skip
_CHUNK: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
OPENAI_EVENTS: tuple[dict[str, Any], ...] = (
    _CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}]},
    _CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    _CHUNK | {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
)


def _stream(path: str) -> bytes:
    if path.endswith("/messages"):
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in ANTHROPIC_EVENTS).encode()
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in OPENAI_EVENTS) + "data: [DONE]\n\n").encode()


@contextmanager
def endpoint() -> Generator[tuple[int, "Queue[float]"]]:
    """Serve a model that always replies ``hi``. Yields the port, and a queue of arrival times (``perf_counter``)."""
    arrivals: Queue[float] = Queue()

    def take(asked: Asked) -> Reply:
        arrivals.put(time.perf_counter())
        return Reply(body=_stream(asked.path), fields={"content-type": "text/event-stream"})

    with serving(take) as port:
        yield port, arrivals


def _agent(dialect: str, port: int) -> str:
    suffix = "/v1" if dialect == "openai" else ""
    endpoint = (
        f"{{ name: bench, base_url: 'http://127.0.0.1:{port}{suffix}', api_key: $BENCH_KEY, dialect: {dialect} }}"
    )
    return f"model: {dialect}/bench\nprovider: {endpoint}\nprompt: {{ system: Answer. }}\n"


def measure() -> Iterator[Figure]:
    """Yield a figure for each dialect of model APIs, measured with one kernel."""
    with endpoint() as (port, arrivals):
        files = {f".agents/{dialect}.yaml": _agent(dialect, port) for dialect in ("anthropic", "openai")}
        with running(files, env={"BENCH_KEY": "none", "AGENT_WORKER_TRUST": "1"}) as measured:
            connection = measured.connect()
            for dialect in ("anthropic", "openai"):
                taken: list[float] = []
                for _ in range(WARM_UP + TIMES):
                    begin = time.perf_counter()
                    connection.call("POST", "/serve", {"to": dialect, "text": "hello"})
                    taken.append((arrivals.get(timeout=5) - begin) * 1000)
                yield Figure(f"send to first {dialect} request, p50", p50(taken[WARM_UP:]), 60, "ms")
