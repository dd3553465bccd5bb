"""The worker's own tools: what ``tools:`` of an agent may name, and what each of these stands for. Pure.

Of Daemon MCP's tools only the names are in here: their table is the kernel's; and the scope that opens each.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from protocol.agent import Duration, Scope


class BuiltIn(NamedTuple):
    """A tool of the worker's own. ``switch`` is the word in ``tools:`` that it comes with."""

    name: str
    switch: str
    read_only: bool
    """A call changes nothing: it may be repeated, and ``approval: ask`` does not ask."""


_ROWS: Final = (
    BuiltIn("bash", "bash", read_only=False),
    BuiltIn("read", "files", read_only=True),
    BuiltIn("write", "files", read_only=False),
    BuiltIn("edit", "files", read_only=False),
    BuiltIn("list", "files", read_only=True),
    BuiltIn("grep", "files", read_only=True),
    BuiltIn("skill", "skills", read_only=True),
)

BUILT_IN: Final[Mapping[str, BuiltIn]] = {row.name: row for row in _ROWS}

AUTH_REQUEST: Final = "auth_request"
"""The tool of Daemon MCP that asks whether another may be called."""

OFFERED_TO: Final = "X-Offered-To"
"""The header by which a program says that it shows the tools it lists to a model, ``TO_MODEL``: it is not listed what a
model has no business with. The permission prompts of programs, and workers of other people's making, say nothing."""
TO_MODEL: Final = "model"

SENDING: Final = "sending."
"""How the key of a call begins that only names one sending of it: its client names no calls, so the same call, made
again after an interruption, has another."""

ON_DEMAND: Final[Mapping[str, str]] = {"feedback_submit": "feedback"}
"""Tools of Daemon MCP that a model is told of only where ``tools:`` has the word; who knows them may call them."""

SWITCHES: Final = frozenset({*(row.switch for row in _ROWS), *ON_DEMAND.values()})
"""What ``tools:`` may say beside the names of the project's own tools."""

ToolScope = Scope | Literal["all", "tree"]
"""``all``: every agent has it. ``tree``: who has a working tree."""

CONTEXT_SCOPES: Final[Mapping[str, ToolScope]] = {
    "channel_read": "channel.read",
    "my_inbox": "channel.read",
    "my_inbox_ack": "channel.read",
    "channel_send": "channel.write",
    "resource_create": "channel.write",
    "team_doc_read": "documents.read",
    "team_doc_list": "documents.read",
    "team_doc_history": "documents.read",
    "team_doc_write": "documents.write",
    "team_doc_append": "documents.write",
    "team_doc_create": "documents.write",
    "team_doc_delete": "documents.write",
    "team_doc_suggest": "documents.write",
    "team_doc_accept": "documents.write",
    "team_doc_reject": "documents.write",
    "team_task_plan": "tasks",
    "team_task_list": "tasks",
    "team_task_claim": "tasks",
    "team_task_done": "tasks",
    "team_task_fail": "tasks",
    "team_task_split": "tasks",
    "team_proposal_create": "votes",
    "team_vote": "votes",
    "team_proposal_status": "votes",
    "team_proposal_cancel": "votes",
    "history_search": "memory",
    "history_read": "memory",
    "memory_recall": "memory",
    "memory_read": "memory",
    "memory_write": "memory",
    "memory_forget": "memory",
    "note_write": "memory",
    "note_read": "memory",
    "todo_list": "memory",
    "todo_add": "memory",
    "todo_done": "memory",
    "my_status_set": "status",
    "handover_write": "status",
    "ask_agent": "ask",
    "memory_ask": "ask",
    "share_with": "memory",
    "memory_tray": "memory",
    "soul_reflect": "memory",
    "soul_suggest": "memory",
    "feedback_submit": "feedback",
    "rule_list": "rules",
    "rule_define": "rules",
    "rule_invoke": "rules",
    "team_members": "all",
    "resource_read": "all",
    AUTH_REQUEST: "all",
    "auth_grant": "auth",
    "auth_revoke": "auth",
    "space_create": "spaces",
    "space_members": "spaces",
    "tree_status": "tree",
    "tree_take": "tree",
    "tree_commit": "tree",
}
"""Daemon MCP's tools, each with the one scope that opens it."""

DEPRECATED_TOOLS: Final[Mapping[str, str]] = {
    "proposal_list": "rule_list",
    "proposal_define": "rule_define",
    "proposal_invoke": "rule_invoke",
}
"""Old names of tools and the current ones. Calls and approval rules may use the old names until 0.3.0; no list has
them."""
CONTEXT_TOOLS: Final = frozenset({*CONTEXT_SCOPES, *DEPRECATED_TOOLS})


RULES_FILES: Final = ("CLAUDE.md", "AGENTS.md")
"""Files of a project with rules for agents."""

