"""A view and a sink without a database: what proposals see, and what they decided."""

from dataclasses import dataclass, field
from typing import Any

from kernel.policy.rules import ActiveRule
from kernel.rule.draft import Draft, Fact
from kernel.rule.effects import (
    Assign,
    EndedInstruction,
    HeldRule,
    InboxDelivery,
    Membership,
    RunningWorkspace,
    WriteRow,
)
from kernel.rule.evaluate import CORE_TABLE, evaluate
from protocol.agent import Scope
from protocol.names import AgentKey

SPACE = "review:main"


@dataclass
class ViewDouble:
    """Members of ``review:main``, agents, and everything that was recorded."""

    members: dict[str, str] = field(default_factory=dict)
    agents: frozenset[str] = frozenset({"alice", "bob"})
    left_incomplete: dict[tuple[str, str], int] = field(default_factory=dict)
    runs: bool = True
    hops: int = 32
    instructions: int = 1000
    assigned: int = 0
    limited: bool = False
    limited_by: str | None = None
    has_channel: bool = True
    addressed: frozenset[str] = frozenset()
    asking: tuple[str, ...] = ()
    """Agents that wait for what the speaker comes to, nearest first."""
    wakeups: dict[int, EndedInstruction] = field(default_factory=dict)
    """How the wakeup before an instruction ended."""
    ballots: tuple[str, ...] = ()
    open: int = 0
    """Ballots that are open."""
    active: tuple[ActiveRule, ...] = ()
    held: dict[str, HeldRule] = field(default_factory=dict)
    """What waits for a proposal, by its name."""
    recorded: list[tuple[Fact, tuple[InboxDelivery | Assign | WriteRow, ...]]] = field(default_factory=list)

    def hear(self, draft: Draft, **known: Any) -> "ViewDouble":
        """Record a message, of which more may be ``known``, and all that follows from it."""
        evaluate(Fact(draft, **known), CORE_TABLE, self, self)
        return self

    def agent_exists(self, key: AgentKey) -> bool:
        return key in self.agents

    def workspace(self, space: str) -> RunningWorkspace | None:
        if space != SPACE or not self.runs:
            return None
        limits = (self.hops, self.instructions, self.assigned, self.limited, self.limited_by)
        return RunningWorkspace("review", "main", "flow.yaml", *limits, has_channel=self.has_channel)

    def member(self, space: str, name: str) -> AgentKey | None:
        key = self.members.get(name) if space == SPACE else None
        return None if key is None else AgentKey(key)

    def member_names(self, space: str) -> tuple[str, ...]:
        return tuple(sorted(self.members))

    def addressed_by(self, instruction: int) -> frozenset[AgentKey]:
        return frozenset(AgentKey(key) for key in self.addressed)

    def askers(self, instruction: int) -> tuple[AgentKey, ...]:
        return tuple(AgentKey(key) for key in self.asking)

    def incomplete(self, space: str, agent: AgentKey) -> int | None:
        return self.left_incomplete.get((space, agent))

    def wakeup_before(self, instruction: int) -> EndedInstruction | None:
        return self.wakeups.get(instruction)

    def seats(self, agent: AgentKey, workflow: str) -> tuple[Membership, ...]:
        seated = self.runs and workflow == SPACE.partition(":")[0]
        return tuple(Membership(SPACE, name) for name, key in self.members.items() if seated and key == agent)

    def roster(self, space: str) -> tuple[tuple[AgentKey, str], ...]:
        return tuple((AgentKey(key), name) for name, key in sorted(self.members.items()))

    def has_ballot(self, space: str, name: str) -> bool:
        return space == SPACE and name in self.ballots

    def open_ballots(self, space: str) -> int:
        return self.open

    def active_rules(self, space: str) -> tuple[ActiveRule, ...]:
        return self.active if space == SPACE else ()

    def has_grant(self, space: str, agent: AgentKey, scope: Scope, at_ms: int) -> bool:
        return False

    def held_rule(self, space: str, proposal: str) -> HeldRule | None:
        return self.held.get(proposal)

    def record(self, fact: Fact, effects: tuple[InboxDelivery | Assign | WriteRow, ...]) -> tuple[Draft, ...]:
        self.recorded.append((fact, effects))
        return ()

    def woken(self) -> list[tuple[str, str]]:
        """Who was given work by anything recorded, and in which lane."""
        return [(one.agent, one.lane) for one in self._assigned() if one.waits_for is None]

    def held_back(self) -> list[tuple[str, str | None]]:
        """Who was given work that waits, and for what."""
        return [(one.agent, one.waits_for) for one in self._assigned() if one.waits_for is not None]

    def taken_up(self) -> list[int | None]:
        """Whose thread each piece of work takes up."""
        return [one.continues for one in self._assigned()]

    def _assigned(self) -> list[Assign]:
        return [one for _, effects in self.recorded for one in effects if isinstance(one, Assign)]

    def delivered(self) -> list[str]:
        return [one.agent for _, effects in self.recorded for one in effects if isinstance(one, InboxDelivery)]


def team(*names: str) -> dict[str, str]:
    return {name: f"{name}@{SPACE}" for name in names}
