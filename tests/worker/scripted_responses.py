"""OpenAI's Responses API as a stream of events, for ``ScriptedApi``: what our clients read of it and nothing more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.worker.scripted_api import Call, Say

Event = tuple[str, dict[str, Any]]


def responses(say: "Say") -> Iterator[Event]:
    head = {"id": "resp_1", "object": "response", "model": "scripted", "output": []}
    yield _event("response.created", response={**head, "status": "in_progress"})
    items = [*_reasoning(say), *_message(say), *(_call(number, call) for number, call in enumerate(say.calls))]
    for index, item in enumerate(items):
        yield _event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
        if item["type"] == "message":
            yield from _deltas(index, item["id"], say)
        yield _event("response.output_item.done", output_index=index, item=item)
    yield _event("response.completed", response={**head, "status": "completed", "output": items, "usage": _usage(say)})


def _event(kind: str, **fields: Any) -> Event:
    return kind, {"type": kind, **fields}


def _reasoning(say: "Say") -> list[dict[str, Any]]:
    if not say.thinking:
        return []
    return [{"id": "rs_0", "type": "reasoning", "summary": [], "encrypted_content": f"sealed:{say.thinking}"}]


def _message(say: "Say") -> list[dict[str, Any]]:
    if not say.text:
        return []
    content = [{"type": "output_text", "text": say.text, "annotations": []}]
    return [{"id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": content}]


def _call(number: int, call: "Call") -> dict[str, Any]:
    namespace, _, name = call.name.rpartition("__")
    id_ = call.id or f"call_{number}"
    item = {"id": f"fc_{id_}", "type": "function_call", "status": "completed", "call_id": id_, "arguments": call.args}
    return {**item, "name": name, **({"namespace": namespace} if namespace else {})}


def _deltas(index: int, item_id: str, say: "Say") -> Iterator[Event]:
    for start in range(0, len(say.text), say.chunk):
        delta = say.text[start : start + say.chunk]
        yield _event("response.output_text.delta", output_index=index, content_index=0, item_id=item_id, delta=delta)


def _usage(say: "Say") -> dict[str, Any]:
    read = say.input_tokens + say.cached_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": say.cached_tokens},
        "output_tokens": say.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + say.output_tokens,
    }
