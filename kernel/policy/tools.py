"""The tools of Daemon MCP that an agent is offered, and whether a call of a tool is allowed. Pure.

A tool costs tokens in each request of a model, so what an agent has no use for is not listed. Its scopes say what it
may call: a tool of an open scope is answered by name whether it is offered or not.

A call is decided by the agent's policy and by approval rules. What neither decides waits for a person, and is refused
after its deadline.
"""

from collections.abc import Collection, Iterable, Mapping
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
"""For an agent that nobody hears: what it keeps, what reaches it, and what it leaves."""
TEAM: Final = frozenset(
    {
        *("channel_send", "channel_read", "my_inbox_ack", "team_members", "my_status_set", "resource_create"),
        *("ask_agent", "memory_ask", "share_with"),
    }
)
"""For an agent with colleagues, beside that."""
GUARDED: Final = frozenset({"memory_tray", "soul_reflect", "soul_suggest"})
"""Where a guard looks after memory and souls."""


class Situation(NamedTuple):
    """What there is where an agent works. ``uses`` are the scopes of what its workflow asks for, or has by now."""

    team: bool = False
    guarded: bool = False
    uses: frozenset[Scope] = frozenset()


def offered_tools(
    situation: Situation, opened: Collection[ToolScope], words: ScopeWords = ("default",), switches: Iterable[str] = ()
) -> frozenset[str]:
    """The names of the tools to offer an agent in ``situation``, whose token opens the scopes ``opened``.

    ``words`` and ``switches`` are ``scopes`` and ``tools`` of its file. A scope that is opened and no part of the
    default is one that somebody named.
    """
    named = {*words, *(opened if not SCOPES.issubset(opened) else set(opened) - SCOPES)} - {"default", "all"}
    needed = LONE | (TEAM if situation.team else set()) | (GUARDED if situation.guarded else set())
    on = set(switches)
    return frozenset(
        name
        for name, scope in CONTEXT_SCOPES.items()
        if scope in opened
        and (name in needed or scope in named or scope in situation.uses or ON_DEMAND.get(name) in on)
        and (name not in ON_DEMAND or ON_DEMAND[name] in on or scope in named)
    )


Decision = Literal["granted", "denied", "expired"]
State = Literal["open", "granted", "denied", "expired"]
"""Of a request. Only an open one can still change."""

AT_ONCE: Final[Mapping[Approval, Decision]] = {"auto": "granted", "deny": "denied"}
"""What a policy answers without asking anybody."""

ANY: Final = "*"
"""In a pattern: any text, also none. Everything else stands for itself."""


class ApprovalRule(msgspec.Struct, frozen=True):
    """An approval rule: it grants calls whose whole input has ``pattern``."""

    number: int
    pattern: str


def covering(rules: Iterable[ApprovalRule], input: str) -> ApprovalRule | None:
    """The first of ``rules`` that a call with this input (canonical JSON) falls under."""
    return next((rule for rule in rules if matches(rule.pattern, input)), None)


def matches(pattern: str, text: str) -> bool:
    """Return whether all of ``text`` has ``pattern``.

    It takes no longer than to read both: an agent chooses the text.
    """
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
