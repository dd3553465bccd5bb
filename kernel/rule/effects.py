"""Rules, the view that they may query, and their effects.

The view answers typed, limited questions about the state before the message. Effects are a closed union; each is one
row of one table.
"""

from collections.abc import Callable
from typing import Literal, Protocol, final

import msgspec

from kernel.policy.rules import ActiveRule, Occasion
from kernel.policy.voting import ProposalOpened
from kernel.rule.draft import Draft, Fact, MemberSpec, RuleChain, RunSpec
from protocol.agent import Scope
from protocol.instruction import Lane, WaitReason
from protocol.message import MessageKind
from protocol.names import AgentKey, AgentName
from protocol.rules import Created, RuleTask
from protocol.workflow import RunLimits


class RunningWorkspace(msgspec.Struct, frozen=True):
    """Space of a running workflow; ``file`` is the path of its definition, ``assigned`` its number of instructions.

    ``limited``: its agents were already notified of a reached limit. ``limited_by``: the name of
    that limit. ``mode`` run: the workflow ends automatically and cannot be continued."""

    name: str
    tag: str
    file: str
    hops_limit: int
    instructions_limit: int
    assigned: int
    limited: bool
    limited_by: str | None = None
    mode: str = "start"
    has_channel: bool = True
    """Whether the agents of the workflow share a channel."""
    watched: bool = False
    """Whether a person watches the run."""


class Membership(msgspec.Struct, frozen=True):
    """Membership of an agent in the space of a running workflow, with its name there."""

    space: str
    name: str


class EndedInstruction(msgspec.Struct, frozen=True):
    """Status and cause of an ended instruction."""

    status: str
    cause: str | None


class HeldRule(msgspec.Struct, frozen=True):
    """Rule whose effects for ``occasion`` wait for its grants. ``enabled``: no one has disabled the rule meanwhile."""

    rule: ActiveRule
    occasion: Occasion
    enabled: bool


class RuleView(Protocol):
    """State that a rule may query. Each query reads an index, and its result is limited."""

    def agent_exists(self, key: AgentKey) -> bool:
        """Return whether an agent exists that can receive messages outside any workflow."""
        ...

    def workspace(self, space: str) -> RunningWorkspace | None:
        """Return the running workflow of ``space``; None if it is not running."""
        ...

    def member(self, space: str, name: str) -> AgentKey | None:
        """Return the key of the member ``name`` of ``space``, or None."""
        ...

    def member_names(self, space: str) -> tuple[str, ...]:
        """Return the members of ``space``, at most 64, in alphabetical order."""
        ...

    def addressed_by(self, instruction: int) -> frozenset[AgentKey]:
        """Return the agents that received a message of this instruction, at most 256."""
        ...

    def askers(self, instruction: int) -> tuple[AgentKey, ...]:
        """Return the agents that wait for ``instruction``, directly or indirectly: nearest first, at most 256."""
        ...

    def seats(self, agent: AgentKey, workflow: str) -> tuple[Membership, ...]:
        """Return the memberships of ``agent`` while ``workflow`` runs: tag main first, then by tag, at most 64."""
        ...

    def wakeup_before(self, instruction: int) -> EndedInstruction | None:
        """Return the end of the agent's previous wakeup in this space; None if no schedule
        caused ``instruction``. None also if 256 other instructions have ended since that wakeup."""
        ...

    def incomplete(self, space: str, agent: AgentKey) -> int | None:
        """Return the last ended instruction of ``agent`` in ``space`` if it is incomplete and was not continued."""
        ...

    def roster(self, space: str) -> tuple[tuple[AgentKey, str], ...]:
        """Return the members of ``space`` with their names there: in alphabetical order, at most 256."""
        ...

    def has_ballot(self, space: str, name: str) -> bool:
        """Return whether the newest run of ``space`` has a ballot ``name``, open or ended."""
        ...

    def open_ballots(self, space: str) -> int:
        """Return the number of open ballots of ``space``."""
        ...

    def active_rules(self, space: str) -> tuple[ActiveRule, ...]:
        """Return the enabled rules of ``space``: oldest first, at most 64."""
        ...

    def has_grant(self, space: str, agent: AgentKey, scope: Scope, at_ms: int) -> bool:
        """Return whether ``agent`` has a valid grant of ``scope`` in the newest run of ``space`` at ``at_ms``."""
        ...

    def held_rule(self, space: str, proposal: str) -> HeldRule | None:
        """Return the rule whose effects wait for the result of ``proposal``, or None."""
        ...


