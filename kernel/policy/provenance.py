"""Provenance of a memory item: its source messages and its trust class. Pure.

The classes are user, agent, tool and web, most trusted first. An item gets the lowest class of all that its author
saw: its prompt with the thread, the session of its program, and tool results (kernel.store.trust). Only complete
sentences copied verbatim from a source message keep the class of that message; a key is checked likewise unless it is
a simple name. No claim raises a class, and ids that the agent never received are refused.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final, NamedTuple, Protocol, cast

from protocol.agent_memory import CLASSES, SOURCES_LIMIT, Source, SourceClass, least
from protocol.errors import Refused
from protocol.ipc import Entry
from protocol.message import HOOK, SYSTEM, USER
from protocol.tools import AUTH_REQUEST, BUILT_IN, CONTEXT_TOOLS

_NOTHING_OF_OTHERS: Final = frozenset(
    {
        *("channel_send", "my_inbox_ack", "team_vote", "resource_create", "my_status_set", "handover_write"),
        *("memory_write", "memory_forget", "note_write", "todo_add", "share_with", "soul_suggest", "feedback_submit"),
        AUTH_REQUEST,
    }
)
"""Daemon MCP tools that return only numbers and the caller's own text. Any other tool counts as showing others' text;
for example, ``ask_agent`` returns the colleague's reply."""
_FROM_WEB: Final = re.compile(r"web|fetch|browse|http|url", re.IGNORECASE)
"""Parts of tool names that indicate content from the web."""
_TOLD_TRUST: Final = re.compile(r'"(?:trust|class)"\s*:\s*"(user|agent|tool|web)"')
_FROM_HOOK: Final = re.compile(rf'"from"\s*:\s*"{HOOK}')
RECORDED: Final = frozenset({"sdk", "mock"})
"""Backends that store each tool call as an entry before its result is read."""
OF_OWN_MEMORY: Final = frozenset({"memory_read", "memory_recall", "note_read"})
OF_OWN_WORK: Final = frozenset({"history_search", "history_read", "todo_list", "todo_done", "soul_reflect"})
_TOLD_TOOL: Final = re.compile(r'"tool"\s*:\s*"([^"\\]+)"')
_PLAIN_KEY: Final = re.compile(r"[\w.-]{1,32}")
"""Simple name chosen by an agent, too short to carry an instruction."""
_STOPS: Final = ".!?;: \t\r\n"


class GivenMessage(NamedTuple):
    """Message that an agent received or could read, with its trust class."""

    id: str
    text: str
    class_: SourceClass


class ToolResult(NamedTuple):
    """Text that a tool returned to an agent.

    ``name`` is as in the journal: a tool of an agent's own MCP server never counts as a Daemon MCP tool, even with the
    same name.
    """

    name: str
    text: str


class AnyMessage(Protocol):
    """Fields of a message that determine the message's trust class."""

    @property
    def sender(self) -> str:
        """Return the sender's name."""
        ...

    @property
    def kind(self) -> str:
        """Return the kind (protocol.message)."""
        ...

    @property
    def text(self) -> str:
        """Return the text."""
        ...


_OF_SYSTEM: Mapping[str, SourceClass] = {"kickoff": "user", "due": "user", "resolved": "agent"}
"""Kernel messages from workflow files and schedules, and vote results. Other kinds may contain command output."""

_STARTED: Final = ("status", "started")
"""Kernel message at the start of each run."""
_QUOTED: Final = re.compile(r"\[SPACE\] .* \((agent|tool|web)\):\n")
"""Kernel message that quotes the last text of a closed space to its opener, with its class."""


def repeats(message: AnyMessage) -> bool:
    """Return whether a message that no instruction sent may repeat other texts of its space."""
    files = _OF_SYSTEM.get(message.kind) == "user" or (message.kind, message.text) == _STARTED
    return not (files or message.sender == USER or message.sender.startswith(HOOK))


