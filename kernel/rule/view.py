"""The view: what a proposal may ask. Typed, limited questions about the state before the message."""

from typing import Protocol

import msgspec

from kernel.policy.rules import ActiveRule, Occasion
from protocol.agent import Scope
from protocol.api.runs import RunOptions
from protocol.names import AgentKey


class Workspace(msgspec.Struct, frozen=True):
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


class View(Protocol):
    """Questions a proposal may ask; each is answered from an index and bounded."""

    def agent_exists(self, key: AgentKey) -> bool:
        """Return whether there is an agent that can be sent to outside any workflow."""
        ...

    def workspace(self, space: str) -> Workspace | None:
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
