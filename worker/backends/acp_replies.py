"""Assembly of replies from the updates of an ACP agent (``session/update``). Pure.

The protocol sends pieces of text, and the start and end of calls, but no end of a reply: the updates between
two call results count as one reply. The usage of all replies arrives at the end, in the response to the prompt.
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
"""Name of the Daemon MCP server in the program's configuration."""
OPEN_CALLS: Final = 200
"""Maximum number of open calls; a program with more is considered broken."""
REPLY_CHARACTERS: Final = 4 * 1024 * 1024
"""Maximum stored text of one reply; more text is only displayed."""
ID_CHARACTERS: Final = 200
NAME_CHARACTERS: Final = 128
_UNKNOWN: Final = "The result of this call is unknown."
_ENDED: Final = frozenset({"completed", "failed"})
_PLAIN: Final = frozenset({None, "", "other"})
"""Call kinds that name no specific type, such as a command or a change. Calls of MCP servers have them."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.:/-]{0,127}", re.ASCII)
_GEMINI: Final = re.compile(r"([\w.-]{1,64}) \(([\w-]{1,64}) MCP Server\)", re.ASCII)
"""Format of titles in which gemini and its forks name an MCP server's tool; the text has the arguments."""


class OpenCall(msgspec.Struct):
    """A call without a result. ``name`` may be the model's text; ``tool`` was set by the program itself."""

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
        """Store the details of the call that ``update`` adds."""
        self.kind = update.kind or self.kind
        self.title = update.title or self.title
        if update.locations is not None:
            self.paths = tuple(place.path for place in update.locations[:OPEN_CALLS])
        pieces = update.content if isinstance(update.content, tuple) else ()
        if pieces and update.status not in _ENDED:  # otherwise the pieces are the result
            diffs = (one for one in pieces if one.type == "diff")
            self.changes = tuple({"file": one.path, "old": one.old_text, "new": one.new_text} for one in diffs)
            self.words = tuple(one.content.text for one in pieces if one.content is not None and one.content.text)
        given = decoded(update.raw_input, dict[str, Any])
        # Keep arguments of any type: they must be shown to the approver
        if given or (given is None and update.raw_input != NULL):
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
        """Return the name of the call, or its kind if it has no name."""
        return self.name or (self.kind or "tool")[:NAME_CHARACTERS]

    def shown(self) -> Mapping[str, Any]:
        """Return all known details of the call for display."""
        given = msgspec.json.decode(self.args)
        lists = {"files": [*self.paths], "changes": [*self.changes], "words": [*self.words]}
        parts = {"title": self.title, "input": given, **lists}
        return {key: value for key, value in parts.items() if value}

    def as_tool_call(self) -> ToolCall:
        """Return the call to store: with its arguments or, if there are none, its displayed details."""
        args = self.args if decoded(self.args, dict[str, Any]) else Json(encode_json(self.shown()))
        return ToolCall(id=self.id, name=self.called, args=args)


class AcpReplies:
    """Assembler of the replies of one attempt. ``open`` contains the calls without a result, oldest first."""

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
        """Return the call that ``update`` is about, or None if the call has already ended. Raises Failed.

        ``announced``: the update starts a call or asks for its permission. Providers reuse ids, so this
        may be a new call.
        """
        id_ = update.tool_call_id[:ID_CHARACTERS]
        if announced or not update.session_update:
            self._ended.discard(id_)
        elif id_ in self._ended:
            return None
        call = self.open.get(id_)
        if call is None:
            if len(self.open) >= OPEN_CALLS:
                raise Failed("protocol", f"the program has {OPEN_CALLS} open calls without a result")
            call = self.open[id_] = OpenCall(id_)
        elif announced and call.tool:  # a reused id: the tool of the earlier call does not apply
            call = self.open[id_] = OpenCall(id_, told=call.told)
        call.take(update)
        return call

    def ended(self, call: OpenCall, text: str, *, is_error: bool) -> Iterator[Event]:
        """Yield the result of ``call``, after the reply that contains it. No effect if the call has already ended."""
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
        """Yield error results of all open calls, then the last reply with ``usage``."""
        last, self._reply = self._reply, OpenReply()  # the last reply may follow a call without a result
        for call in tuple(self.open.values()):
            yield from self.ended(call, _UNKNOWN, is_error=True)
        yield last.turn(usage)


class _QuotaTokens(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Quota(msgspec.Struct, frozen=True):
    token_count: _QuotaTokens = _QuotaTokens()


class _Meta(msgspec.Struct, frozen=True):
    """Usage in the ``_meta`` of gemini, which predates the fields of the protocol."""

    quota: _Quota = _Quota()


def usage_of(ending: PromptEnd, cost_usd: float | None) -> Usage | None:
    """Return the usage that the response to a prompt reports, with ``cost_usd`` added; None if it reports none."""
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
