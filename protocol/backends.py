"""BACKENDS: the table of backends that can run an agent, for the loader, the kernel, the docs and ``awk backends``.

It lists the abilities of each backend. The implementations are in ``worker/backends``.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from protocol.agent import Approval, Backend

Ability = Literal["yes", "weaker", "no"]


MAX_LOGIN_BYTES: Final = 64 * 1024
"""Maximum size of a program's login file. Larger files are not accepted as a login."""


class TokenField(msgspec.Struct, frozen=True):
    """Path of a token or its expiry in a login's JSON. ``number``: the value is a number, not a text."""

    path: tuple[str, ...]
    number: bool = False


class LoginSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Location of the user's login for a program. ``file`` is relative to ``folder`` in the
    user's home, or to the folder that the variable ``folder_variable`` names; ``private`` is the
    path of the copy in the program's private home."""

    folder: str
    folder_variable: str
    file: str
    private: str
    how: str
    """Instruction for the user how to log in."""
    providers: frozenset[str]
    """Providers whose models the login gives access to."""
    renews: tuple[TokenField, ...]
    """Tokens that the program renews. Only these are copied back from its private copy to the user's file."""
    parts: frozenset[str] = frozenset()
    """Entries of the file that the program receives. Empty: all."""
    by_provider: bool = False
    """Whether the file has an entry for each provider. The program then receives only one entry,
    to which ``renews`` applies."""
    token_variable: str = ""
    """Environment variable that may contain a token instead of the file. Such a token is not renewed."""


OWN_SKILLS: Final = "own-skills"
"""Folder of a program's private home with copies of the user's skills."""


class OwnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Locations of the user's own extensions of a program, relative to ``folder`` or the folder
    that ``folder_variable`` names.

    The first existing path of ``skills`` (folders) and of ``servers`` (files with the key
    ``servers_key``) is used; the last path is the usual one. ``hooks`` is a file; if it is "",
    hooks are not supported, and ``no_hooks`` is the reason."""

    folder: str
    folder_variable: str
    skills: tuple[str, ...]
    servers: tuple[str, ...]
    servers_key: str
    hooks: str = ""
    no_hooks: str = ""


class BackendSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Backend with its abilities. The first of ``binaries`` that is installed is used.

    A provider must support one of ``dialects``. ``notes`` explains abilities with the value
    ``weaker`` or ``no`` to the user."""

    name: Backend
    title: str
    binaries: tuple[str, ...] = ()
    install: str = ""
    """Command or instruction to install the program."""
    says: str = ""
    """Text that the output of ``--help`` must contain, if the program's name is ambiguous."""
    bare: bool = False
    """Whether an agent may have no model and no prompt."""
    tested: str = ""
    """Version of the program that the contract suite runs against."""
    commanded: bool = False
    """Whether the agent's file names the program in ``command``."""
    own_models: bool = False
    """Whether ``model`` is the program's own name of a model, for which the program has the key."""
    own_home: bool = False
    """Whether ``login: true`` gives the program the user's complete home, because the login's location is unknown."""
    dialects: frozenset[str] = frozenset({"anthropic", "openai", "mock"})
    steps: Ability = "yes"
    """Whether each reply is recorded when it arrives, so that limits apply between two replies."""
    resume: Ability = "yes"
    permission_prompt: Ability = "yes"
    """Whether a person can approve a tool call before it runs."""
    budget: Ability = "yes"
    system_prompt: Ability = "yes"
    daemon_check: Ability = "yes"
    """Whether the program reports a failed connection to Daemon MCP."""
    own_session: bool = False
    """Whether the program stores the conversation in ``sessions/``. A resume then names the session."""
    login: LoginSpec | None = None
    own: OwnSpec | None = None
    notes: tuple[str, ...] = ()


