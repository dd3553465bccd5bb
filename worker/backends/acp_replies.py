"""Puts replies together from what an ACP agent tells while it works (``session/update``). Pure.

The protocol knows messages in pieces, and calls that begin and come back. A reply is taken to be what lies between two
returns; what all of them cost stands in the answer to the prompt, at the end.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from protocol.instruction import LARGEST, Usage
from protocol.ipc import NULL, Json, ToolCall
from protocol.text import decoded, encode_json
from protocol.tools import SERVER_PREFIX
from worker.backends.acp_frames import Block, CallMeta, PromptEnd, Spending, Update
from worker.backends.backend import ActivityChanged, Event, OpenReply, ReplyText, ToolEnded
from worker.models.model import Failed

DAEMON: Final = "daemon"
"""The name of our MCP server there."""
OPEN_CALLS: Final = 200
"""Calls that have not come back: whoever has more is not at work."""
REPLY_CHARACTERS: Final = 4 * 1024 * 1024
"""Of the text of one reply: what is beyond is shown as it comes, and not kept."""
ID_CHARACTERS: Final = 200
NAME_CHARACTERS: Final = 128
_UNKNOWN: Final = "It was not told what came of this call."
_ENDED: Final = frozenset({"completed", "failed"})
_PLAIN: Final = frozenset({None, "", "other"})
"""Kinds of calls that are none of commands, changes, requests to the web: those of MCP servers are of none."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.:/-]{0,127}", re.ASCII)
_GEMINI: Final = re.compile(r"([\w.-]{1,64}) \(([\w-]{1,64}) MCP Server\)", re.ASCII)
"""How gemini and those that came of it call a tool of a server; its arguments are the text that goes with it."""


class OpenCall(msgspec.Struct):
    """A call that has not come back. ``name`` may be a model's word; ``tool`` is the program's, in a field for that."""

    id: str
    name: str = ""
    tool: str = ""
    kind: str | None = None
    title: str = ""
    args: Json = Json(b"{}")
    paths: tuple[str, ...] = ()
    changes: tuple[Mapping[str, str | None], ...] = ()
    words: tuple[str, ...] = ()
    told: bool = False

    def take(self, update: Update) -> None:
        """Take over what ``update`` says of it."""
        self.kind = update.kind or self.kind
        self.title = update.title or self.title
        if update.locations is not None:
            self.paths = tuple(place.path for place in update.locations[:OPEN_CALLS])
        pieces = update.content if isinstance(update.content, tuple) else ()
        if pieces and update.status not in _ENDED:  # else they are what it gave
            diffs = (one for one in pieces if one.type == "diff")
            self.changes = tuple({"file": one.path, "old": one.old_text, "new": one.new_text} for one in diffs)
            self.words = tuple(one.content.text for one in pieces if one.content is not None and one.content.text)
        given = decoded(update.raw_input, dict[str, Any])
        if given or (given is None and update.raw_input != NULL):  # of any kind: a person has to see it
            self.args = Json(bytes(update.raw_input))
        meta = decoded(update.meta, CallMeta)
        if meta is not None and meta.claude_code.tool_name:
            self.name = self.tool = meta.claude_code.tool_name[:NAME_CHARACTERS]
        elif not self.name:
            of_server = _GEMINI.fullmatch(self.title) if self.kind in _PLAIN else None
            if of_server is not None:
                self.name = f"{SERVER_PREFIX}{of_server[2]}__{of_server[1]}"
                said = Json("".join(self.words[:1]).encode())
                self.args = said if decoded(said, dict[str, Any]) else self.args
            elif _NAME.fullmatch(self.title) and (given is not None or self.kind in _PLAIN):
                self.name = self.title

    @property
    def called(self) -> str:
        """Its name, or the kind of thing that it does."""
        return self.name or (self.kind or "tool")[:NAME_CHARACTERS]

    def shown(self) -> Mapping[str, Any]:
        """All that is known of what it does, for a person."""
        given = msgspec.json.decode(self.args)
        lists = {"files": [*self.paths], "changes": [*self.changes], "words": [*self.words]}
        parts = {"title": self.title, "input": given, **lists}
        return {key: value for key, value in parts.items() if value}

    def as_tool_call(self) -> ToolCall:
        """The call as it is kept: with its arguments, or in place of them with what it was said to do."""
        args = self.args if decoded(self.args, dict[str, Any]) else Json(encode_json(self.shown()))
        return ToolCall(id=self.id, name=self.called, args=args)


