"""Limits of what rules create: agents, spaces and runs. Pure.

Nothing that a rule creates has more permissions than the rule's author. An agent is a copy of a member. A run gets a
share of the budget of the run that its rule belongs to, and the share counts there as spent, so that all runs that
descend from one together never exceed its budget.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from protocol.agent import AgentDefinition, Prompt, Scope, scopes_of
from protocol.agent_layout import AGENTS
from protocol.errors import Refused
from protocol.limits import RunBudget
from protocol.workflow import Ref

DEPTH: Final = 3
"""Maximum creations in a row: what a rule creates may define a rule that creates something, and so on."""
WINDOW_MS: Final = 24 * 3600 * 1000
MOST: Final[Mapping[str, int]] = {"create_agent": 8, "open_space": 16, "start_workflow": 8}
"""Maximum creations of each kind in 24 hours, together in a space of a person and in all that descends from it."""
SHARE: Final = 2
"""A run gets at most one part in ``SHARE`` of the rest of the budget."""


def check_creation(verb: str, depth: int, made: int) -> None:
    """Raise Refused (conflict) at a limit: ``depth`` of the new object, ``made`` of its kind in the last 24 hours."""
    if depth > DEPTH or made >= MOST[verb]:
        limit = f"{DEPTH} levels" if depth > DEPTH else f"{MOST[verb]} in 24 hours"
        raise Refused("conflict", f"{verb} refused: limit of {limit} reached")


def share_of(whole: RunBudget, tokens: int, usd: float, own: RunBudget) -> RunBudget:
    """Return the budget of a run that a rule starts: a share of the rest of ``whole``, or its ``own`` if that is lower.

    ``tokens`` and ``usd`` are already spent. Raises Refused (conflict).
    """
    rest = None if whole.tokens is None else max(whole.tokens - tokens, 0) // SHARE
    rest_usd = None if whole.usd is None else max(whole.usd - usd, 0.0) / SHARE
    if rest == 0 or rest_usd == 0.0:
        raise Refused("conflict", "start_workflow refused: the budget is used up")
    return RunBudget(
        tokens=min((one for one in (rest, own.tokens) if one is not None), default=None),
        usd=min((one for one in (rest_usd, own.usd) if one is not None), default=None),
    )


def check_scopes(name: str, asked: Collection[Scope], author: Collection[Scope] | None) -> None:
    """Raise Refused (forbidden) if the agent ``name`` has a scope that the rule's author (None: a person) lacks."""
    if author is not None and (more := sorted(set(asked) - set(author))):
        raise Refused(
            "forbidden",
            f"agent {name} has the scope {more[0]}, but the author of the rule, or of a rule that led to it, does not",
        )


def copy_of(definition: AgentDefinition, name: str, prompt: str, author: Collection[Scope] | None) -> AgentDefinition:
    """Return a copy of a member's ``definition`` without scopes that the ``author`` of the rule (None: a person) lacks,
    and with a part of its budget, so that all copies of 24 hours together have no more than the member."""
    scopes = scopes_of(definition.scopes)
    context, parts = msgspec.structs.replace(definition.context, dir=None), MOST["create_agent"]
    amounts: dict[str, Any] = {key: getattr(definition.budget, key) for key in ("tokens", "usd", "wall_time")}
    part = {key: None if one is None else type(one)(one / parts) or 1 for key, one in amounts.items()}
    return msgspec.structs.replace(
        definition, name=name, prompt=Prompt(system=prompt), soul={}, context=context, schedule=None, replicas=None,
        scopes=tuple(sorted(scopes if author is None else scopes.intersection(author))),
        budget=msgspec.structs.replace(definition.budget, **part),
    )  # fmt: skip


_OVERRIDES: Final = (
    *("model", "backend", "provider", "max_tokens", "max_steps", "effort", "thinking", "temperature", "timeouts"),
    *("budget", "approval", "read_only", "schedule", "needs", "mock", "replicas"),
)


def effective(definition: AgentDefinition, ref: Ref) -> AgentDefinition:
    """Return ``definition`` with the overrides of ``ref``. All other keys, such as the soul, stay unchanged."""
    changes = {key: getattr(ref, key) for key in _OVERRIDES if getattr(ref, key) is not None}
    if ref.prompt is not None:
        changes["prompt"] = msgspec.structs.replace(definition.prompt, append=ref.prompt.append)
    return msgspec.structs.replace(definition, **changes)


def instance_of(definition: AgentDefinition, number: int) -> AgentDefinition:
    """Return the definition of instance ``number`` of a group. Only the group has the schedule; each instance has a
    context folder."""
    folder = definition.context.dir
    own = None if folder is None or folder.startswith(f"{AGENTS}/") else f"{folder.rstrip('/')}.{number}"
    return msgspec.structs.replace(
        definition,
        name=f"{definition.name}.{number}",
        replicas=None,
        schedule=None,
        context=msgspec.structs.replace(definition.context, dir=own),
    )