CONTEXT_FAMILIES: Final = (
    "ask_",
    "auth_",
    "channel_",
    "feedback_",
    "handover_",
    "history_",
    "memory_",
    "my_",
    "note_",
    "proposal_",
    "resource_",
    "rule_",
    "share_",
    "soul_",
    "space_",
    "team_",
    "todo_",
    "tree_",
)
"""How names of Daemon MCP's tools begin, those of scopes included: no other tool may be called so."""

SERVER_PREFIX: Final = "mcp__"
"""How tools of an agent's own MCP servers begin: ``mcp__<server>__<tool>``."""

EVERY_TOOL: Final = "*"
"""At the end of a name: every tool that begins like that."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}", re.ASCII)
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|[-_](?=[A-Za-z0-9])){0,31}", re.ASCII)
_DAEMON: Final = frozenset({"daemon", "agent-worker"})
_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)

TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")
"""Types of JSON Schema, as the short form of ``input`` has them."""


class ProjectTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool of the project's own: a command, or a canned answer.

    The command reads its arguments as one JSON object from standard input, and answers on standard output.
    """

    description: str
    """What a model is told of it."""
    command: tuple[str, ...] = ()
    """The program and its arguments; a word ``${name}`` is replaced by that argument. It needs trust."""
    input: dict[str, Any] = {}
    """Its arguments: a name to a type (``path: string``, ``limit: integer?``), or a JSON Schema."""
    read_only: bool = False
    """It changes nothing, so nobody is asked before it runs, and it may be run again."""
    timeout: Duration = 120.0
    """How long a call may take."""
    mock: str | None = None
    """A canned answer: it is given in place of running the command."""


def current_name(name: str) -> str:
    """Return the current name of a tool whose name may be deprecated."""
    return DEPRECATED_TOOLS.get(name, name)


def former_name(name: str) -> str:
    """Return the deprecated name of a tool, or ``name`` if it has none."""
    return next((old for old, new in DEPRECATED_TOOLS.items() if new == name), name)


def tool_name_fault(name: str) -> str | None:
    """Return why a project's tool cannot be called ``name``; None where it can."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not a tool's name: letters, digits and _, at most 48, a letter first"
    if name in BUILT_IN or name in SWITCHES:
        return f"{name} is built in"
    if name.startswith((*CONTEXT_FAMILIES, SERVER_PREFIX)):
        return f"names that begin with {name.partition('_')[0]}_ are taken"
    return None


def server_name_fault(name: str) -> str | None:
    """Return why an MCP server cannot be called ``name``; None where it can."""
    if not _SERVER_NAME.fullmatch(name):
        return f"{name[:60]!r} is not a server's name: letters, digits, single - and _, at most 32"
    return f"{name} is what Daemon MCP is called" if name in _DAEMON else None


def is_read_only(name: str, read_only: Iterable[str]) -> bool:
    """Return whether the tool ``name`` of an MCP server is among those that an agent's ``read_only`` names."""
    return any(
        name.startswith(one.removesuffix(EVERY_TOOL)) if one.endswith(EVERY_TOOL) else name == one for one in read_only
    )


def server_and_tool(word: str) -> tuple[str, str]:
    """Return what a word of ``read_only`` names: a server, and a tool of it or the beginning of one.

    ("", "") if none.
    """
    if not word.startswith(SERVER_PREFIX):
        return "", ""
    server, between, tool = word.removeprefix(SERVER_PREFIX).partition("__")
    return (server, tool) if between and tool and EVERY_TOOL not in tool[:-1] else ("", "")


def input_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """``input`` as JSON Schema. Raises ValueError for a short form with a type that is none."""
    if given.get("type") == "object" or "$schema" in given or "properties" in given:
        return {"type": "object", **given}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, word in given.items():
        kind = word.removesuffix("?") if isinstance(word, str) else ""
        if kind not in TYPES:
            raise ValueError(f"{name[:60]}: {str(word)[:60]!r} is no type; there are {', '.join(TYPES)}")
        properties[name] = {"type": kind}
        required += [] if str(word).endswith("?") else [name]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def placeholders(command: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments that words of ``command`` stand for."""
    return tuple(match[1] for word in command if (match := _PLACEHOLDER.fullmatch(word)))


def part_placeholders(word: str) -> tuple[str, ...]:
    """Return what looks like arguments in ``word``, and is only a part of it: nothing is put in their place."""
    return () if _PLACEHOLDER.fullmatch(word) else tuple(_PLACEHOLDER.findall(word))


def filled(command: tuple[str, ...], args: Mapping[str, Any]) -> list[str]:
    """``command`` with its placeholders replaced, each by one word; one whose argument is not given is left out."""
    words: list[str] = []
    for word in command:
        match = _PLACEHOLDER.fullmatch(word)
        if match is None:
            words.append(word)
        elif args.get(match[1]) is not None:
            value = args[match[1]]
            words.append(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return words


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that can be read: what a model is told of it at once, and the folder with the rest."""

    name: str
    description: str
    folder: str
    """Absolute, and no part of it is a link; ``SKILL.md`` is in it."""
    files: dict[str, str] = {}
    """The SHA-256 of each file in it, by its path in it: what was trusted, and so all that is read."""
