"""Which schedules count now: those of agents, and those that running workflows have for their members. Pure.

A schedule in a workflow's file counts in that workflow's space while it runs. It takes the place of the agent's own.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from protocol.agent import Schedule
from protocol.names import AgentKey, inline_key, personal_space

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A schedule, whose it is, and its home: where it wakes the agent unless it names a workspace that runs."""

    agent: AgentKey
    home: str
    schedule: Schedule


# Of stored definitions only what is asked here: whatever else a version of them says does not matter.
class _Agent(msgspec.Struct, frozen=True):
    schedule: Schedule | None = None


class _Ref(msgspec.Struct, frozen=True, tag_field="entry", tag="ref"):
    ref: str
    schedule: Schedule | None = None


class _Inline(msgspec.Struct, frozen=True, tag_field="entry", tag="inline"):
    schedule: Schedule | None = None


class _Workflow(msgspec.Struct, frozen=True):
    agents: dict[str, _Ref | _Inline] = {}


_agent: Final = msgspec.json.Decoder(_Agent)
_workflow: Final = msgspec.json.Decoder(_Workflow)


def schedules(
    agents: Iterable[tuple[AgentKey, bytes]], workflows: Iterable[tuple[str, bytes]]
) -> tuple[Scheduled, ...]:
    """The schedules of agents (key, definition) and of running workflows (space, definition); definitions are JSON."""
    in_workflows = [one for space, definition in workflows for one in _of_workflow(space, definition)]
    overridden = {one.agent for one in in_workflows}
    own = (one for key, definition in agents if key not in overridden for one in _of_agent(key, definition))
    return (*own, *in_workflows)


def _of_agent(key: AgentKey, definition: bytes) -> Iterator[Scheduled]:
    try:
        schedule = _agent.decode(definition).schedule
    except msgspec.MsgspecError as error:
        logger.warning("schedule.unreadable %s: %s", key, error)
        return
    if schedule is not None:
        yield Scheduled(key, personal_space(key), schedule)


def _of_workflow(space: str, definition: bytes) -> Iterator[Scheduled]:
    try:
        agents = _workflow.decode(definition).agents
    except msgspec.MsgspecError as error:
        logger.warning("schedule.unreadable %s: %s", space, error)
        return
    for name, entry in agents.items():
        if entry.schedule is not None:
            key = AgentKey(entry.ref) if isinstance(entry, _Ref) else inline_key(name, space)
            yield Scheduled(key, space, entry.schedule)
