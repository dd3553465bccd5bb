"""OpenAI's Responses API through the SDK, with streaming: for models that no other API serves.

The native form of a reply is its list of output items, including encrypted reasoning: the API stores nothing for us
(``store`` is false), and requires the items back unchanged to continue its reasoning.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from protocol.instruction import Usage
from protocol.ipc import Entry, Start, ToolCall
from worker.conversation import Conversation, clean
from worker.models.model import CUT, Failed, Stop, StreamSink, cause_in, codes_in, message_in, replayed, to_native
from worker.models.sdk_client import SdkModel, max_tokens, say, unfinished
from worker.tool import ToolSpec, arguments_json, as_object

DIALECT: Final = "openai-responses"
INCOMPLETE: Final[Mapping[str, Stop]] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
"""All documented reasons of an incomplete response."""
_ENDED: Final = frozenset({"response.completed", "response.incomplete"})
_FAILED: Final = frozenset({"response.failed", "error"})
_CALL: Final = "function_call"
Item = dict[str, Any]


def tools(specs: Iterable[ToolSpec]) -> list[Item]:
    """Return the tools in the format of the API."""
    described = ((spec.name, spec.description, msgspec.json.decode(spec.input_schema)) for spec in specs)
    return [
        {"type": "function", "name": name, "description": about, "parameters": schema, "strict": False}
        for name, about, schema in described
    ]


def items(conversation: Conversation) -> list[Item]:
    """Return the conversation as input items, without the system prompt, which is sent as ``instructions``."""
    out: list[Item] = [{"role": turn.role, "content": turn.text} for turn in conversation.opening]
    for step in conversation.shown:
        reply = step.reply
        said: list[Item] | None
        said, ids = replayed(step, DIALECT)
        if said is None:
            # The API refuses incomplete items: half a call, or reasoning without its result.
            said = [{"role": "assistant", "content": reply.text}] if reply.text.strip() else []
            for id_, call in zip(ids, reply.calls, strict=True):
                said.append({"type": _CALL, "call_id": id_, "name": call.name, "arguments": bytes(call.args).decode()})
        out += map(_sendable, said)
        answered = zip(ids, step.results, strict=False)
        out += [{"type": "function_call_output", "call_id": id_, "output": one.text} for id_, one in answered]
        out += [{"role": "user", "content": note.text} for note in step.notes]
    return out


class ResponsesDraft:
    """A partial reply, built from events."""

    def __init__(self) -> None:
        self._items: dict[int, Item] = {}
        self._response: Mapping[str, Any] = {}
        self.ended = False
        self.error: Mapping[str, Any] | None = None
        """The API's own error, if it reported one."""

    def take(self, event: Mapping[str, Any]) -> str:
        """Process one event. Returns the text that the event adds to the visible reply."""
        kind = event.get("type", "")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            return str(event.get("delta") or "")
        if kind == "response.output_item.done":
            self._items[event.get("output_index", len(self._items))] = dict(event.get("item") or {})
        elif kind in _ENDED:
            self._response, self.ended = event.get("response") or {}, True
        elif kind in _FAILED:
            self.error = (event.get("response") or event).get("error") or event
        return ""

    def reply(self, k: int) -> Entry:
        """Return the complete reply as entry ``k``. Call it only after the last event."""
        native = [item for _, item in sorted(self._items.items())]
        calls = tuple(_tool_call(k, index, item) for index, item in enumerate(native) if item.get("type") == _CALL)
        text, refusal = _parts(native, "output_text", "text"), _parts(native, "refusal", "refusal")
        if self._response.get("status") == "incomplete":
            reason = str((self._response.get("incomplete_details") or {}).get("reason") or "incomplete")
            stop = INCOMPLETE.get(reason, reason)
        else:
            stop = "tool_use" if calls else "refusal" if refusal and not text else "end_turn"
        # Cached tokens are counted separately; input_tokens include them.
        usage: Mapping[str, Any] = self._response.get("usage") or {}
        cached = (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0
        return Entry(
            k=k,
            kind="reply",
            stop_reason=stop,
            text=clean(text or refusal),
            calls=() if stop in CUT else calls,
            native=to_native(DIALECT, native),
            usage=Usage(
                input_tokens=max(0, (usage.get("input_tokens") or 0) - cached),
                output_tokens=usage.get("output_tokens") or 0,
                cache_read_tokens=cached,
            ),
        )


def _tool_call(k: int, index: int, item: Item) -> ToolCall:
    item["call_id"] = item.get("call_id") or f"call-{k}-{index}"
    name, arguments = str(item.get("name") or ""), str(item.get("arguments") or "")
    return ToolCall(id=clean(item["call_id"]), name=clean(name), args=arguments_json(arguments))


def _sendable(item: Item) -> Item:
    """Return ``item`` with valid arguments: some servers parse them, and fail unless they are an object."""
    if item.get("type") != _CALL or as_object(arguments_json(str(item.get("arguments") or ""))) is not None:
        return item
    return item | {"arguments": "{}"}


def _parts(native: Iterable[Item], kind: str, key: str) -> str:
    contents = (item.get("content") or () for item in native if item.get("type") == "message")
    return "".join(str(part.get(key) or "") for content in contents for part in content if part.get("type") == kind)


_LEAST_TOKENS: Final = 16
"""Minimum token limit that the API accepts."""


class ResponsesModel(SdkModel):
    """An agent's model at the Responses API, which stores nothing: each request has the whole conversation."""

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Send one streamed request to the model, and return its reply. Raises Failed."""
        await live.progress("asking the model")
        draft = ResponsesDraft()
        request = _request(self.start, conversation, allowance, tools(await self.list_tools()))
        await self.hear(self.client.responses.create(stream=True, **request), draft, live)
        if draft.error is not None:
            codes, text = codes_in(draft.error), message_in(draft.error) or "the response failed"
            raise Failed(cause_in(None, codes, text), say(self.provider, text), code=codes[0][:100] if codes else None)
        if not draft.ended:
            raise unfinished(self.provider)
        return draft.reply(conversation.next_k)


def _request(
    start: Start, conversation: Conversation, allowance: int | None, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "model": start.model,
        "input": items(conversation),
        "max_output_tokens": max(_LEAST_TOKENS, max_tokens(start.limits, allowance)),
        "store": False,
        "include": ["reasoning.encrypted_content"],
        **({"instructions": conversation.system} if conversation.system else {}),
        **({"tools": tools} if tools else {}),
        **({"reasoning": {"effort": start.effort}} if start.effort is not None else {}),
        **({"temperature": start.temperature} if start.temperature is not None else {}),
    }
