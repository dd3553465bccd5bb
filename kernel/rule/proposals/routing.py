"""Who hears a message, and who is woken by it.

A message without a direct addressee and without a mention wakes nobody. Nobody wakes itself. Where a limit of the
workflow holds, whoever would be woken gets the work all the same, but it waits until somebody continues the workflow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kernel.rule.continuation import taken_up
from kernel.rule.draft import Draft
from kernel.rule.effects import Append, Assign, Deliver, Effect, LimitedBy, Put, Refuse, RunLimited
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.question import nobody_to_ask, refusal
from kernel.rule.view import View, Workspace
from protocol.instruction import Lane, WaitReason
from protocol.mention import find_mentions, limit_mentions
from protocol.message import SYSTEM, TEXT_LIMIT_BYTES, USER
from protocol.names import DEFAULT_TAG, AgentKey, AgentName, is_personal, split_space


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Deliver and assign the message, or refuse it."""
    if fact.kind == "said" and len(fact.text.encode("utf-8", "replace")) > TEXT_LIMIT_BYTES:
        return (_too_large(),)
    if is_personal(fact.space):
        return _personal(fact, view)
    workspace = view.workspace(fact.space)
    if workspace is None:
        return (_not_running(fact.space),)
    return _workspace(fact, workspace, view)


def _personal(fact: Fact, view: View) -> tuple[Effect, ...]:
    """In a personal space only its agent is woken, and only by the user."""
    if fact.asks:
        return (nobody_to_ask(fact.space),)
    if fact.sender != USER:
        return ()
    name = split_space(fact.space)[1]
    if not view.agent_exists(AgentKey(name)):
        return (Refuse("unknown_agent", f"there is no agent {name!r}", "awk ls lists the agents"),)
    continues = taken_up(fact, AgentKey(name), view)
    return _wake(AgentKey(name), name, "immediate", fact.hops, continues=continues)


def _workspace(fact: Fact, workspace: Workspace, view: View) -> tuple[Effect, ...]:
    if fact.speaker is not None and not workspace.has_channel:
        return () if fact.kind == "reply" else (_no_channel(fact.space),)
    direct: dict[AgentKey, str] = {}
    for name in fact.to:
        key = view.member(fact.space, name.lower())
        if key is None:
            return (_not_a_participant(name, fact.space, workspace, view),)
        direct.setdefault(key, name.lower())
    if fact.asks and (refused := refusal(fact, direct, view)) is not None:
        return (refused,)
    named = {key: name for key, name in _mentioned(fact, view).items() if key not in direct}
    if not direct and not named:
        return ()
    woken, over = limit_mentions(named.values())
    limit = _limit_reached(fact, workspace, len(direct) + len(woken))
    waits_for = None if limit is None else limit.waits_for
    effects: list[Effect] = []
    for key, name in direct.items():
        effects.extend(_address(fact, key, name, view, waits_for))
    for key, name in named.items():
        effects.extend(
            (Deliver(key, AgentName(name)),)
            if name in over
            else _wake(key, name, "immediate", fact.hops, joins=True, waits_for=waits_for)
        )
    return (*effects, *(() if limit is None else _limited(fact.space, workspace, limit)))


def _address(fact: Fact, key: AgentKey, name: str, view: View, waits_for: WaitReason | None) -> tuple[Effect, ...]:
    """Work for whom the message is for. One that asks is as urgent as its asker, who can do nothing meanwhile."""
    if fact.asks:
        return _wake(key, name, "immediate", fact.hops, waits_for=waits_for, asked_by=fact.cause)
    return _wake(key, name, "normal", fact.hops, waits_for=waits_for, continues=taken_up(fact, key, view))


def _mentioned(fact: Fact, view: View) -> dict[AgentKey, str]:
    """Members mentioned, in order; not the speaker, nor, by its final reply, whom it addressed before or who asked."""
    names = find_mentions(fact.text) if fact.mentions is None else fact.mentions
    if not names:
        return {}
    silent = {fact.speaker}
    if fact.kind == "reply" and fact.cause is not None:
        silent |= {*view.addressed_by(fact.cause), *view.askers(fact.cause)[:1]}
    found: dict[AgentKey, str] = {}
    for name in names:
        key = view.member(fact.space, name.lower())
        if key is not None and key not in silent:
            found.setdefault(key, name.lower())
    return found


def _wake(
    agent: AgentKey,
    name: str,
    lane: Lane,
    hops: int,
    *,
    joins: bool = False,
    waits_for: WaitReason | None = None,
    continues: int | None = None,
    asked_by: int | None = None,
) -> tuple[Effect, ...]:
    assign = Assign(agent, AgentName(name), lane, hops, joins, waits_for, continues, asked_by)
    return (assign, Deliver(agent, AgentName(name)))


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit that holds: which, what the work it holds back waits for, and how it is told.

    To wait for ``hops`` is to wait for any limit but money: somebody has to continue the workflow.
    """

    by: LimitedBy
    waits_for: WaitReason
    text: str


_SPENT: Final[Mapping[str, _Limit]] = MappingProxyType(
    {
        "budget": _Limit("budget", "budget", "the budget"),
        "wall_time": _Limit("wall_time", "hops", "the wall time"),
    }
)
"""Limits that hold whatever is said, until somebody continues the workflow."""


def _limit_reached(fact: Fact, workspace: Workspace, more: int) -> _Limit | None:
    if (spent := _SPENT.get(workspace.limited_by or "")) is not None:
        return spent
    if fact.hops > workspace.hops_limit:
        return _Limit("hops", "hops", f"the hop limit of {workspace.hops_limit}")
    if workspace.assigned + more > workspace.instructions_limit:
        return _Limit("instructions", "hops", f"the limit of {workspace.instructions_limit} instructions")
    return None


def _limited(space: str, workspace: Workspace, limit: _Limit) -> tuple[Effect, ...]:
    """Told once in a run: a notice for every message would be a flood of its own."""
    if workspace.limited:
        return ()
    until = f" until somebody continues it (awk continue @{workspace.name}:{workspace.tag})"
    text = f"{limit.text} is reached: nobody is woken{until if workspace.mode == 'start' else ''}"
    return (
        Put(RunLimited(space=space, by=limit.by)),
        Append(Draft(kind="system", space=space, sender=SYSTEM, text=text)),
    )


def _too_large() -> Refuse:
    hint = "put the text into a file and name that"
    return Refuse("too_large", f"a message can have at most {TEXT_LIMIT_BYTES} bytes", hint)


def _no_channel(space: str) -> Refuse:
    hint = "do your part alone: your final answer goes to the user"
    return Refuse("not_a_participant", f"{space} has no channel: its agents do not hear each other", hint)


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
