"""Tools for the rules of a workspace: list them, define one, invoke one. They are of the scope ``rules``."""

from typing import Annotated, Any

import msgspec

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import StoreAccess
from kernel.store import rules
from kernel.store.transitions import rules as transitions
from protocol.names import place_of
from protocol.rules import RuleInfo, RuleSpec


class ProposalListArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of proposal_list."""


class ProposalDefineArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of proposal_define."""

    rule: Annotated[
        RuleSpec,
        msgspec.Meta(
            description="name; when: what it waits for, one of said, done, failed, due, resolved, document, task, "
            "hook; requires: who has to agree first; params: a name to a type; then: a list of actions, each with "
            "one of assign, ask, say, vote, task, invoke; enabled: false switches it off."
        ),
    ]


class ProposalInvokeArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of proposal_invoke."""

    rule: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Its name.")]
    params: Annotated[dict[str, Any], msgspec.Meta(description="As its params: say.")] = {}


class ProposalListResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a workspace, the oldest first."""

    space: str
    rules: tuple[RuleInfo, ...]


class ProposalDefineResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rule as it is now."""

    rule: RuleInfo
    note: str


class ProposalInvokeResult(msgspec.Struct, frozen=True, kw_only=True):
    """It was invoked by this message."""

    message_id: str
    note: str


async def proposal_list(caller: Caller, asked: ProposalListArguments, store: StoreAccess) -> ProposalListResult:
    """The rules of the caller's workspace."""
    space = caller.identity.space
    return ProposalListResult(space=place_of(space), rules=store.reader.now(rules.in_space, space))


async def proposal_define(caller: Caller, asked: ProposalDefineArguments, store: StoreAccess) -> ProposalDefineResult:
    """Define a rule as the caller, which can do no more than the caller can."""
    defined = await store.writer.commit(
        transitions.define,
        caller.identity.space,
        asked.rule,
        author=caller.author,
        call_key=caller.call_key,
        scopes=caller.identity.scopes,
    )
    rule = defined.rule
    note = f"version {rule.version} is in force from the next message on" if rule.enabled else "it is switched off"
    return ProposalDefineResult(rule=rule, note=note)


async def proposal_invoke(caller: Caller, asked: ProposalInvokeArguments, store: StoreAccess) -> ProposalInvokeResult:
    """Have a rule do what it says."""
    invoked = await store.writer.commit(
        transitions.invoke_rule,
        caller.identity.space,
        asked.rule,
        asked.params,
        author=caller.author,
        call_key=caller.call_key,
    )
    given = len(invoked.instruction_ids)
    return ProposalInvokeResult(
        message_id=invoked.message_id, note=f"{given} given work; channel_read shows what it said"
    )
