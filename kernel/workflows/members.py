"""Members of a workflow: refs and inline agents, as definitions and as data for the rules."""

import msgspec

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
