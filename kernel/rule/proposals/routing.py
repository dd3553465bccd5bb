"""Who hears a message, and who is woken by it.

A message without a direct addressee and without a mention wakes nobody. Nobody wakes itself.
"""

from collections.abc import Iterable
from typing import Final

from kernel.rule.draft import Draft
from kernel.rule.effects import Append, Assign, Deliver, Effect, Refuse
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.view import View, Workspace
from protocol.instruction import Lane
from protocol.mention import find_mentions, limit_mentions
from protocol.message import SYSTEM, USER
from protocol.names import DEFAULT_TAG, AgentKey, is_personal, split_space


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Deliver and assign the message, or refuse it."""
    if is_personal(fact.space):
        return _personal(fact, view)
    workspace = view.workspace(fact.space)
    if workspace is None:
        return (_not_running(fact.space),)
    return _workspace(fact, workspace, view)


def _personal(fact: Fact, view: View) -> tuple[Effect, ...]:
    """In a personal space only its agent is woken, and only by the user."""
    if fact.sender != USER:
        return ()
    agent = AgentKey(split_space(fact.space)[1])
    if not view.agent_exists(agent):
        return (Refuse("unknown_agent", f"there is no agent {agent!r}", "awk ls lists the agents"),)
    return _wake(agent, "immediate", fact.hops)


def _workspace(fact: Fact, workspace: Workspace, view: View) -> tuple[Effect, ...]:
    direct: list[AgentKey] = []
    for name in fact.to:
        key = view.member(fact.space, name.lower())
        if key is None:
            return (_not_a_participant(name, fact.space, workspace, view),)
        direct.append(key)
    named = [key for key in _mentioned(fact, view) if key not in direct]
    woken, over = limit_mentions(named)
    if not direct and not woken:
        return ()
    limit = _limit_reached(fact, workspace, len(direct) + len(woken))
    if limit is not None:
        return (*(Deliver(key) for key in (*direct, *named)), Append(_limit_notice(fact.space, limit)))
    effects: list[Effect] = []
    for key in direct:
        effects.extend(_wake(key, "normal", fact.hops))
    for key in woken:
        effects.extend(_wake(AgentKey(key), "immediate", fact.hops))
    effects.extend(Deliver(AgentKey(key)) for key in over)
    return tuple(effects)


def _mentioned(fact: Fact, view: View) -> Iterable[AgentKey]:
    """Members mentioned, in order; not the sender, nor whom its instruction addressed before its final reply."""
    names = find_mentions(fact.text) if fact.mentions is None else fact.mentions
    if not names:
        return ()
    addressed = view.addressed_by(fact.cause) if fact.kind == "reply" and fact.cause is not None else frozenset()
    keys = (view.member(fact.space, name.lower()) for name in names if name.lower() != fact.sender)
    return dict.fromkeys(key for key in keys if key is not None and key not in addressed)


def _wake(agent: AgentKey, lane: Lane, hops: int) -> tuple[Effect, ...]:
    return (Assign(agent, lane, hops), Deliver(agent))


def _limit_reached(fact: Fact, workspace: Workspace, more: int) -> str | None:
    if fact.hops > workspace.hops_limit:
        return f"the hop limit of {workspace.hops_limit}"
    if workspace.assigned + more > workspace.instructions_limit:
        return f"the limit of {workspace.instructions_limit} instructions"
    return None


def _limit_notice(space: str, limit: str) -> Draft:
    return Draft(kind="system", space=space, sender=SYSTEM, text=f"{limit} is reached: nobody was woken")


def _not_running(space: str) -> Refuse:
    name, tag = split_space(space)
    option = "" if tag == DEFAULT_TAG else f" --tag {tag}"
    return Refuse("workflow_not_running", f"workflow {space} is not running", f"start it: awk start {name}{option}")


def _not_a_participant(name: str, space: str, workspace: Workspace, view: View) -> Refuse:
    members = ", ".join(view.member_names(space))
    return Refuse(
        "not_a_participant",
        f"{name!r} is not a member of {space} (members: {members})",
        f"add it under agents: in {workspace.file}",
    )


ROUTING: Final = Proposal(name="routing", kinds=frozenset({"kickoff", "said", "reply"}), decide=decide)