def class_of_message(
    message: AnyMessage, *, printed: bool = False, work: SourceClass | None = None, own: bool = False
) -> SourceClass:
    """Return the trust class of a message.

    Texts of a person and of project files are the user's, texts of a hook are from the web; system messages repeat
    others. ``printed``: the text may contain command output. ``work``: class of the instruction that sent the message,
    an upper bound of its trust; the reader's ``own`` messages have exactly this class.
    """
    said: SourceClass
    if message.sender.startswith(HOOK):
        said = "web"
    elif printed:
        said = "tool"
    elif message.sender == SYSTEM:
        said = "user" if (message.kind, message.text) == _STARTED else _OF_SYSTEM.get(message.kind, "tool")
        said = cast("SourceClass", quoted[1]) if (quoted := _QUOTED.match(message.text)) else said
    elif own and work is not None:
        return work
    else:
        said = "user" if message.sender == USER else "agent"
    return said if work is None else least([said, work])


def class_unseen(backend: str) -> SourceClass:
    """Return the trust class of the unrecorded input of an attempt of ``backend``.

    A CLI backend has its own shell, files and network, and its reports of them are not verified.
    """
    return "user" if backend in RECORDED else "tool"


def class_of_result(result: ToolResult) -> SourceClass:
    """Return the lowest trust class that a tool's result may have, by its text and tool name."""
    told = least(cast("list[SourceClass]", _TOLD_TRUST.findall(result.text)))
    if _FROM_HOOK.search(result.text):
        told = "web"
    if result.name in OF_OWN_MEMORY:
        with suppress(ValueError):
            json.loads(result.text)
            return told
        return "web"  # the middle of a result too long for the journal is missing, and with it the trust class
    if result.name in _NOTHING_OF_OTHERS:
        return "user"
    if result.name in CONTEXT_TOOLS:
        called = _TOLD_TOOL.findall(result.text) if result.name in OF_OWN_WORK else ()
        return least([told, "agent", *(class_of_result(ToolResult(name, "")) for name in called)])
    if _FROM_WEB.search(result.name) and result.name not in BUILT_IN:
        return "web"
    return "web" if told == "web" else "tool"


def class_of_entry(entry: Entry) -> SourceClass:
    """Return the trust class of the text that an entry showed its agent.

    Results of Daemon MCP tools get ``user`` here, because the kernel has recorded their classes.
    """
    if entry.kind != "tool" or entry.name in CONTEXT_TOOLS:
        return "user"
    return "web" if entry.name is None else class_of_result(ToolResult(entry.name, entry.text))


class ShownMessages(NamedTuple):
    """Messages that an agent saw before it writes to memory.

    ``instruction``: ids of its instruction's messages. ``thread``: the least trusted messages of its thread.
    ``trust``: the class of everything that it saw.
    """

    instruction: Sequence[str]
    thread: Sequence[str]
    trust: SourceClass


def source_of(
    key: str, value: str, claimed: Source | None, shown: ShownMessages, given: Mapping[str, GivenMessage]
) -> Source:
    """Return the source of the ``value`` that an agent writes under ``key``.

    ``claimed``: the source that the agent cites; without messages, its instruction's are used. ``given``: these
    messages, by id, if the agent received them. Unless the value is a verbatim copy from a claimed message, the least
    trusted messages of ``shown`` are sources, too. Raises Refused (bad_request).
    """
    named = claimed.messages if claimed is not None and claimed.messages else tuple(shown.instruction)
    for one in named:
        if one not in given:
            hint = "cite messages that you received, or omit source to use your instruction's messages"
            raise Refused(
                "bad_request", f"source message {one[:40]!r} not found among the messages that you received", hint
            )
    messages = [given[one] for one in dict.fromkeys(named)]
    wanted = [value] if _PLAIN_KEY.fullmatch(key) else [value, key]
    claim: SourceClass = "user" if claimed is None else claimed.class_
    trust = least([claim, *(one.class_ for one in messages)])
    ids = tuple(one.id for one in messages)
    if any(all(_stands_in(words, one.text) for words in wanted) for one in messages):
        return Source(messages=ids, class_=trust)
    others = [given[one] for one in shown.instruction if one in given]
    trust = least([trust, shown.trust, *(one.class_ for one in others)])
    less = (*(one.id for one in others if one.class_ != "user"), *shown.thread)
    return Source(messages=tuple(dict.fromkeys((*ids, *less)))[:SOURCES_LIMIT], class_=trust)


