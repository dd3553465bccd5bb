"""Rules, and their effects: all that a rule can do. A closed union; each is one row of one table."""

from collections.abc import Callable
from typing import Literal, final

import msgspec

from kernel.policy.rules import ActiveRule, Occasion
from kernel.policy.voting import ProposalOpened
from kernel.rule.draft import Draft, Fact, MemberSpec, RuleChain, RunSpec
from kernel.rule.view import View
from protocol.instruction import Lane, WaitReason
from protocol.message import MessageKind
from protocol.names import AgentKey, AgentName
from protocol.rules import RuleTask
from protocol.workflow import RunLimits


@final
class Append(msgspec.Struct, frozen=True):
    """Append a further message; it is evaluated in its turn."""

    draft: Draft


@final
class Deliver(msgspec.Struct, frozen=True):
    """Put the message into the agent's inbox. Without an Assign beside it the agent is not woken."""

    agent: AgentKey
    name: AgentName
    """What the agent is called in the space."""


@final
class Assign(msgspec.Struct, frozen=True):
    """Give the agent an instruction made of the message.

    ``joins``: a mention, which may join those that still wait in the lane instead of making an instruction of its own.
    """

    agent: AgentKey
    name: AgentName
    lane: Lane
    hops: int
    joins: bool = False
    waits_for: WaitReason | None = None
    """Set where it may not begin before somebody lets it: it is kept, and not leased."""
    continues: int | None = None
    """The incomplete instruction whose thread it takes up."""
    asked_by: int | None = None
    """The instruction that goes on with its answer."""


LimitedBy = Literal["hops", "instructions", "budget", "wall_time"]


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a workflow that starts in ``space``, with the ``limits`` of its definition."""

    space: str
    spec: RunSpec
    limits: RunLimits


class SetMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a space, replacing those before. An inline agent lives in ``space`` and nowhere else."""

    space: str
    members: tuple[MemberSpec, ...]


class LimitRun(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the workflow in ``space`` was reached: what it held back waits until somebody continues it."""

    space: str
    by: LimitedBy


class OpenProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal in ``space``, of the run there. ``creator_key`` None: a person. ``hops`` of its message."""

    opened: ProposalOpened
    space: str
    creator: str
    creator_key: AgentKey | None
    hops: int
    electors: tuple[str, ...]


class CountFirings(msgspec.Struct, frozen=True, kw_only=True):
    """Rules, by their numbers, were done once more, or somebody was asked whether they may."""

    rules: tuple[int, ...]


class HoldRule(msgspec.Struct, frozen=True, kw_only=True):
    """What ``rule`` does about ``occasion`` waits for what comes of ``proposal``."""

    space: str
    proposal: str
    rule: ActiveRule
    occasion: Occasion


class PlanTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a rule plans: it is told, and given out where it may begin."""

    space: str
    task: RuleTask
    creator: str
    hops: int
    chain: RuleChain


Row = StartRun | LimitRun | SetMembers | OpenProposal | CountFirings | HoldRule | PlanTask


class WriteRow(msgspec.Struct, frozen=True):
    """Write a row that is not a message."""

    row: Row


@final
class Refuse(msgspec.Struct, frozen=True):
    """Undo everything; the caller gets the code. For installed rules: those of the kernel raise Refused."""

    code: str
    text: str
    hint: str | None = None


Effect = Append | Deliver | Assign | WriteRow | Refuse


Decide = Callable[[Fact, View], tuple[Effect, ...]]


class Rule(msgspec.Struct, frozen=True):
    """One rule. ``decide`` may ask the view and must not change anything."""

    name: str
    kinds: frozenset[MessageKind]
    decide: Decide
