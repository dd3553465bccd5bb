"""What in a definition needs the user's trust: files of a project are not believed by themselves (decisions, Trust).

Pure: who grants trust, and where it is kept, is not known here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kernel.agents.belongings import NOTHING, Belongings
from kernel.agents.providers import MOCK, PROVIDERS, ModelRejected, Route, route
from kernel.agents.schedule import spends_text, wakes_text
from protocol.agent import AgentDefinition, Schedule
from protocol.backends import CLIS
from protocol.budget import AgentBudget
from protocol.errors import Refused
from protocol.project import ProjectDefinition
from protocol.remote import is_remote
from protocol.trust import Asked, Consent, Unit, changes, unit

HINT: Final = "repeat with --trust (or AGENT_WORKER_TRUST=1) for this once, or look at it and keep it: awk trust"
REMOTE_HINT: Final = (
    "repeat with --trust (or AGENT_WORKER_TRUST=1) for this once, or run it on a terminal to look at it and keep it"
)
_SHOWN: Final = 5

Kept = Callable[[], Iterable[Consent]]
"""What the user keeps to trust, as it is now."""


class Untrusted(Refused):
    """Files would run or reach something that nobody agreed to. ``wants`` is what to ask about."""

    def __init__(self, wants: tuple[Asked, ...]) -> None:
        fetched = any(is_remote(one.subject.removeprefix("workflow ")) for one in wants)
        super().__init__("untrusted", _told(wants), REMOTE_HINT if fetched else HINT)
        self.wants = wants


@dataclass(frozen=True, slots=True)
class Say:
    """What is agreed to for one request: ``everything``, or units by their digest; and what is ``kept``."""

    everything: bool = False
    agreed: frozenset[str] = frozenset()
    kept: Kept = tuple


def demands(definition: AgentDefinition, project: ProjectDefinition, own: Belongings = NOTHING) -> tuple[str, ...]:
    """What an attempt of ``definition`` would do that needs trust, verbatim; empty where it needs none.

    ``own`` is what it brings along.
    """
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
    return (*found, *_unasked(definition, own), *own.demands)


def agent_units(definition: AgentDefinition, project: ProjectDefinition, own: Belongings) -> tuple[Unit, ...]:
    """What ``definition`` needs trust for, with what it brings along, as a unit; none where it needs none."""
    found = demands(definition, project, own)
    return (unit(f"agent {definition.name}", found),) if found else ()


def schedule_units(definition: AgentDefinition) -> tuple[Unit, ...]:
    """What the schedule of ``definition`` needs trust for. It is a unit of its own: a message needs no schedule."""
    if definition.schedule is None:
        return ()
    name = definition.name
    return (unit(schedule_subject(name), schedule_demands(name, definition.schedule, definition.budget)),)


def schedule_subject(name: str) -> str:
    """Whose consent is meant."""
    return f"schedule of {name}"


def schedule_demands(name: str, schedule: Schedule, budget: AgentBudget) -> tuple[str, ...]:
    """What an agent's own schedule would do."""
    return (wakes_text(name, schedule), spends_text(name, budget))


def require_trust(wanted: Iterable[Unit], say: Say) -> tuple[str, ...]:
    """Raise Untrusted unless all that is ``wanted`` is agreed to.

    Returns the demands that are, for this request alone: what is kept is looked up again whenever it matters, so that
    it can be taken back.
    """
    for_now: list[str] = []
    rest: list[Unit] = []
    for one in wanted:
        if say.everything or one.digest in say.agreed:
            for_now += one.demands
        else:
            rest.append(one)
    missing = missing_consent(rest, say.kept) if rest else ()
    if missing:
        raise Untrusted(missing)
    return tuple(for_now)


def missing_consent(wanted: Iterable[Unit], kept: Kept) -> tuple[Asked, ...]:
    """Those of ``wanted`` that are not kept, each beside what was kept for the same subject."""
    consents = tuple(kept())
    digests = {one.digest for one in consents}
    before = {one.subject: one.demands for one in consents}
    return tuple(
        Asked(subject=one.subject, demands=one.demands, digest=one.digest, before=before.get(one.subject, ()))
        for one in wanted
        if one.digest not in digests
    )


def changed_text(wants: Iterable[Asked]) -> str:
    """What is not agreed to, on one line: of what was trusted once, only what is new."""
    parts = [part for one in wants for part in _parts(one)]
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(map(_cut, parts[:_SHOWN])) + more


def _told(wants: tuple[Asked, ...]) -> str:
    changed = all(one.before for one in wants)
    return f"{'changed since it was trusted' if changed else 'not trusted yet'}: {changed_text(wants)}"


def _parts(asked: Asked) -> tuple[str, ...]:
    if not asked.before:
        return asked.demands
    return changes(asked) or (f"what {asked.subject} does is in another order, or a part of it is gone",)


def _of_route(name: str, way: Route) -> list[str]:
    keys = [f"${key}" for key in way.keys if way.foreign or key not in PROVIDERS[way.name].key_variables]
    what = " and ".join(["its prompts", *keys] if way.foreign else keys)
    return [f"{name} sends {what} to {way.base_url or way.name}"] if what else []


def _unasked(definition: AgentDefinition, own: Belongings) -> list[str]:
    """A file that gives a model a shell, or tools that change something, and says that nobody is to be asked."""
    if definition.approval != "auto":
        unasked = [word for word in definition.read_only if own.servers and definition.approval != "all"]
        return [f"{definition.name} uses {', '.join(unasked)} unasked (read_only)"] if unasked else []
    if definition.backend in CLIS:
        return [f"{definition.name} runs whatever its model writes, unasked ({definition.backend}, approval: auto)"]
    if "bash" in definition.tools:
        return [f"{definition.name} runs whatever its model writes, unasked (bash, approval: auto)"]
    tools = [name for name, tool in own.tools.items() if tool.mock is None and not tool.read_only]
    used = [*tools, *(f"MCP server {name}" for name in own.servers)]
    return [f"{definition.name} uses {', '.join(used)} as its model likes, unasked (approval: auto)"] if used else []


def _plays(definition: AgentDefinition) -> bool:
    return definition.backend == MOCK or definition.model.startswith(f"{MOCK}/")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 140 else f"{line[:137]}..."