_ROWS: Final = (
    BackendSpec(name="sdk", title="the built-in loop over a model's API"),
    BackendSpec(
        name="claude",
        title="Claude Code",
        binaries=("claude",),
        install="npm install -g @anthropic-ai/claude-code",
        tested="2.1.329",
        dialects=frozenset({"anthropic"}),
        own_session=True,
        login=LoginSpec(
            folder=".claude",
            folder_variable="CLAUDE_CONFIG_DIR",
            file=".credentials.json",
            private=".credentials.json",
            how="log in with claude, or set CLAUDE_CODE_OAUTH_TOKEN where the kernel starts (claude setup-token)",
            providers=frozenset({"anthropic"}),
            renews=(
                TokenField(("claudeAiOauth", "accessToken")),
                TokenField(("claudeAiOauth", "refreshToken")),
                TokenField(("claudeAiOauth", "expiresAt"), number=True),
            ),
            parts=frozenset({"claudeAiOauth", "organizationUuid"}),
            token_variable="CLAUDE_CODE_OAUTH_TOKEN",
        ),
        own=OwnSpec(
            folder=".claude",
            folder_variable="CLAUDE_CONFIG_DIR",
            skills=("skills",),
            servers=(".claude.json", "../.claude.json"),  # beside the default folder
            servers_key="mcpServers",
            hooks="settings.json",
        ),
    ),
    BackendSpec(
        name="codex",
        title="Codex",
        binaries=("codex",),
        install="npm install -g @openai/codex",
        tested="0.169.0",
        dialects=frozenset({"openai"}),
        own_session=True,
        permission_prompt="no",
        login=LoginSpec(
            folder=".codex",
            folder_variable="CODEX_HOME",
            file="auth.json",
            private="auth.json",
            how="log in with codex login",
            providers=frozenset({"openai"}),
            renews=(
                TokenField(("tokens", "id_token")),
                TokenField(("tokens", "access_token")),
                TokenField(("tokens", "refresh_token")),
                TokenField(("last_refresh",)),
            ),
        ),
        own=OwnSpec(
            folder=".codex",
            folder_variable="CODEX_HOME",
            skills=("skills",),
            servers=("config.toml",),
            servers_key="mcp_servers",
            no_hooks="Codex runs a hook that its owner has reviewed there, or all that it finds with no review at all",
        ),
        notes=(
            "asks: it cannot ask; with approval ask or deny it may read, with all no shell, with auto everything",
            "read_only: names of tools, and mcp__docs__* for a whole server; a pattern within a server is ignored",
            "its provider has to offer OpenAI's Responses API",
            "AGENTS.md (see project_rules) and .codex of the project are not read, its subagents are off",
        ),
    ),
    BackendSpec(
        name="opencode",
        title="opencode",
        binaries=("opencode",),
        install="npm install -g opencode-ai",
        tested="1.18.33",
        dialects=frozenset({"anthropic", "openai"}),
        own_session=True,
        permission_prompt="no",
        login=LoginSpec(
            folder=".local/share",
            folder_variable="XDG_DATA_HOME",
            file="opencode/auth.json",
            private="data/opencode/auth.json",
            how="log in with opencode auth login",
            providers=frozenset({"anthropic", "openai"}),
            renews=(TokenField(("access",)), TokenField(("refresh",)), TokenField(("expires",), number=True)),
            by_provider=True,
        ),
        own=OwnSpec(
            folder=".config",
            folder_variable="XDG_CONFIG_HOME",
            skills=("opencode/skill", "opencode/skills"),
            servers=("opencode/opencode.jsonc", "opencode/opencode.json"),
            servers_key="mcp",
            no_hooks="opencode has no hooks: its plugins are code that runs within it",
        ),
        notes=(
            "asks: it cannot ask; with approval ask or deny it may read, with all nothing, with auto everything",
            "it repeats a refused request itself, five times in a minute; a longer pause ends the attempt",
            "a project with plugins for it is refused, because it would run them regardless of its settings",
            "AGENTS.md (see project_rules) and opencode.json of the project are not read, subagents are off",
        ),
    ),
    BackendSpec(
        name="cursor",
        title="Cursor",
        binaries=("cursor-agent",),
        install="curl https://cursor.com/install -fsS | bash",
        tested="2026.08.11-e8db854",
        says="Cursor",
        dialects=frozenset({"cursor"}),
        own_session=True,
        steps="weaker",
        permission_prompt="no",
        budget="weaker",
        system_prompt="weaker",
        daemon_check="weaker",
        notes=(
            "steps: the end of a reply is inferred from calls that return",
            "asks: it cannot ask; with approval ask it may only read, with auto everything",
            "key: it talks only to its vendor, so it gets the key itself; other programs get a placeholder",
            "budget: it reports tokens at the end of its work, so limits act then; its price is unknown",
            "system prompt: not supported, so it precedes the first message",
            "notices: it does not report its connection; the kernel sees whether it connected",
            "a project with a .cursor folder is refused, because its servers and hooks would run",
            "tools of MCP servers are refused unless approval is auto, even if read_only names them",
            "a missing program of the agent's MCP server is reported; one that exits at its start is not",
            "it was tested with a stand-in for its documented format, because it needs an account",
        ),
    ),
    BackendSpec(
        name="acp",
        title="a program that speaks ACP (gemini, opencode, goose, qwen, ...)",
        install="its own; command: [gemini, --acp]",
        bare=True,
        commanded=True,
        own_models=True,
        own_home=True,
        own_session=True,
        steps="weaker",
        resume="weaker",
        permission_prompt="weaker",
        budget="weaker",
        system_prompt="weaker",
        daemon_check="no",
        notes=(
            "command: [gemini, --acp], [opencode, acp], or another program with version 1 of the Agent Client Protocol",
            "steps: the end of a reply is inferred from calls that return",
            "resume: by session/resume or session/load; without either (and gemini) it gets a list of finished steps",
            "asks: in its asking session mode; a program without a known one needs approval: auto",
            "budget: tokens of metered programs, else none; notices: it may connect only when it needs a tool",
            "model: the program's own name; env names the variables that it gets, its key as a placeholder",
            "system prompt: not supported, so it precedes the first message; our file access is not offered",
        ),
    ),
    BackendSpec(
        name="exec",
        title="a program that speaks the worker protocol",
        bare=True,
        commanded=True,
        notes=("each depends on the program (docs/contributing/worker-protocol.md)",),
    ),
    BackendSpec(
        name="human",
        title="a person, who finds questions in awk needs and replies with awk answer",
        bare=True,
        steps="no",
        permission_prompt="no",
        budget="no",
        system_prompt="no",
        daemon_check="no",
        notes=(
            "no process runs: a question waits for timeouts.answer",
            "awk reassign gives it to another member, and so does timeouts.escalate after the deadline",
        ),
    ),
    BackendSpec(name="mock", title="a script, without a model", bare=True),
)

