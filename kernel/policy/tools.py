"""Daemon MCP tools offered to an agent, and approval of tool calls. Pure.

Each listed tool costs tokens in every model request, so tools without use for an agent are not listed. Its scopes
determine what it may call: a tool of an open scope works by name even if it is not listed.

A call is decided by the agent's policy and by approval rules. An undecided call waits for a person, and is denied
after its deadline.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from protocol.agent import SCOPES, Approval, Scope, ScopeWords
from protocol.tools import CONTEXT_SCOPES, ON_DEMAND, ToolScope

LONE: Final = frozenset(
    {
        *("memory_read", "memory_write", "memory_forget", "memory_recall", "history_search"),
        *("note_write", "note_read", "todo_add", "todo_done"),
        *("my_inbox", "resource_read", "handover_write"),
    }
)
"""Tools of an agent without colleagues: memory, inbox, and its handover."""
TEAM: Final = frozenset(
    {
        *("channel_send", "channel_read", "my_inbox_ack", "team_members", "my_status_set", "resource_create"),
        *("ask_agent", "memory_ask", "share_with"),
    }
)
"""Additional tools of an agent with colleagues."""
GUARDED: Final = frozenset({"memory_tray", "soul_reflect", "soul_suggest"})
"""Additional tools if a guard manages memory and souls."""


class Situation(NamedTuple):
    """Circumstances of an agent; ``uses``: scopes that its workflow needs or has used."""

    team: bool = False
    guarded: bool = False
    uses: frozenset[Scope] = frozenset()


def offered_tools(
    situation: Situation, opened: Collection[ToolScope], words: ScopeWords = ("default",), switches: Iterable[str] = ()
) -> frozenset[str]:
    """Return the names of the tools to offer to an agent whose token opens the scopes ``opened``.

    ``words`` and ``switches`` are ``scopes`` and ``tools`` of its file. An opened scope outside the default was
    requested explicitly, so all its tools are offered.
    """
    return _offered(situation, frozenset(opened), words, frozenset(switches))


@lru_cache(256)
def _offered(
    situation: Situation, opened: frozenset[ToolScope], words: ScopeWords, on: frozenset[str]
) -> frozenset[str]:
    named = {*words, *(opened if not SCOPES.issubset(opened) else opened - SCOPES)} - {"default", "all"}
    needed = LONE | (TEAM if situation.team else set()) | (GUARDED if situation.guarded else set())
    return frozenset(
        name
        for name, scope in CONTEXT_SCOPES.items()
        if scope in opened
        and (name in needed or scope in named or scope in situation.uses or ON_DEMAND.get(name) in on)
        and (name not in ON_DEMAND or ON_DEMAND[name] in on or scope in named)
    )


Decision = Literal["granted", "denied", "expired"]
State = Literal["open", "granted", "denied", "expired"]
"""State of a request; only an open one can change."""

AT_ONCE: Final[Mapping[Approval, Decision]] = {"auto": "granted", "deny": "denied"}
"""Immediate answers of policies that ask no person."""

ANY: Final = "*"
"""Wildcard for any text, including an empty one; all other characters are literal."""


class ApprovalRule(msgspec.Struct, frozen=True):
    """Rule that grants calls whose complete input matches ``pattern``."""

    number: int
    pattern: str


def covering(rules: Iterable[ApprovalRule], input: str) -> ApprovalRule | None:
    """Return the first of ``rules`` that matches a call's input (canonical JSON)."""
    return next((rule for rule in rules if matches(rule.pattern, input)), None)


def matches(pattern: str, text: str) -> bool:
    """Return whether ``pattern`` matches all of ``text``, in linear time, because an agent chooses the text."""
    first, *parts = pattern.split(ANY)
    if not parts:
        return text == pattern
    *middle, last = parts
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
