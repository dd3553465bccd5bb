"""BACKENDS: the table of what can run an agent. Loader, kernel, documents and ``awk backends`` read it.

It says what a backend is able to do, never how: that is one file of ``worker/backends`` each.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from protocol.agent import Approval, Backend

Ability = Literal["yes", "weaker", "no"]


MAX_LOGIN_BYTES: Final = 64 * 1024
"""Of a program's login: what is larger is none."""


class TokenField(msgspec.Struct, frozen=True):
    """The place of a token in a login's JSON: a text, or with ``number`` a time."""

    path: tuple[str, ...]
    number: bool = False


class LoginSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a program's login of its owner. ``file`` is below ``folder``, a folder of the home, or below what
    ``folder_variable`` names; ``private`` is the same file below a home that we give the program.
    """

    folder: str
    folder_variable: str
    file: str
    private: str
    how: str
    """How to log in."""
    providers: frozenset[str]
    """Whose models it is good for."""
    renews: tuple[TokenField, ...]
    """What its program renews; of what it leaves in its copy, nothing else goes home."""
    parts: frozenset[str] = frozenset()
    """The entries of the file that are lent; all, where none is named."""
    by_provider: bool = False
    """Whether the file has an entry for each provider: one is lent, and ``renews`` is below it."""
    token_variable: str = ""
    """A variable that may hold a token in place of the file, which nothing renews."""


OWN_SKILLS: Final = "own-skills"
"""The folder of a program's private home that has the copies of its owner's skills."""


class OwnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The places of what its owner gave a program: below ``folder`` of the home, or what ``folder_variable`` names.

    Of ``skills`` (folders) and of ``servers`` (files, which have them under ``servers_key``) the first counts that is
    there; the last is where they usually are. ``hooks`` is a file; "" where it has none that could be let in, and
    ``no_hooks`` says why.
    """

    folder: str
    folder_variable: str
    skills: tuple[str, ...]
    servers: tuple[str, ...]
    servers_key: str
    hooks: str = ""
    no_hooks: str = ""


class BackendSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One backend. A program's own name is looked for under each of ``binaries``; the first one found is used.

    ``dialects`` are those a provider must speak one of. ``notes`` says what ``weaker`` and ``no`` mean, for people.
    """

    name: Backend
    title: str
    binaries: tuple[str, ...] = ()
    install: str = ""
    """How to get the program, in the words of a command where there is one."""
    says: str = ""
    """What its ``--help`` must contain, where its name alone does not tell whose program it is."""
    bare: bool = False
    """Whether it may do without a model and a prompt."""
    tested: str = ""
    """The version of its program that the contract suite is run against."""
    commanded: bool = False
    """Its program is what the agent's own file says, in ``command``."""
    own_models: bool = False
    """``model`` is its program's own word for one, which has the key to it."""
    own_home: bool = False
    """``login: true`` gives its program the home of its user as it is, since nobody knows what of it is the login."""
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
            servers=(".claude.json", "../.claude.json"),  # beside its folder, unless that is moved
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
            "model: the program's own name; env names its key and all other variables that it gets",
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

EXEC: Final = "exec"
"""The one whose program takes the place of our worker."""
COMMANDED: Final = frozenset(row.name for row in _ROWS if row.commanded)
"""Those whose program the agent's own file names."""
HUMAN: Final = "human"
"""The one that is a person: nothing of it is ever started."""
CLIS: Final = frozenset(row.name for row in _ROWS if row.binaries or (row.commanded and row.own_session))
"""Those that are another program, which our worker runs."""


ACP: Final = "acp"
PROJECT_SETTINGS: Final = (
    ".mcp.json", ".claude", ".codex", ".cursor", ".gemini", ".goose", ".opencode", ".qwen", "opencode.json",
    "opencode.jsonc",
)  # fmt: skip
"""Files and folders of a project from which programs load settings, hooks, plugins and MCP servers."""


class AcpProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Measured behavior of a program."""

    tested: str = ""
    """The version that was measured."""
    mode: str = ""
    """The session mode in which the program asks before each change; empty: private settings make it ask."""
    other_modes: frozenset[str] = frozenset()
    """Modes that allow no more than ``mode``: the program may switch to them by itself."""
    approvals: frozenset[Approval] = frozenset({"auto", "ask", "all", "deny"})
    """Values of ``approval`` that the program can honor."""
    settings: tuple[str, ...] = PROJECT_SETTINGS
    """Those of PROJECT_SETTINGS that it may load."""
    endpoint: str = ""
    """The variable with the address of its provider, through which its requests can be metered."""
    official: str = ""
    """The address of its provider where ``endpoint`` is unset."""
    metered_models: bool = False
    """Whether its requests can be metered because ``model`` names the provider (``provider/model``)."""

    def meters(self, model: str) -> bool:
        """Return whether the requests of the program can be counted and held back."""
        return bool(self.endpoint) or (self.metered_models and "/" in model)


ACP_PROGRAMS: Final[Mapping[str, AcpProgram]] = MappingProxyType(
    {
        "claude-agent-acp": AcpProgram(
            tested="0.49.0",
            mode="default",
            other_modes=frozenset({"plan", "dontAsk"}),
            settings=(".claude", ".mcp.json"),
            endpoint="ANTHROPIC_BASE_URL",
            official="https://api.anthropic.com",
        ),
        "gemini": AcpProgram(
            tested="0.61.0",
            mode="default",
            other_modes=frozenset({"plan"}),
            settings=(".gemini",),
            endpoint="GOOGLE_GEMINI_BASE_URL",
            official="https://generativelanguage.googleapis.com",
        ),
        "opencode": AcpProgram(
            tested="1.18.33", settings=(".opencode", "opencode.json", "opencode.jsonc"), metered_models=True
        ),
    }
)
UNKNOWN: Final = AcpProgram(mode="ask", approvals=frozenset({"auto", "ask", "deny"}))
"""Any other program: it has to offer the mode that the protocol's own documents call ``ask``."""


def acp_program(command: Sequence[str]) -> AcpProgram:
    """Return what is known of the program that ``command`` starts."""
    return ACP_PROGRAMS.get(command[0].rpartition("/")[2] if command else "", UNKNOWN)
