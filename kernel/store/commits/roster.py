"""Which agents there are. They move no work; a name must be here before anything can be sent to it."""

from collections.abc import Iterable
from typing import Final, cast

import msgspec

from kernel.policy.standing import AgentState
from kernel.rule.draft import Origin
from kernel.store.commits.release import release_agent
from kernel.store.commits.trip import wake
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.names import AgentKey, name_of, place_of


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One agent to know of. ``definition`` is JSON of an AgentDefinition; None leaves what is stored as it is."""

    key: AgentKey
    origin: Origin
    file: str | None = None
    home_space: str | None = None
    definition: bytes | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Limits(msgspec.Struct, frozen=True):
    queue: int | None = None


class _Shown(msgspec.Struct, frozen=True):
    backend: str = "sdk"
    model: str = ""
    provider: str | _Named | None = None
    limits: _Limits = _Limits()

    @property
    def provider_name(self) -> str:
        """Whose limit its workers count against, as far as the file says; an alias is resolved at its first attempt."""
        if self.backend == "mock":
            return "mock"
        if self.provider is None:
            return self.model.partition("/")[0]
        return self.provider if isinstance(self.provider, str) else self.provider.name


_shown: Final = msgspec.json.Decoder(_Shown)


def put_agents(tx: Transaction, specs: Iterable[AgentSpec]) -> None:
    """Add or update agents; what did not change tells no event."""
    for spec in specs:
        put_agent(tx, spec)


UPSERT: Final = """
INSERT INTO agents (key, name, home_space, origin, file, definition, backend, model, provider, queue_limit,
  state)
VALUES (:key, :name, :home_space, :origin, :file, :definition, :backend, :model, :provider, :queue_limit, 'active')
ON CONFLICT (key) DO UPDATE SET
  home_space = :home_space, origin = :origin, file = coalesce(:file, file), definition = :definition,
  backend = :backend, model = :model, provider = :provider, queue_limit = :queue_limit, resume_at_ms = 0
WHERE :definition IS NOT NULL
  AND (definition IS NOT :definition OR origin IS NOT :origin OR home_space IS NOT :home_space
    OR file IS NOT coalesce(:file, file))
RETURNING state, hold_key
"""


# What is edited may be the budget, so who waits for that looks again.
OVER_BUDGET: Final = """
SELECT id FROM instructions WHERE agent = ? AND state = 'waiting' AND waits_for = 'budget' ORDER BY lane, id
"""


def put_agent(tx: Transaction, spec: AgentSpec) -> None:
    """Add or update one agent. State, queue and usage stay; a new definition may call its provider again."""
    shown = _Shown() if spec.definition is None else _shown.decode(spec.definition)
    values = msgspec.structs.asdict(spec)
    values |= {
        "name": name_of(spec.key),
        "backend": shown.backend,
        "model": shown.model,
        "provider": shown.provider_name,
        "queue_limit": shown.limits.queue,
    }
    row = tx.conn.execute(UPSERT, values).fetchone()
    if row is not None:
        state, held = row
        tx.emit("agent.changed", space=spec.home_space, agent=name_of(spec.key), data={"state": state, "reason": None})
        if held is not None:
            release_agent(tx, spec.key)
        for (number,) in cast("list[tuple[int]]", tx.conn.execute(OVER_BUDGET, (spec.key,)).fetchall()):
            wake(tx, number)


OPEN: Final = """
SELECT 1 FROM instructions
WHERE agent = ? AND (state IN ('leased', 'running') OR state IN ('queued', 'yielded') OR state = 'waiting') LIMIT 1
"""
MEMBER_OF: Final = """
SELECT m.space FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = ? LIMIT 1
"""
DELETE: Final = "DELETE FROM agents WHERE key = ? RETURNING key"
DELETE_TIMERS: Final = "DELETE FROM timers WHERE agent = ?"
DELETE_RULES: Final = "DELETE FROM approval_rules WHERE agent = ?"


def remove_agent(tx: Transaction, key: AgentKey) -> None:
    """Forget an agent that has nothing to do. Raises Refused (unknown_agent, conflict)."""
    member = tx.conn.execute(MEMBER_OF, (key,)).fetchone()
    if member is not None:
        place = place_of(str(member[0]))
        raise Refused("conflict", f"{key} is a member of {place}", f"stop it first: awk stop @{place}")
    if tx.conn.execute(OPEN, (key,)).fetchone() is not None:
        raise Refused("conflict", f"{key} has work that has not ended", f"see it: awk queue {key}")
    if tx.conn.execute(DELETE, (key,)).fetchone() is None:
        raise Refused("unknown_agent", f"there is no agent {key!r}", "awk ls lists the agents")
    tx.conn.execute(DELETE_TIMERS, (key,))
    tx.conn.execute(DELETE_RULES, (key,))
    tx.emit("agent.changed", agent=name_of(key), data={"state": "deleted", "reason": None})


SET_STATE: Final = "UPDATE agents SET state = ?, reason = ? WHERE key = ? RETURNING key"


def set_agent_state(tx: Transaction, key: AgentKey, state: AgentState, reason: str | None = None) -> None:
    """Change whether an agent is given work. Raises Refused (unknown_agent)."""
    if tx.conn.execute(SET_STATE, (state, reason, key)).fetchone() is None:
        raise Refused("unknown_agent", f"there is no agent {key!r}", "awk ls lists the agents")
    tx.emit("agent.changed", agent=name_of(key), data={"state": state, "reason": reason})
