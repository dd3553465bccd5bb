"""ACP_PROGRAMS: programs that speak the Agent Client Protocol and were measured. Loader, kernel and worker read it.

A program is known by its name. Any other program counts as UNKNOWN: nothing is assumed of it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from protocol.agent import Approval

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