class AcpReplies:
    """One attempt's. ``open``: calls that have not come back, in the order in which they were told."""

    def __init__(self) -> None:
        self._reply = OpenReply()
        self._room = REPLY_CHARACTERS
        self._ended: set[str] = set()
        self.open: dict[str, OpenCall] = {}

    def take(self, update: Update) -> Iterator[Event]:
        """Translate an update into events. Raises Failed."""
        match update.session_update:
            case "agent_message_chunk":
                text = _text(update.content)
                self._reply.texts.append(text[: self._room])
                self._room = max(0, self._room - len(text))
                yield ReplyText(text)
            case "agent_thought_chunk" | "plan":
                yield ActivityChanged("thinking")
            case "tool_call" | "tool_call_update":
                call = self.call_of(update, announced=update.session_update == "tool_call")
                if call is None:
                    return
                if update.status not in _ENDED:
                    yield ActivityChanged(f"tool {call.called}", tool=True)
                    return
                pieces = update.content if isinstance(update.content, tuple) else ()
                texts = [f"[{one.type}: {one.path}]" if one.path else _text(one.content) for one in pieces if one.type]
                if not texts and update.raw_output != NULL:
                    said = decoded(update.raw_output, str)
                    texts = [bytes(update.raw_output).decode("utf-8", "replace") if said is None else said]
                yield from self.ended(call, "\n".join(texts), is_error=update.status == "failed")
            case _:
                pass

    def call_of(self, update: Update, *, announced: bool) -> OpenCall | None:
        """The call that ``update`` is about; None where it came back before. Raises Failed.

        Providers repeat their ids: one that is announced, or asked about, anew is another call.
        """
        id_ = update.tool_call_id[:ID_CHARACTERS]
        if announced or not update.session_update:
            self._ended.discard(id_)
        elif id_ in self._ended:
            return None
        call = self.open.get(id_)
        if call is None:
            if len(self.open) >= OPEN_CALLS:
                raise Failed("protocol", f"it has begun {OPEN_CALLS} calls of which none came back")
            call = self.open[id_] = OpenCall(id_)
        elif announced and call.tool:  # a repeated id: the tool of the earlier call says nothing about this one
            call = self.open[id_] = OpenCall(id_, told=call.told)
        call.take(update)
        return call

    def ended(self, call: OpenCall, text: str, *, is_error: bool) -> Iterator[Event]:
        """Tell that ``call`` came back, and before that the reply that asked for it. Nothing where that was told."""
        if self.open.pop(call.id, None) is None:
            return
        self._ended.add(call.id)
        if not call.told:
            asked = [call, *(one for one in self.open.values() if not one.told)]
            for one in asked:
                one.told = True
            self._reply.calls = [one.as_tool_call() for one in asked]
            self._room = REPLY_CHARACTERS
            yield self._reply.turn()
        yield ToolEnded(call_id=call.id, name=call.called, text=text, is_error=is_error)

    def last(self, usage: Usage | None) -> Iterator[Event]:
        """Tell the reply that ends the work, behind the calls of which nothing more was heard."""
        last, self._reply = self._reply, OpenReply()  # the final answer may follow a call that never came back
        for call in tuple(self.open.values()):
            yield from self.ended(call, _UNKNOWN, is_error=True)
        yield last.turn(usage)


class _Count(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Quota(msgspec.Struct, frozen=True):
    token_count: _Count = _Count()


class _Meta(msgspec.Struct, frozen=True):
    """Gemini's ``_meta``: from before the protocol had words of its own."""

    quota: _Quota = _Quota()


def usage_of(ending: PromptEnd, cost_usd: float | None) -> Usage | None:
    """Return what a prompt cost, as its answer says; None where it says nothing. ``cost_usd`` is of the same."""
    found = ending.usage
    if found is None:
        meta = decoded(ending.meta, _Meta) or _Meta()
        found = Spending(meta.quota.token_count.input_tokens, meta.quota.token_count.output_tokens)
    usage = Usage(
        input_tokens=_count(found.input_tokens),
        output_tokens=_count(found.output_tokens),
        cache_read_tokens=_count(found.cached_read_tokens),
        cache_write_tokens=_count(found.cached_write_tokens),
        cost_usd=cost_usd,
    )
    return usage if usage.tokens or cost_usd else None


def _count(told: int | None) -> int:
    return min(max(told or 0, 0), LARGEST)


def _text(block: object) -> str:
    if not isinstance(block, Block):
        return ""
    return block.text if block.type == "text" else f"[{block.type[:NAME_CHARACTERS]}]"
