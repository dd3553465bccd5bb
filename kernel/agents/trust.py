"""What in a definition needs the user's trust: files of a project are not believed by themselves (decisions, Trust).

Pure: who grants trust, and for how long, is not known here.
"""

from collections.abc import Iterable

from kernel.agents.providers import MOCK, PROVIDERS, ModelRejected, Route, route
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.project import ProjectDefinition

HINT = "look at it, then repeat with AGENT_WORKER_TRUST=1 set (start and run also take --trust)"
_SHOWN = 5


def demands(definition: AgentDefinition, project: ProjectDefinition) -> tuple[str, ...]:
    """What an attempt of ``definition`` would do that needs trust, as phrases; empty where it needs none."""
    found: list[str] = []
    if definition.backend != MOCK and definition.model:
        try:
            way = route(definition, project)
        except ModelRejected:
            way = None
        if way is not None:
            found += _of_route(definition.name, way)
    found += [f"{definition.name} gets ${name} of your environment" for name in definition.env]
    if _plays(definition):
        shells = [action.shell for rule in definition.mock for action in rule.do if action.shell is not None]
        found += [f"{definition.name} runs: {shell}" for shell in shells]
    return tuple(found)


def require_trust(found: Iterable[str], *, trusted: bool) -> None:
    """Raise Refused(untrusted) if anything was ``found`` and nobody said that it is trusted."""
    wanted = tuple(found)
    if trusted or not wanted:
        return
    more = f"; and {len(wanted) - _SHOWN} more" if len(wanted) > _SHOWN else ""
    raise Refused("untrusted", f"not trusted yet: {'; '.join(map(_cut, wanted[:_SHOWN]))}{more}", HINT)


def _of_route(name: str, way: Route) -> list[str]:
    keys = [f"${key}" for key in way.keys if way.foreign or key not in PROVIDERS[way.name].key_variables]
    what = " and ".join(["its prompts", *keys] if way.foreign else keys)
    return [f"{name} sends {what} to {way.base_url or way.name}"] if what else []


def _plays(definition: AgentDefinition) -> bool:
    return definition.backend == MOCK or definition.model.startswith(f"{MOCK}/")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 140 else f"{line[:137]}..."
