"""Members of a workflow: refs and inline agents, as definitions and as data for the rules."""

import msgspec

from kernel.policy.creation import instance_of
from kernel.rule.draft import MemberSpec
from protocol.agent import AgentDefinition
from protocol.names import AgentKey, inline_key
from protocol.workflow import Ref


class WorkflowMember(msgspec.Struct, frozen=True):
    """A member with its current definition, including overrides.

    ``ref`` and ``base`` (the agent's own file) are None for an inline agent.
    """

    name: str
    definition: AgentDefinition
    ref: Ref | None = None
    base: AgentDefinition | None = None


def with_instances(
    member: WorkflowMember, entry: Ref | AgentDefinition
) -> tuple[tuple[Ref | AgentDefinition, WorkflowMember], ...]:
    """Return ``member`` with its entry in the file and, if it is a group, its instances with theirs.

    ``replicas`` of the workflow make inline agents, which end with it; those of an agent's file are the project's.
    """
    replicas = member.definition.replicas or 1
    if isinstance(entry, Ref) and entry.replicas is not None:
        context = msgspec.structs.replace(member.definition.context, dir=None)
        own = msgspec.structs.replace(member.definition, name=member.name, context=context)
        entry, member = msgspec.structs.replace(own, worktree=entry.worktree), WorkflowMember(member.name, own)
    elif isinstance(entry, Ref):
        entry = msgspec.structs.replace(entry, replicas=replicas if replicas > 1 else None)
    found = [(entry, member)]
    for number in range(1, replicas + 1) if replicas > 1 else ():
        own, base = instance_of(member.definition, number), member.base
        one: Ref | AgentDefinition
        if isinstance(entry, Ref):
            one = msgspec.structs.replace(entry, ref=f"{entry.ref}.{number}", replicas=None, schedule=None)
            base = None if base is None else instance_of(base, number)
        else:
            one = instance_of(entry, number)
        ref = one if isinstance(one, Ref) else None
        found.append((one, WorkflowMember(f"{member.name}.{number}", own, ref, base)))
    return tuple(found)


def specs(members: tuple[WorkflowMember, ...], space: str) -> tuple[MemberSpec, ...]:
    """Return the facts about ``members`` in ``space`` for the rules, including definitions of inline agents."""
    found: list[MemberSpec] = []
    for one in members:
        if one.ref is not None:
            own = None if one.base is None else msgspec.json.encode(one.base)
            found.append(
                MemberSpec(
                    name=one.name,
                    key=AgentKey(one.ref.ref),
                    origin="file",
                    definition=own,
                    runs_as=one.ref.backend,
                    answer_ms=None if one.ref.timeouts is None else round((one.ref.timeouts.answer or 0) * 1000),
                    needs=None if one.ref.needs is None else msgspec.json.encode(one.ref.needs).decode(),
                )
            )
        else:
            own, key = msgspec.json.encode(one.definition), inline_key(one.name, space)
            found.append(MemberSpec(name=one.name, key=key, origin="inline", definition=own))
    return tuple(found)
