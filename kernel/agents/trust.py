"""What in a definition needs the user's trust: files of a project are not believed by themselves (decisions, Trust).

Pure: who grants trust, and for how long, is not known here.
"""

from collections.abc import Iterable

from kernel.agents.providers import MOCK, ModelRejected, route
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.project import ProjectDefinition

HINT = "look at it, then repeat with --trust (or set AGENT_WORKER_TRUST=1)"
_SHOWN = 5


def demands(definition: AgentDefinition, project: ProjectDefinition) -> tuple[str, ...]:
    """What an attempt of ``definition`` would do that needs trust, as phrases; empty where it needs none."""
    found: list[str] = []
    if definition.backend != MOCK and definition.model:
        try:
            way = route(definition, project)
        except ModelRejected:
            way = None
        if way is not None and way.foreign:
            found.append(f"{definition.name} sends its prompts to {way.base_url}")
    if _plays(definition):
        shells = [action.shell for rule in definition.mock for action in rule.do if action.shell is not None]
        found += [f"{definition.name} runs: {_cut(shell)}" for shell in shells]
    return tuple(found)


def require_trust(found: Iterable[str], *, trusted: bool) -> None:
    """Raise Refused(untrusted) if anything was ``found`` and nobody said that it is trusted."""
    wanted = tuple(found)
    if trusted or not wanted:
        return
    more = f"; and {len(wanted) - _SHOWN} more" if len(wanted) > _SHOWN else ""
    raise Refused("untrusted", f"not trusted yet: {'; '.join(wanted[:_SHOWN])}{more}", HINT)


def _plays(definition: AgentDefinition) -> bool:
    return definition.backend == MOCK or definition.model.startswith(f"{MOCK}/")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."
