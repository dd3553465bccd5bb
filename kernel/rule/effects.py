"""Rules, the view that they may ask, and their effects: all that a rule can know and do.

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
from protocol.api.runs import RunOptions
from protocol.instruction import Lane, WaitReason
from protocol.message import MessageKind
from protocol.names import AgentKey, AgentName
from protocol.rules import RuleTask
from protocol.workflow import RunLimits


class RunningWorkspace(msgspec.Struct, frozen=True):
    """A running workflow's space. ``file`` is its definition's path, ``assigned`` its instructions so far.

    ``limited``: it has been told already that a limit is reached. ``limited_by`` says which (kernel.rule.effects).
    ``mode`` run: it ends by itself, so nobody can continue it.
    """

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
    """Its agents hear each other."""
    options: RunOptions = RunOptions()


class Membership(msgspec.Struct, frozen=True):
    """An agent's place in the space of a running workflow, and what it is called there."""

    space: str
    name: str


class EndedInstruction(msgspec.Struct, frozen=True):
    """The end of an instruction."""

    status: str
    cause: str | None


class HeldRule(msgspec.Struct, frozen=True):
    """What a rule does about ``occasion`` once it is agreed to. ``enabled``: it is still switched on."""

    rule: ActiveRule
    occasion: Occasion
    enabled: bool


class RuleView(Protocol):
    """Questions a proposal may ask; each is answered from an index and bounded."""

    def agent_exists(self, key: AgentKey) -> bool:
        """Return whether there is an agent that can be sent to outside any workflow."""
        ...

    def workspace(self, space: str) -> RunningWorkspace | None:
        """The running workflow of ``space``, if it runs."""
        ...

    def member(self, space: str, name: str) -> AgentKey | None:
        """The agent that is called ``name`` in ``space``."""
        ...

    def member_names(self, space: str) -> tuple[str, ...]:
        """Return who is in ``space``, at most 64, in alphabetical order."""
        ...

    def addressed_by(self, instruction: int) -> frozenset[AgentKey]:
        """Agents to whom something that this instruction said was delivered, at most 256."""
        ...

    def askers(self, instruction: int) -> tuple[AgentKey, ...]:
        """Agents that wait for what ``instruction`` comes to, directly or not: nearest first, at most 256."""
        ...

    def seats(self, agent: AgentKey, workflow: str) -> tuple[Membership, ...]:
        """Return where ``agent`` is a member while ``workflow`` runs: tag main first, then by tag, at most 64."""
        ...

    def wakeup_before(self, instruction: int) -> EndedInstruction | None:
        """If a schedule caused ``instruction``: how the wakeup of its agent ended that ended before it in its space.

        None too where 256 other instructions have ended since then.
        """
        ...

    def incomplete(self, space: str, agent: AgentKey) -> int | None:
        """The instruction of ``agent`` that ended last in ``space``, if it is incomplete and nobody took it up."""
        ...

    def roster(self, space: str) -> tuple[tuple[AgentKey, str], ...]:
        """Return who is in ``space``, with what it is called there: in alphabetical order, at most 256."""
        ...

    def has_ballot(self, space: str, name: str) -> bool:
        """Return whether the newest run of ``space`` has a ballot called ``name``, open or ended."""
        ...

    def open_ballots(self, space: str) -> int:
        """Return how many ballots of ``space`` are open."""
        ...

    def active_rules(self, space: str) -> tuple[ActiveRule, ...]:
        """Return the rules of ``space`` that are switched on: the oldest first, at most 64."""
        ...

    def has_grant(self, space: str, agent: AgentKey, scope: Scope, at_ms: int) -> bool:
        """Return whether ``agent`` was given ``scope`` in the newest run of ``space``, and that counts at ``at_ms``."""
        ...

    def held_rule(self, space: str, proposal: str) -> HeldRule | None:
        """Return what waits for what comes of ``proposal``."""
        ...


@final
class Append(msgspec.Struct, frozen=True):
    """Append a further message; it is evaluated in its turn."""

    draft: Draft


@final
class InboxDelivery(msgspec.Struct, frozen=True):
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


Effect = Append | InboxDelivery | Assign | WriteRow | Refuse


Decide = Callable[[Fact, RuleView], tuple[Effect, ...]]


class Rule(msgspec.Struct, frozen=True):
    """One rule. ``decide`` may ask the view and must not change anything."""

    name: str
    kinds: frozenset[MessageKind]
    decide: Decide