@final
class Append(msgspec.Struct, frozen=True):
    """Append another message, which is evaluated in turn."""

    draft: Draft


@final
class InboxDelivery(msgspec.Struct, frozen=True):
    """Put the message into the agent's inbox; without an Assign, the agent is not woken."""

    agent: AgentKey
    name: AgentName
    """Name of the agent in the space."""


@final
class Assign(msgspec.Struct, frozen=True):
    """Create an instruction for the agent. ``joins``: the message may be added to an instruction
    that waits in ``lane``."""

    agent: AgentKey
    name: AgentName
    lane: Lane
    hops: int
    joins: bool = False
    waits_for: WaitReason | None = None
    """Set if the instruction has to wait: it is stored, but not leased."""
    continues: int | None = None
    """Incomplete instruction whose thread the new instruction continues."""
    asked_by: int | None = None
    """Instruction that waits for the answer of the new instruction."""


LimitedBy = Literal["hops", "instructions", "budget", "wall_time"]


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """Record a workflow that starts in ``space``, with the ``limits`` of its definition."""

    space: str
    spec: RunSpec
    limits: RunLimits


class SetMembers(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the members of a space; an inline agent exists only in ``space``."""

    space: str
    members: tuple[MemberSpec, ...]


class LimitRun(msgspec.Struct, frozen=True, kw_only=True):
    """Record that the workflow in ``space`` reached a limit: new work waits until a person continues the workflow."""

    space: str
    by: LimitedBy


class OpenProposal(msgspec.Struct, frozen=True, kw_only=True):
    """Open a proposal in the run of ``space``. ``creator_key`` is None for a person; ``hops``
    comes from its message."""

    opened: ProposalOpened
    space: str
    creator: str
    creator_key: AgentKey | None
    hops: int
    electors: tuple[str, ...]


class CountFirings(msgspec.Struct, frozen=True, kw_only=True):
    """Increment the firings of each rule: it was executed, or asked for its grants."""

    rules: tuple[int, ...]


class HoldRule(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the effects of ``rule`` for ``occasion`` until ``proposal`` is decided."""

    space: str
    proposal: str
    rule: ActiveRule
    occasion: Occasion


class Make(msgspec.Struct, frozen=True):
    """Plan a task of ``rule`` or create what it asks for, and announce it; ``mentions``: woken by a first message."""

    space: str
    wanted: RuleTask | Created
    rule: ActiveRule
    creator: str
    mentions: tuple[str, ...]
    hops: int
    chain: RuleChain


Row = StartRun | LimitRun | SetMembers | OpenProposal | CountFirings | HoldRule | Make


class WriteRow(msgspec.Struct, frozen=True):
    """Write a row of another table than the messages."""

    row: Row


@final
class Refuse(msgspec.Struct, frozen=True):
    """Rollback of the transaction by an installed rule, with error ``code``. Core rules raise Refused instead."""

    code: str
    text: str
    hint: str | None = None


Effect = Append | InboxDelivery | Assign | WriteRow | Refuse


Decide = Callable[[Fact, RuleView], tuple[Effect, ...]]


class Rule(msgspec.Struct, frozen=True):
    """Rule; ``decide`` may query the view and must not change anything."""

    name: str
    kinds: frozenset[MessageKind]
    decide: Decide
