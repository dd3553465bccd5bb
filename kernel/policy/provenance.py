"""The source of an item of memory: its messages, and the class that it is trusted as. Pure.

The classes are user, agent, tool and web, the most trusted first. An item is trusted as the least of all that its
author was shown: its prompt with the thread in it, the session of its program, the results of its tools
(kernel.store.trust). Only whole sentences that stand word for word in one of the messages that are its source are that
message's, whatever was read; a key is checked alike, unless it is a mere name. Nobody raises a class by saying so; an
id that the agent was never given is refused.
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
"""Daemon MCP's tools that answer with nothing but what the caller said itself, and numbers. A further one shows others'
words until it is listed here: ``ask_agent`` is followed by the colleague's."""
_FROM_WEB: Final = re.compile(r"web|fetch|browse|http|url", re.IGNORECASE)
"""In names of tools that bring what strangers wrote."""
_TOLD_TRUST: Final = re.compile(r'"(?:trust|class)"\s*:\s*"(user|agent|tool|web)"')
_FROM_HOOK: Final = re.compile(rf'"from"\s*:\s*"{HOOK}')
RECORDED: Final = frozenset({"sdk", "mock"})
"""Backends of which each call of a tool is an entry before its result is read."""
OF_OWN_MEMORY: Final = frozenset({"memory_read", "memory_recall", "note_read"})
OF_OWN_WORK: Final = frozenset({"history_search", "history_read", "todo_list", "todo_done", "soul_reflect"})
_TOLD_TOOL: Final = re.compile(r'"tool"\s*:\s*"([^"\\]+)"')
_PLAIN_KEY: Final = re.compile(r"[\w.-]{1,32}")
"""A name that an agent makes up for something: too little to order anything."""
_STOPS: Final = ".!?;: \t\r\n"


class GivenMessage(NamedTuple):
    """A message that an agent was given, or could read, with its class."""

    id: str
    text: str
    class_: SourceClass


class ToolResult(NamedTuple):
    """Words that a tool showed to an agent. ``name`` is as in the journal: a tool of a server of the agent's own is no
    tool of Daemon MCP, whatever it is called there."""

    name: str
    text: str


class AnyMessage(Protocol):
    """A message, as far as it says how far to trust it."""

    @property
    def sender(self) -> str:
        """The name of whoever said it."""
        ...

    @property
    def kind(self) -> str:
        """Its kind (protocol.message)."""
        ...

    @property
    def text(self) -> str:
        """Its words."""
        ...


_OF_SYSTEM: Mapping[str, SourceClass] = {"kickoff": "user", "due": "user", "resolved": "agent"}
"""Words of workflows' files, and of agents' schedules; what agents voted about. Of other kinds it is what a command
printed, at the worst."""

_STARTED: Final = ("status", "started")
"""The word of the kernel with which each run begins."""
_QUOTED: Final = re.compile(r"\[SPACE\] .* \((agent|tool|web)\):\n")
"""The word of the kernel that quotes to the opener of a closed space what was said there last, with its class."""


def repeats(message: AnyMessage) -> bool:
    """Return whether ``message``, which no work said, may repeat words of its space: as a rule, or as the kernel."""
    files = _OF_SYSTEM.get(message.kind) == "user" or (message.kind, message.text) == _STARTED
    return not (files or message.sender == USER or message.sender.startswith(HOOK))


def class_of_message(
    message: AnyMessage, *, printed: bool = False, work: SourceClass | None = None, own: bool = False
) -> SourceClass:
    """A person's words and those of files of the project are the user's, a hook's a stranger's.

    What the system says repeats others. ``printed``: what commands printed may stand in it. ``work``: the class of the
    instruction that said it, below which it is not trusted; the reader's ``own`` words are trusted as that.
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
    """The class of what an attempt of ``backend`` reads beside its prompt, as far as nobody records that.

    A program has a shell, files and a network of its own, and says about what it did what it likes.
    """
    return "user" if backend in RECORDED else "tool"


def class_of_result(result: ToolResult) -> SourceClass:
    """The least that the result may be from: as it says itself, or as its tool's name does."""
    told = least(cast("list[SourceClass]", _TOLD_TRUST.findall(result.text)))
    if _FROM_HOOK.search(result.text):
        told = "web"
    if result.name in OF_OWN_MEMORY:
        with suppress(ValueError):
            json.loads(result.text)
            return told
        return "web"  # the middle of what is too long for the journal is missing, and how far to trust it
    if result.name in _NOTHING_OF_OTHERS:
        return "user"
    if result.name in CONTEXT_TOOLS:
        called = _TOLD_TOOL.findall(result.text) if result.name in OF_OWN_WORK else ()
        return least([told, "agent", *(class_of_result(ToolResult(name, "")) for name in called)])
    if _FROM_WEB.search(result.name) and result.name not in BUILT_IN:
        return "web"
    return "web" if told == "web" else "tool"