BACKENDS: Final[Mapping[str, BackendSpec]] = {row.name: row for row in _ROWS}

SDK: Final = "sdk"
"""Backend that is the built-in loop."""
EXEC: Final = "exec"
"""Backend whose program replaces the worker."""
COMMANDED: Final = frozenset(row.name for row in _ROWS if row.commanded)
"""Backends whose program the agent's file names."""
HUMAN: Final = "human"
"""Backend that is a person, for which no process is started."""
CLIS: Final = frozenset(row.name for row in _ROWS if row.binaries or (row.commanded and row.own_session))
"""Backends that are a separate program, which the worker runs."""


ACP: Final = "acp"
PROJECT_SETTINGS: Final = (
    ".mcp.json", ".claude", ".codex", ".cursor", ".gemini", ".goose", ".opencode", ".qwen", "opencode.json",
    "opencode.jsonc",
)  # fmt: skip
"""Files and folders of a project from which programs load settings, hooks, plugins and MCP servers."""


class AcpProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Behavior of an ACP program, as it was measured."""

    tested: str = ""
    """Version that was measured."""
    mode: str = ""
    """Session mode in which the program asks before each change. Empty: the settings in its
    private home make it ask."""
    other_modes: frozenset[str] = frozenset()
    """Modes that allow no more than ``mode``. The program may switch to them on its own."""
    approvals: frozenset[Approval] = frozenset({"auto", "ask", "all", "deny"})
    """Values of ``approval`` that the program can honor."""
    settings: tuple[str, ...] = PROJECT_SETTINGS
    """Entries of PROJECT_SETTINGS that the program may load."""
    endpoint: str = ""
    """Environment variable that sets the URL of the provider. With it, the kernel can meter requests."""
    sends_name: bool = False
    """Whether the provider knows a model by the same name as the program."""
    metered_models: bool = False
    """Whether its requests can be metered because ``model`` names the provider (``provider/model``)."""

    def meters(self, model: str) -> bool:
        """Return whether the kernel can count and hold back the program's requests for ``model``."""
        return bool(self.endpoint) or (self.metered_models and "/" in model)


ACP_PROGRAMS: Final[Mapping[str, AcpProgram]] = {
    "claude-agent-acp": AcpProgram(
        tested="0.49.0",
        mode="default",
        other_modes=frozenset({"plan", "dontAsk"}),
        settings=(".claude", ".mcp.json"),
        endpoint="ANTHROPIC_BASE_URL",
    ),
    "gemini": AcpProgram(
        tested="0.61.0",
        mode="default",
        other_modes=frozenset({"plan"}),
        settings=(".gemini",),
        endpoint="GOOGLE_GEMINI_BASE_URL",
        sends_name=True,
    ),
    "opencode": AcpProgram(
        tested="1.18.33",
        settings=(".opencode", "opencode.json", "opencode.jsonc"),
        sends_name=True,
        metered_models=True,
    ),
}
UNKNOWN: Final = AcpProgram(mode="ask", approvals=frozenset({"auto", "ask", "deny"}))
"""Behavior of any other program: it must offer the mode ``ask`` of the protocol's documentation."""


def acp_program(command: Sequence[str]) -> AcpProgram:
    """Return the measured behavior of the program in ``command``, or UNKNOWN."""
    return ACP_PROGRAMS.get(command[0].rpartition("/")[2] if command else "", UNKNOWN)