def _stands_in(words: str, text: str) -> bool:
    """Return whether ``words`` are complete sentences or lines of ``text``; a fragment may mean the opposite."""
    said = r"\s+".join(map(re.escape, words.strip(_STOPS).split()))
    found = rf"(?:\A|[.!?;:\n])\s*(?:[-*]\s+)?{said}(?=\s*(?:\Z|[.!?;\n]))"
    return bool(said) and re.search(found, text, re.IGNORECASE) is not None


def chosen(what: str, source: Source) -> bool:
    """Return whether ``purge --source WHAT`` selects an item with this source; ``what`` is a message id or a class."""
    return source.class_ == what if what in CLASSES else what in source.messages


CHUNK_CHARACTERS: Final = 40
SHORTEST_CHARACTERS: Final = 8
"""Shorter values are too common to identify an item without its key."""
LONG_KEY_CHARACTERS: Final = 24
"""Minimum length of a key that identifies the item without its value."""


class ProvenanceMarks:
    """Detects texts that contain one of several items: complete, shortened, line by line, or inside JSON.

    Values are matched in chunks because they are quoted line by line and shortened; short values match only together
    with their key.
    """

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        """Build the patterns of ``items`` (keys and values)."""
        pieces: set[bytes] = set()
        keys: set[str] = set()
        self._pairs: list[tuple[re.Pattern[bytes], re.Pattern[bytes]]] = []
        for key, value in items:
            keys.add(key)
            if len(key) >= LONG_KEY_CHARACTERS:
                pieces |= _forms(key[:CHUNK_CHARACTERS])
            # raw, and as folded into one line of a todo, a title or a summary
            lines = {form for line in value.splitlines() for form in (line.strip(), " ".join(line.split()))}
            parts = {
                line[start : start + CHUNK_CHARACTERS].strip()
                for line in lines
                for start in range(0, len(line), CHUNK_CHARACTERS)
            }
            long = {part for part in parts if len(part) >= SHORTEST_CHARACTERS}
            pieces.update(form for part in long for form in _forms(part))
            if not long:
                self._pairs.append((_any(_forms(key)), _any(_forms(value.strip()))))
        self._pieces = _any(pieces) if pieces else None
        self.keys: Final = frozenset(keys)

    def find(self, data: bytes) -> list[tuple[int, int]]:
        """Return the start and end of each part of a long item in ``data``."""
        return [] if self._pieces is None else [match.span() for match in self._pieces.finditer(data)]

    def held_by(self, data: bytes | str | None) -> bool:
        """Return whether ``data`` contains one of the items."""
        if not data:
            return False
        text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        if self._pieces is not None and self._pieces.search(text):
            return True
        return any(key.search(text) and value.search(text) for key, value in self._pairs)


def _forms(text: str) -> set[bytes]:
    """Return the encodings of ``text`` in the log: raw, and nested in JSON with and without non-ASCII escapes."""
    found = {text.encode("utf-8", "surrogatepass")}
    for ascii_only in (False, True):
        inner = text
        for _ in range(3):
            inner = json.dumps(inner, ensure_ascii=ascii_only)[1:-1]
            found.add(inner.encode("utf-8", "surrogatepass"))
    return found


BRANCHES: Final = 32
"""Maximum nesting of groups in a pattern; deeper branches are listed side by side."""


def _any(pieces: Iterable[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that matches any of ``pieces``, longest first, with shared prefixes compared once."""
    return re.compile(_branch(sorted(set(pieces)), 0, BRANCHES))


def _branch(pieces: Sequence[bytes], at: int, left: int) -> bytes:
    first, last = pieces[0], pieces[-1]
    alike = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    common = re.escape(first[at:alike])
    if len(pieces) == 1:
        return common
    if left:
        groups = (list(group) for _, group in groupby(pieces, key=lambda piece: piece[alike : alike + 1]))
        rest = [_branch(group, alike, left - 1) for group in groups]
    else:
        rest = [re.escape(piece[alike:]) for piece in pieces]
    # A piece that ends here sorts first; it matches only if no longer one does.
    return common + b"(?:" + b"|".join(reversed(rest)) + b")"
