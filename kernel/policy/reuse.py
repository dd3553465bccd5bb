"""Reuse of worker processes: how many attempts of an agent one process serves. Pure."""

from typing import Final, Literal

from protocol.agent import AgentDefinition
from protocol.tools import ON_DEMAND

AUTO_ATTEMPTS: Final = 20
"""Attempts that one worker serves with ``reuse: auto``, which limits the effect of leaks."""
KERNEL_TOOLS: Final = frozenset(ON_DEMAND.values())
"""Words in ``tools:`` whose tools run in the kernel."""


def attempts_per_worker(definition: AgentDefinition, default: Literal["auto"] | None) -> int:
    """Return how many attempts one worker process of the agent serves; ``default`` is the project's setting."""
    asked = definition.reuse or default or 1
    if asked == "auto":
        return 1 if reaches_machine(definition) else AUTO_ATTEMPTS
    return asked


def reaches_machine(definition: AgentDefinition) -> bool:
    """Return whether a worker of the agent may start processes or open files for it, or run in a sandbox."""
    return (
        definition.backend not in ("sdk", "mock")
        or definition.sandbox == "on"
        or bool(definition.mcp_servers or definition.skills)
        or not KERNEL_TOOLS.issuperset(definition.tools)
        or any(action.shell is not None for rule in definition.mock for action in rule.do)
    )