def class_of_entry(entry: Entry) -> SourceClass:
    """The class of what an entry showed its agent: what a tool gave back, but of Daemon MCP's, whose answers the kernel
    books before they are given."""
    if entry.kind != "tool" or entry.name in CONTEXT_TOOLS:
        return "user"
    return "web" if entry.name is None else class_of_result(ToolResult(entry.name, entry.text))


class ShownMessages(NamedTuple):
    """What an agent was shown before it writes: the messages of its instruction, by id, and those of its thread that
    are trusted least; ``trust`` is the class of all of it."""

    instruction: Sequence[str]
    thread: Sequence[str]
    trust: SourceClass


def source_of(
    key: str, value: str, claimed: Source | None, shown: ShownMessages, given: Mapping[str, GivenMessage]
) -> Source:
    """The source of ``value``, as an agent writes it under ``key`` that claims one, or none: then the messages of its
    instruction.

    ``given``: those of the messages named that it was given, and of its instruction, by id. Unless it is word for word
    of those named, the least trusted of what was ``shown`` are its source, too. Raises Refused (bad_request).
    """
    named = claimed.messages if claimed is not None and claimed.messages else tuple(shown.instruction)
    for one in named:
        if one not in given:
            hint = "name messages that reached you, or leave source out: it is your instruction's messages then"
            raise Refused("bad_request", f"{one[:40]!r} is no message that you were given", hint)
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
    """Return whether ``words`` are whole sentences or lines of ``text``: a part of one may say the opposite."""
    said = r"\s+".join(map(re.escape, words.strip(_STOPS).split()))
    found = rf"(?:\A|[.!?;:\n])\s*(?:[-*]\s+)?{said}(?=\s*(?:\Z|[.!?;\n]))"
    return bool(said) and re.search(found, text, re.IGNORECASE) is not None


def chosen(what: str, source: Source) -> bool:
    """Return whether ``purge --source WHAT`` means an item of this source: a message's id, or a class."""
    return source.class_ == what if what in CLASSES else what in source.messages


CHUNK_CHARACTERS: Final = 40
SHORTEST_CHARACTERS: Final = 8
"""What is shorter is too common to say by itself that it is the item."""
LONG_KEY_CHARACTERS: Final = 24
"""A key from which on it is the item's own words, and no name that others use."""


class ProvenanceMarks:
    """Marks that tell that a text holds one of some items: whole, cut, line by line, or inside JSON.

    A value is looked for in pieces, for it is quoted line by line and shortened; a short one only beside its key.
    """

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        """``items``: keys and values."""
        pieces: set[bytes] = set()
        keys: set[str] = set()
        self._pairs: list[tuple[re.Pattern[bytes], re.Pattern[bytes]]] = []
        for key, value in items:
            keys.add(key)
            if len(key) >= LONG_KEY_CHARACTERS:
                pieces |= _forms(key[:CHUNK_CHARACTERS])
            # As it is, and as it stands in one line of something: a todo, a title, what was folded.
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
        """The places of the long ones in ``data``."""
        return [] if self._pieces is None else [match.span() for match in self._pieces.finditer(data)]

    def held_by(self, data: bytes | str | None) -> bool:
        """Return whether ``data`` holds one of them."""
        if not data:
            return False
        text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        if self._pieces is not None and self._pieces.search(text):
            return True
        return any(key.search(text) and value.search(text) for key, value in self._pairs)


def _forms(text: str) -> set[bytes]:
    """``text`` as it may stand in the log: as it is, and in JSON in JSON, with and without other letters escaped."""
    found = {text.encode("utf-8", "surrogatepass")}
    for ascii_only in (False, True):
        inner = text
        for _ in range(3):
            inner = json.dumps(inner, ensure_ascii=ascii_only)[1:-1]
            found.add(inner.encode("utf-8", "surrogatepass"))
    return found


BRANCHES: Final = 32
"""In one another, in a pattern: beyond, what is left stands side by side."""


def _any(pieces: Iterable[bytes]) -> re.Pattern[bytes]:
    """A pattern for any of ``pieces``, the longest that fits; what begins alike is compared once, however many."""
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
    # One that ends here sorts first: it counts where none of the longer ones fits.
    return common + b"(?:" + b"|".join(reversed(rest)) + b")"
