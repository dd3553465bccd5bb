"""Tools: names in ``tools:`` of an agent file, built-in tools, and project tools. Pure.

Of Daemon MCP's tools, this module has only the names and scopes; the kernel has the definitions.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from protocol.agent import Duration, Scope


class BuiltIn(NamedTuple):
    """Built-in tool of the worker. ``switch`` is the word in ``tools:`` that enables it."""

    name: str
    switch: str
    read_only: bool
    """Whether a call changes nothing, so that it can be repeated and needs no approval under ``approval: ask``."""


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
"""Tool of Daemon MCP that requests an approval."""

OFFERED_TO: Final = "X-Offered-To"
"""Header of a client that shows the listed tools to a model (``TO_MODEL``). The list then omits tools that are not
for models. Permission prompts of programs and external workers do not send the header."""
TO_MODEL: Final = "model"

SENDING: Final = "sending."
"""Prefix of a call key that identifies one transmission only, because the client does not number
its calls. If an interrupted call is repeated, the repetition has another key."""

ON_DEMAND: Final[Mapping[str, str]] = {"feedback_submit": "feedback"}
"""Tools of Daemon MCP with a word: models see the tool only if ``tools:`` has the word. Any agent may call it."""

SWITCHES: Final = frozenset({*(row.switch for row in _ROWS), *ON_DEMAND.values()})
"""Words in ``tools:`` besides the names of project tools."""

ToolScope = Scope | Literal["all", "tree"]
"""``all``: for every agent. ``tree``: for agents with a working tree."""

_BY_SCOPE: Final[tuple[tuple[ToolScope, str], ...]] = (
    ("channel.read", "channel_read my_inbox my_inbox_ack"),
    ("channel.write", "channel_send resource_create"),
    ("documents.read", "team_doc_read team_doc_list team_doc_history"),
    ("documents.write", "team_doc_write team_doc_append team_doc_create team_doc_delete"),
    ("documents.write", "team_doc_suggest team_doc_accept team_doc_reject"),
    ("tasks", "team_task_plan team_task_list team_task_claim team_task_done team_task_fail team_task_split"),
    ("votes", "team_proposal_create team_vote team_proposal_status team_proposal_cancel"),
    ("memory", "history_search history_read memory_recall memory_read memory_write memory_forget"),
    ("memory", "note_write note_read todo_list todo_add todo_done"),
    ("status", "my_status_set handover_write"),
    ("ask", "ask_agent memory_ask"),
    ("memory", "share_with memory_tray soul_reflect soul_suggest"),
    ("feedback", "feedback_submit"),
    ("rules", "rule_list rule_define rule_invoke"),
    ("all", "team_members resource_read auth_request"),
    ("auth", "auth_grant auth_revoke"),
    ("spaces", "space_create space_members"),
    ("tree", "tree_status tree_take tree_commit"),
)
CONTEXT_SCOPES: Final[Mapping[str, ToolScope]] = {name: scope for scope, names in _BY_SCOPE for name in names.split()}
"""Daemon MCP's tools, each with its scope, in the order in which they are listed."""

DEPRECATED_TOOLS: Final[Mapping[str, str]] = {
    "proposal_list": "rule_list",
    "proposal_define": "rule_define",
    "proposal_invoke": "rule_invoke",
}
"""Deprecated names of tools with their current names. Calls and approval rules may use them until 0.3.0; no list
contains them."""
CONTEXT_TOOLS: Final = frozenset({*CONTEXT_SCOPES, *DEPRECATED_TOOLS})


RULES_FILES: Final = ("CLAUDE.md", "AGENTS.md")
"""Files of a project with rules for agents."""

CONTEXT_FAMILIES: Final = tuple(sorted({f"{name.partition('_')[0]}_" for name in CONTEXT_TOOLS}))
"""Reserved prefixes of Daemon MCP's tools. No other tool may use them."""

SERVER_PREFIX: Final = "mcp__"
"""Prefix of tools of an agent's MCP servers: ``mcp__<server>__<tool>``."""

