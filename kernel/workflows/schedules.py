"""The active schedules: of agents, and of members of running workflows. Pure.

A schedule in a workflow's file applies in that workflow's space while it runs, and replaces the agent's own.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kernel.agents.schedule import wakes_text
from kernel.agents.trust import schedule_demands, schedule_subject
from kernel.store.timers import DeclaredAgent, DeclaredWorkflow
from protocol.agent import Schedule
from protocol.limits import AgentBudget
from protocol.names import AgentKey, inline_key, personal_space
from protocol.trust import Grant, workflow_subject

logger = logging.getLogger(__name__)


class Scheduled(msgspec.Struct, frozen=True):
    """A schedule with its agent; ``home`` is the space where it wakes the agent.

    A schedule that names a running workspace wakes the agent there instead. ``demands`` are what
    the user has to trust in ``subject``; ``vouched`` are demands granted when the workflow started.
    """

    agent: AgentKey
    home: str
    schedule: Schedule
    subject: str = ""
    demands: tuple[str, ...] = ()
    vouched: frozenset[str] = frozenset()

    @property
    def file(self) -> str:
        """Return the file that the user passes to ``awk trust``."""
        return self.subject.rpartition(" ")[2]

    def trusted(self, grants: Iterable[Grant]) -> bool:
        """Return whether all its demands are granted, by the user's ``grants`` or with its workflow."""
        granted = {demand for one in grants if one.subject == self.subject for demand in one.demands}
        return granted.union(self.vouched).issuperset(self.demands)


# Only these keys of stored definitions are read, independent of their version.
class _Agent(msgspec.Struct, frozen=True):
    schedule: Schedule | None = None
    budget: AgentBudget = AgentBudget()


class _Ref(msgspec.Struct, frozen=True, tag_field="entry", tag="ref"):
    ref: str
    schedule: Schedule | None = None


class _Inline(msgspec.Struct, frozen=True, tag_field="entry", tag="inline"):
    schedule: Schedule | None = None


class _Workflow(msgspec.Struct, frozen=True):
    agents: dict[str, _Ref | _Inline] = {}


_agent: Final = msgspec.json.Decoder(_Agent)
_workflow: Final = msgspec.json.Decoder(_Workflow)
_vouched: Final = msgspec.json.Decoder(tuple[str, ...])


def schedules(agents: Iterable[DeclaredAgent], workflows: Iterable[DeclaredWorkflow]) -> tuple[Scheduled, ...]:
    """Return the schedules of agents and of running workflows."""
    in_workflows = [one for workflow in workflows for one in _of_workflow(workflow)]
    overridden = {one.agent for one in in_workflows}
    own = (one for agent in agents if agent.key not in overridden for one in _of_agent(agent))
    return (*own, *in_workflows)


def _of_agent(agent: DeclaredAgent) -> Iterator[Scheduled]:
    """Yield the agent's schedule, if any. Only the schedule of an agent's file needs trust."""
    try:
        found = _agent.decode(agent.definition)
    except msgspec.MsgspecError as error:
        logger.warning("schedule.unreadable %s: %s", agent.key, error)
        return
    if found.schedule is None:
        return
    home = personal_space(agent.key)
    if agent.origin != "file":
        yield Scheduled(agent.key, home, found.schedule)
        return
    demands = schedule_demands(agent.key, found.schedule, found.budget)
    yield Scheduled(agent.key, home, found.schedule, schedule_subject(agent.key), demands)


def _of_workflow(workflow: DeclaredWorkflow) -> Iterator[Scheduled]:
    try:
        agents = _workflow.decode(workflow.definition).agents
        vouched = frozenset(_vouched.decode(workflow.vouched))
    except msgspec.MsgspecError as error:
        logger.warning("schedule.unreadable %s: %s", workflow.space, error)
        return
    subject = workflow_subject(workflow.file)
    for name, entry in agents.items():
        if entry.schedule is not None:
            key = AgentKey(entry.ref) if isinstance(entry, _Ref) else inline_key(name, workflow.space)
            demands = (wakes_text(name, entry.schedule),)
            yield Scheduled(key, workflow.space, entry.schedule, subject, demands, vouched)
