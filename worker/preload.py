"""What a zygote loads before it forks. Only what the project's agents need: an SDK costs seconds and 40 MiB.

Warming plays one streamed reply through each SDK's synchronous client against a transport in memory: pydantic builds
its models once, here, instead of in every worker. The asynchronous clients would leave a thread behind, and a process
that forks must have one only.
"""

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

from worker import pages

_BASE: Final = ("trio", "worker.main")


_SSE: Final = {"content-type": "text/event-stream"}
_ANTHROPIC_EVENTS: Final = (
    (
        '{"type":"message_start","message":{"id":"-","type":"message","role":"assistant","model":"-","content":[],'
        '"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}'
    ),
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"-"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"-","name":"t","input":{}}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}',
    '{"type":"content_block_stop","index":1}',
    '{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":1}}',
    '{"type":"message_stop"}',
)
_OPENAI_EVENTS: Final = (
    (
        '{"id":"-","object":"chat.completion.chunk","created":0,"model":"-","choices":[{"index":0,"delta":'
        '{"role":"assistant","content":"-","tool_calls":[{"index":0,"id":"-","type":"function","function":'
        '{"name":"t","arguments":"{}"}}]},"finish_reason":null}]}'
    ),
    (
        '{"id":"-","object":"chat.completion.chunk","created":0,"model":"-","choices":[{"index":0,"delta":{},'
        '"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
    ),
    "[DONE]",
)


def load(names: frozenset[str]) -> None:
    """Import and warm what ``names`` stand for (see WARMERS); a name that stands for nothing loads the base only.

    What cannot be imported is reported and left out: the worker that needs it then fails with the same error, where
    it is seen.
    """
    for module in _BASE:
        _attempt(module, partial(_import, module))
    _attempt("worker.rehearsal", _rehearse)
    for name in sorted(names & WARMERS.keys()):
        _attempt(name, WARMERS[name])


def freeze() -> None:
    """Move all that lives out of the collector's sight, so that a collection in a worker copies no shared page."""
    gc.collect()
    gc.disable()
    gc.freeze()
    pages.collapse()
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if threads != 1:
        sys.stderr.write(f"zygote: {threads} threads at fork; preloading must leave one\n")


def _attempt(what: str, step: Callable[[], None]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001  (third-party code at import: whatever it is, forking must still work)
        sys.stderr.write(f"zygote: cannot preload {what}: {type(error).__name__}: {error}\n")


def _import(module: str) -> None:
    importlib.import_module(module)


def _import_if_present(module: str) -> None:
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec(module) is not None:
            _import(module)


def _rehearse() -> None:
    from worker.rehearsal import rehearse  # noqa: PLC0415

    rehearse()


def _stream(events: tuple[str, ...]) -> bytes:
    """Server-sent events; Anthropic's are named after their type."""
    lines: list[str] = []
    for data in events:
        kind = data.split('"')[3] if data.startswith('{"type"') else "message"
        lines.append(f"event: {kind}\ndata: {data}\n\n")
    return "".join(lines).encode()


def _warm_anthropic() -> None:
    import anthropic  # noqa: PLC0415
    import httpx2  # noqa: PLC0415

    transport = httpx2.MockTransport(
        lambda _request: httpx2.Response(200, headers=_SSE, content=_stream(_ANTHROPIC_EVENTS))
    )
    with (
        httpx2.Client(transport=transport, trust_env=False) as http,
        anthropic.Anthropic(api_key="-", base_url="http://warm", max_retries=0, http_client=http) as client,
        client.messages.stream(
            model="-",
            max_tokens=1,
            messages=[{"role": "user", "content": "-"}],
            tools=[{"name": "t", "input_schema": {"type": "object"}}],
        ) as stream,
    ):
        stream.get_final_message()
    _import_if_present("worker.models.anthropic")


def _warm_openai() -> None:
    import httpx2  # noqa: PLC0415
    import openai  # noqa: PLC0415

    transport = httpx2.MockTransport(
        lambda _request: httpx2.Response(200, headers=_SSE, content=_stream(_OPENAI_EVENTS))
    )
    with (
        httpx2.Client(transport=transport, trust_env=False) as http,
        openai.OpenAI(api_key="-", base_url="http://warm", max_retries=0, http_client=http) as client,
        client.chat.completions.create(
            model="-", messages=[{"role": "user", "content": "-"}], stream=True, stream_options={"include_usage": True}
        ) as stream,
    ):
        for _chunk in stream:
            pass
    _import_if_present("worker.models.openai")


WARMERS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {"anthropic": _warm_anthropic, "openai": _warm_openai}
)
