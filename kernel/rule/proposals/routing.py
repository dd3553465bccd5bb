"""Who hears a message, and who is woken by it.

A message without a direct addressee and without a mention wakes nobody. Nobody wakes itself. Where a limit of the
workflow holds, whoever would be woken gets the work all the same, but it waits until somebody continues the workflow.
"""

from typing import Final

from kernel.rule.continuation import taken_up
from kernel.rule.effects import Deliver, Effect, Refuse
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.question import nobody_to_ask, refusal
from kernel.rule.refusals import no_channel, not_running
from kernel.rule.view import View, Workspace
from kernel.rule.waking import limit_reached, limited, wake
from protocol.instruction import WaitReason
from protocol.mention import find_mentions, limit_mentions
from protocol.message import TEXT_LIMIT_BYTES, USER
from protocol.names import AgentKey, AgentName, is_personal, place_of, split_space


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Deliver and assign the message, or refuse it."""
    if fact.kind == "said" and len(fact.text.encode("utf-8", "replace")) > TEXT_LIMIT_BYTES:
        return (_too_large(),)
    if is_personal(fact.space):
        return _personal(fact, view)
    workspace = view.workspace(fact.space)
    if workspace is None:
        return (not_running(fact.space),)
    return _workspace(fact, workspace, view)


def _personal(fact: Fact, view: View) -> tuple[Effect, ...]:
    """In a personal space only its agent is woken, and only by the user."""
    if fact.asks:
        return (nobody_to_ask(fact.space),)
    if fact.sender != USER:
        return ()
    name = split_space(fact.space)[1]
    key = AgentKey(name)
    if not view.agent_exists(key):
        return (Refuse("unknown_agent", f"there is no agent {name!r}", "awk ls lists the agents"),)
    return wake(key, name, "immediate", fact.hops, continues=taken_up(fact, key, view))


def _workspace(fact: Fact, workspace: Workspace, view: View) -> tuple[Effect, ...]:
    if fact.speaker is not None and not workspace.has_channel:
        return () if fact.kind == "reply" else (no_channel(fact.space),)
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
    limit = limit_reached(fact, workspace, len(direct) + len(woken))
    waits_for = None if limit is None else limit.waits_for
    effects: list[Effect] = []
    for key, name in direct.items():
        effects.extend(_address(fact, key, name, view, waits_for))
    for key, name in named.items():
        effects.extend(
            (Deliver(key, AgentName(name)),)
            if name in over
            else wake(key, name, "immediate", fact.hops, joins=True, waits_for=waits_for)
        )
    return (*effects, *(() if limit is None else limited(fact.space, workspace, limit)))


def _address(fact: Fact, key: AgentKey, name: str, view: View, waits_for: WaitReason | None) -> tuple[Effect, ...]:
    """Work for whom the message is for. One that asks is as urgent as its asker, who can do nothing meanwhile."""
    if fact.asks:
        return wake(key, name, "immediate", fact.hops, waits_for=waits_for, asked_by=fact.cause)
    return wake(key, name, "normal", fact.hops, waits_for=waits_for, continues=taken_up(fact, key, view))


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


def _too_large() -> Refuse:
    hint = "put the text into a file and name that"
    return Refuse("too_large", f"a message can have at most {TEXT_LIMIT_BYTES} bytes", hint)


def _not_a_participant(name: str, space: str, workspace: Workspace, view: View) -> Refuse:
    members = ", ".join(view.member_names(space))
    return Refuse(
        "not_a_participant",
        f"{name!r} is not a member of {place_of(space)} (members: {members})",
        f"add it under agents: in {workspace.file}",
    )


ROUTING: Final = Proposal(name="routing", kinds=frozenset({"kickoff", "said", "reply"}), decide=decide)
