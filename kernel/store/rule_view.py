"""The view of proposals, answered on the writer's own connection inside the open transaction."""

from typing import Final

import apsw

from kernel.policy.grants import authority
from kernel.policy.rules import ActiveRule
from kernel.rule.view import EndedInstruction, HeldRule, Membership, Workspace
from kernel.store import grants, rules, voting, workflows
from protocol.agent import Scope
from protocol.names import DEFAULT_TAG, AgentKey


class TransactionView:
    """Implements kernel.rule.view.View. Every question is one indexed, limited statement."""

    __slots__ = ("_conn",)

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def agent_exists(self, key: AgentKey) -> bool:
        """See View."""
        return self._conn.execute(AGENT_EXISTS, (key,)).fetchone() is not None

    def workspace(self, space: str) -> Workspace | None:
        """See View."""
        return workflows.workspace(self._conn, space)

    def member(self, space: str, name: str) -> AgentKey | None:
        """See View."""
        row = self._conn.execute(MEMBER, (space, name)).fetchone()
        return None if row is None else AgentKey(row[0])

    def member_names(self, space: str) -> tuple[str, ...]:
        """See View."""
        return tuple(row[0] for row in self._conn.execute(MEMBER_NAMES, (space,)))

    def addressed_by(self, instruction: int) -> frozenset[AgentKey]:
        """See View."""
        return frozenset(AgentKey(row[0]) for row in self._conn.execute(ADDRESSED_BY, (instruction,)))

    def incomplete(self, space: str, agent: AgentKey) -> int | None:
        """See View."""
        row = self._conn.execute(INCOMPLETE, (agent, space)).fetchone()
        return None if row is None else int(row[0])

    def askers(self, instruction: int) -> tuple[AgentKey, ...]:
        """See View."""
        return tuple(AgentKey(row[0]) for row in self._conn.execute(ASKERS, (instruction,)))

    def wakeup_before(self, instruction: int) -> EndedInstruction | None:
        """See View."""
        row = self._conn.execute(WAKEUP_BEFORE, (instruction,)).fetchone()
        return None if row is None else EndedInstruction(*row)

    def seats(self, agent: AgentKey, workflow: str) -> tuple[Membership, ...]:
        """See View."""
        return tuple(Membership(*row) for row in self._conn.execute(SEATS, (agent, workflow, DEFAULT_TAG)))

    def roster(self, space: str) -> tuple[tuple[AgentKey, str], ...]:
        """See View."""
        return tuple((AgentKey(agent), name) for agent, name in self._conn.execute(ROSTER, (space,)))

    def has_ballot(self, space: str, name: str) -> bool:
        """See View."""
        return voting.find(self._conn, space, name) is not None

    def open_ballots(self, space: str) -> int:
        """See View."""
        return len(voting.open_deadlines(self._conn, space))

    def active_rules(self, space: str) -> tuple[ActiveRule, ...]:
        """See View."""
        return rules.active(self._conn, space)

    def has_grant(self, space: str, agent: AgentKey, scope: Scope, at_ms: int) -> bool:
        """See View."""
        run = self._conn.execute(NEWEST_RUN, (space,)).get
        known = grants.book(self._conn, agent, space, run)
        return authority(known, agent, scope, at_ms) is not None

    def held_rule(self, space: str, proposal: str) -> HeldRule | None:
        """See View."""
        return rules.held(self._conn, space, proposal)


AGENT_EXISTS: Final = "SELECT 1 FROM agents WHERE key = ? AND home_space IS NULL"

MEMBER: Final = "SELECT agent FROM members WHERE space = ? AND name = ?"

MEMBER_NAMES: Final = "SELECT name FROM members WHERE space = ? ORDER BY name LIMIT 64"

NEWEST_RUN: Final = "SELECT max(id) FROM workflows WHERE space = ?"

ROSTER: Final = "SELECT agent, name FROM members WHERE space = ? ORDER BY name LIMIT 256"

ADDRESSED_BY: Final = """
SELECT d.agent FROM messages AS m CROSS JOIN deliveries AS d ON d.message = m.seq
WHERE m.cause = ?1 AND m.kind = 'said' AND m.space = (SELECT i.space FROM instructions AS i WHERE i.id = ?1) LIMIT 256
"""

ASKERS: Final = """
WITH RECURSIVE asking (id, agent, far) AS (
  -- who waits for its answer
  SELECT a.id, a.agent, 1 FROM instructions AS i CROSS JOIN instructions AS a ON a.id = i.asked_by
  WHERE i.id = ? AND i.told = 0 AND a.ended_ms IS NULL
  UNION ALL
  -- who waits for theirs, and so on; far bounds a circle
  SELECT a.id, a.agent, asking.far + 1 FROM asking
  CROSS JOIN instructions AS i ON i.id = asking.id CROSS JOIN instructions AS a ON a.id = i.asked_by
  WHERE i.told = 0 AND a.ended_ms IS NULL AND asking.far < 256
)
SELECT agent FROM asking ORDER BY far
"""

WAKEUP_BEFORE: Final = """
SELECT past.state, past.cause FROM (
  SELECT p.state, p.cause, p.message, p.ended_ms, p.id FROM instructions AS own
  CROSS JOIN messages AS why ON why.seq = own.message AND why.kind = 'due'
  CROSS JOIN instructions AS p INDEXED BY instructions_ended
    ON p.agent = own.agent AND p.space = own.space AND p.ended_ms IS NOT NULL AND p.id <> own.id
  WHERE own.id = ? ORDER BY p.ended_ms DESC, p.id DESC LIMIT 256) AS past
CROSS JOIN messages AS m ON m.seq = past.message AND m.kind = 'due'
ORDER BY past.ended_ms DESC, past.id DESC LIMIT 1
"""

SEATS: Final = """
SELECT w.space, m.name FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = ? AND w.name = ? ORDER BY w.tag <> ?, w.tag LIMIT 64
"""

INCOMPLETE: Final = """
SELECT last.id FROM (
  SELECT id, state FROM instructions INDEXED BY instructions_ended
  WHERE agent = ? AND space = ? AND ended_ms IS NOT NULL ORDER BY ended_ms DESC, id DESC LIMIT 1) AS last
WHERE last.state = 'incomplete' AND NOT EXISTS (SELECT 1 FROM instructions AS i WHERE i.continues = last.id)
"""
