"""BACKENDS: the table of what can run an agent. Loader, kernel, documents and ``awk backends`` read it.

It says what a backend is able to do, never how: that is one file of ``worker/backends`` each.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from protocol.agent import Backend

Ability = Literal["yes", "weaker", "no"]


class BackendSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One backend. A program's own name is looked for under each of ``binaries``; the first one found is used.

    ``dialects`` are those a provider must speak one of. ``notes`` says what ``weaker`` means, for people.
    """

    name: Backend
    title: str
    binaries: tuple[str, ...] = ()
    dialects: frozenset[str] = frozenset({"anthropic", "openai", "mock"})
    steps: Ability = "yes"
    """Whether each reply is booked as it comes, so that limits act between two of them."""
    resume: Ability = "yes"
    permission_prompt: Ability = "yes"
    """Whether a person can be asked before a tool runs."""
    budget: Ability = "yes"
    system_prompt: Ability = "yes"
    daemon_check: Ability = "yes"
    """Whether it shows that it could not reach Daemon MCP."""
    own_session: bool = False
    """Keeps what was said itself, in ``sessions/``: entries are a record, and a resume names the session."""
    notes: tuple[str, ...] = ()


_ROWS: Final = (
    BackendSpec(name="sdk", title="the built-in loop over a model's API"),
    BackendSpec(
        name="claude",
        title="Claude Code",
        binaries=("claude",),
        dialects=frozenset({"anthropic"}),
        own_session=True,
    ),
    BackendSpec(name="codex", title="Codex", binaries=("codex",), dialects=frozenset({"openai"}), own_session=True),
    BackendSpec(
        name="opencode",
        title="opencode",
        binaries=("opencode",),
        dialects=frozenset({"anthropic", "openai"}),
        own_session=True,
    ),
    BackendSpec(
        name="cursor",
        title="Cursor",
        binaries=("cursor-agent",),
        dialects=frozenset({"cursor"}),
        own_session=True,
    ),
    BackendSpec(name="exec", title="a program that speaks the worker protocol"),
    BackendSpec(name="mock", title="a script, without a model"),
)

BACKENDS: Final[Mapping[str, BackendSpec]] = MappingProxyType({row.name: row for row in _ROWS})

CLIS: Final = frozenset(row.name for row in _ROWS if row.binaries)
"""Those that are another program's command line."""
