"""A schedule that came wakes its agent: in the background, in the workspace it names if that runs, else at home.

Home is the agent's personal space, or the workspace of the workflow whose file has the schedule. A workspace that a
limit holds is left alone: work nobody asked for must not pile up there.
"""

from typing import Final

from kernel.rule.draft import Draft, WakeupDue
from kernel.rule.effects import Append, Assign, Deliver, Effect, Put, RunLimited
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.view import View
from protocol.message import SYSTEM
from protocol.names import AgentKey, AgentName, is_personal, place_of, split_space, workflow_space


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Wake the agent here, or where it would rather be."""
    due = fact.payload
    if not isinstance(due, WakeupDue):
        return ()
    elsewhere = None if due.workspace is None else _running(due.agent, due.workspace, view)
    if elsewhere is not None and elsewhere != fact.space:
        there = WakeupDue(agent=due.agent)
        return (Append(Draft(kind="due", space=elsewhere, sender=fact.sender, text=fact.text, payload=there)),)
    if is_personal(fact.space):
        return _wake(due.agent, split_space(fact.space)[1], fact.hops) if view.agent_exists(due.agent) else ()
    return _in_workspace(fact, due.agent, view)


def _running(agent: AgentKey, wanted: str, view: View) -> str | None:
    """The space that ``wanted`` means: without a tag any that runs with the agent in it, ``main`` first."""
    workflow, _, tag = wanted.partition(":")
    spaces = [seat.space for seat in view.seats(agent, workflow)]
    return next((space for space in spaces if not tag or place_of(space) == workflow_space(workflow, tag)), None)


def _in_workspace(fact: Fact, agent: AgentKey, view: View) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.space)
    if workspace is None or workspace.limited:
        return ()
    name = next((seat.name for seat in view.seats(agent, workspace.name) if seat.space == fact.space), None)
    if name is None:
        return ()
    if workspace.assigned >= workspace.instructions_limit:
        target = f"@{workspace.name}:{workspace.tag}"
        text = (
            f"the limit of {workspace.instructions_limit} instructions is reached: schedules wake nobody until "
            f"somebody continues it (awk continue {target})"
        )
        notice = Draft(kind="system", space=fact.space, sender=SYSTEM, text=text)
        return (Put(RunLimited(space=fact.space, by="instructions")), Append(notice))
    return _wake(agent, name, fact.hops)


def _wake(agent: AgentKey, name: str, hops: int) -> tuple[Effect, ...]:
    return (Assign(agent, AgentName(name), "background", hops), Deliver(agent, AgentName(name)))


WAKEUP: Final = Proposal(name="wakeup", kinds=frozenset({"due"}), decide=decide)