EVERY_TOOL: Final = "*"
"""Wildcard at the end of a name."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}", re.ASCII)
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|[-_](?=[A-Za-z0-9])){0,31}", re.ASCII)
_DAEMON: Final = frozenset({"daemon", "agent-worker"})
_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)

TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")
"""Types of JSON Schema in the short form of ``input``."""


class ProjectTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tool of the project: a command, or a fixed answer.

    The command receives its arguments as one JSON object on standard input, and answers on standard output.
    """

    description: str
    """Description for models."""
    command: tuple[str, ...] = ()
    """Program and arguments. A word ``${name}`` is replaced by that argument. It needs trust."""
    input: dict[str, Any] = {}
    """Arguments: a name to a type (``path: string``, ``limit: integer?``), or a JSON Schema."""
    read_only: bool = False
    """``true``: the tool changes nothing, so it runs without approval and may be run again."""
    timeout: Duration = 120.0
    """Time limit of a call."""
    mock: str | None = None
    """Fixed answer that replaces the command."""


def current_name(name: str) -> str:
    """Return the current name of a tool whose name may be deprecated."""
    return DEPRECATED_TOOLS.get(name, name)


def former_name(name: str) -> str:
    """Return the deprecated name of a tool, or ``name`` if it has none."""
    return next((old for old, new in DEPRECATED_TOOLS.items() if new == name), name)


def tool_name_fault(name: str) -> str | None:
    """Return why a project tool cannot have this ``name``, or None."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not a tool's name: letters, digits and _, at most 48, a letter first"
    if name in BUILT_IN or name in SWITCHES:
        return f"{name} is built in"
    if name.startswith((*CONTEXT_FAMILIES, SERVER_PREFIX)):
        return f"names that begin with {name.partition('_')[0]}_ are taken"
    return None


def server_name_fault(name: str) -> str | None:
    """Return why an MCP server cannot have this ``name``, or None."""
    if not _SERVER_NAME.fullmatch(name):
        return f"{name[:60]!r} is not a server's name: letters, digits, single - and _, at most 32"
    return f"{name} is what Daemon MCP is called" if name in _DAEMON else None


def is_read_only(name: str, read_only: Iterable[str]) -> bool:
    """Return whether an agent's ``read_only`` includes the tool ``name`` of an MCP server."""
    return any(
        name.startswith(one.removesuffix(EVERY_TOOL)) if one.endswith(EVERY_TOOL) else name == one for one in read_only
    )


def server_and_tool(word: str) -> tuple[str, str]:
    """Split a word of ``read_only`` into the MCP server and the tool (``search``) or a pattern
    of tools (``*``). Returns ("", "") if the word names no tool of a server."""
    if not word.startswith(SERVER_PREFIX):
        return "", ""
    server, between, tool = word.removeprefix(SERVER_PREFIX).partition("__")
    return (server, tool) if between and tool and EVERY_TOOL not in tool[:-1] else ("", "")


def input_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``input`` as JSON Schema. Raises ValueError for an unknown type in the short form."""
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
    """Return the names of the arguments that words of ``command`` refer to, as ``${name}``."""
    return tuple(match[1] for word in command if (match := _PLACEHOLDER.fullmatch(word)))


def part_placeholders(word: str) -> tuple[str, ...]:
    """Return placeholders that are only a part of ``word`` and therefore not replaced."""
    return () if _PLACEHOLDER.fullmatch(word) else tuple(_PLACEHOLDER.findall(word))


def filled(command: tuple[str, ...], args: Mapping[str, Any]) -> list[str]:
    """Return ``command`` with its placeholders replaced. Words of missing arguments are omitted."""
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
    """Skill of an agent: name and description for the prompt, and the folder with its files."""

    name: str
    description: str
    folder: str
    """Absolute path without links of the folder with ``SKILL.md``."""
    files: dict[str, str] = {}
    """SHA-256 of each file by its path in the folder. Only these trusted files can be read."""
