"""Rules of workspaces: rows and queries, and the view with which kernel.rule reads the open transaction.

kernel.policy.rules determines the effects of a rule.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import apsw
import msgspec

from kernel.policy.grants import authority
from kernel.policy.rule_trigger import trigger_of
from kernel.policy.rules import ActiveRule, Occasion, decide, described
from kernel.rule.effects import EndedInstruction, HeldRule, HoldRule, Membership, RunningWorkspace
from kernel.store import grants, voting, workflows
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.agent import Scope
from protocol.message import USER
from protocol.names import (
    DEFAULT_TAG,
    AgentKey,
    group_of,
    is_personal,
    message_id,
    personal_space,
    place_of,
    split_space,
)
from protocol.rules import FIRINGS_LIMIT, RuleFiring, RuleInfo, RuleSpec

_encode: Final = msgspec.json.Encoder().encode
_spec: Final = msgspec.json.Decoder(RuleSpec)
_occasion: Final = msgspec.json.Decoder(Occasion)


def scopes_in(words: str) -> frozenset[Scope]:
    """Return the scopes in a column."""
    return cast("frozenset[Scope]", frozenset(words.split()))


active = Sql("""
SELECT id AS number, version, author, author_key, scopes, fired, spec FROM rules INDEXED BY rules_enabled
WHERE space = ? AND enabled = 1 ORDER BY id LIMIT 64
""").rows(ActiveRule, scopes=scopes_in, spec=_spec.decode)
"""Return the enabled rules of ``space``, the oldest first."""


def _held(*, occasion: bytes, enabled: int, **columns: Any) -> HeldRule:
    return HeldRule(ActiveRule(**columns), _occasion.decode(occasion), bool(enabled))


held = Sql("""
SELECT h.rule AS number, h.version, h.author, h.author_key, h.scopes, coalesce(r.fired, 0) AS fired, h.spec, h.occasion,
  coalesce(r.enabled, 0) AS enabled
FROM held_rules AS h LEFT JOIN rules AS r ON r.id = h.rule
WHERE h.space = ? AND h.proposal = ? ORDER BY h.id DESC LIMIT 1
""").row(_held, scopes=scopes_in, spec=_spec.decode)
"""Return the rule and the event that wait for the result of ``proposal``, or None."""


DEFINE: Final = """
INSERT INTO rules (space, name, version, author, author_key, scopes, enabled, defined_ms, spec)
VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?)
ON CONFLICT (space, name) DO UPDATE SET version = version + 1, author = excluded.author,
  author_key = excluded.author_key, scopes = excluded.scopes, enabled = excluded.enabled,
  defined_ms = excluded.defined_ms, spec = excluded.spec
"""
COUNT_FIRING: Final = "UPDATE rules SET fired = fired + 1, fired_ms = ? WHERE id = ?"
HOLD: Final = """
INSERT INTO held_rules (space, proposal, rule, version, author, author_key, scopes, spec, occasion)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def define(
    tx: Transaction, space: str, spec: RuleSpec, author: str, author_key: AgentKey | None, scopes: Iterable[Scope]
) -> None:
    """Define a rule of ``space``, replacing one of the same name. ``author_key`` None: a person or a file."""
    words, key = " ".join(sorted(scopes)), author_key
    values = (space, spec.name, author, key, words, spec.enabled, tx.now_ms, _encode(spec))
    tx.conn.execute(DEFINE, values)


def count_firings(tx: Transaction, numbers: Iterable[int]) -> None:
    """Increment the counter of firings of the rules with these numbers."""
    tx.conn.executemany(COUNT_FIRING, [(tx.now_ms, number) for number in numbers])


def hold(tx: Transaction, row: HoldRule) -> None:
    """Store a rule that has fired, with its event, until its proposal has ended."""
    rule, kept = row.rule, (_encode(row.rule.spec), _encode(row.occasion))
    scopes = " ".join(sorted(rule.scopes))
    whose = (rule.number, rule.version, rule.author, rule.author_key, scopes)
    tx.conn.execute(HOLD, (row.space, row.proposal, *whose, *kept))


set_message = Sql("UPDATE rules SET message = ? WHERE space = ? AND name = ?").change()
"""Record the number of the message that announced the definition of a rule."""


INFO: Final = """
SELECT name, space, version, author, enabled, defined_ms AS defined_at, message AS message_id, fired,
  fired_ms AS fired_at, spec AS rule FROM rules
"""
AUTHOR: Final = "SELECT author, author_key FROM rules WHERE space = ? AND name = ?"


_shown: Final[Mapping[str, Callable[[Any], Any]]] = {
    "space": place_of,
    "enabled": bool,
    "defined_at": rfc3339,
    "message_id": message_id,
    "fired_at": optional_rfc3339,
    "rule": _spec.decode,
}
find = Sql(f"{INFO} WHERE space = ? AND name = ?").row(RuleInfo, **_shown)
"""Return the rule ``name`` of ``space``, or None."""

in_space = Sql(f"{INFO} WHERE space = ? ORDER BY id").rows(RuleInfo, **_shown)
"""Return the rules of ``space``, including disabled ones, the oldest first."""


count = Sql("SELECT count(*) FROM rules WHERE space = ?").scalar(int)
"""Return the number of rules of ``space``, including disabled ones."""


def author_of(conn: apsw.Connection, space: str, name: str) -> tuple[str, str | None] | None:
    """Return the name and the key of a rule's author, or None if the rule does not exist."""
    return cast("tuple[str, str | None] | None", conn.execute(AUTHOR, (space, name)).fetchone())


# Messages as rules see them: the end of an instruction has the text of its result.
REPLAYED: Final = """
SELECT m.seq, m.kind, m.sender,
  CASE WHEN m.kind IN ('done', 'failed') THEN coalesce(i.result_text, '') ELSE m.text END, m.hops, m.run
FROM messages AS m LEFT JOIN instructions AS i ON i.id = m.cause
WHERE m.run = ? AND m.kind IN ('said', 'reply', 'done', 'failed', 'due', 'resolved', 'document', 'status')
ORDER BY m.seq
"""
WINNER: Final = "SELECT winner FROM ballots WHERE run = ? AND name = ?"


def trial(conn: apsw.Connection, space: str, run: int, spec: RuleSpec) -> tuple[int, int, tuple[RuleFiring, ...]]:
    """Return how many messages ``run`` has, how many trigger ``spec``, and which effects they have.

    Rules that ``spec`` invokes are the current ones of ``space``; a long text is tested as its stub. Call in a thread.
    """
    tried = ActiveRule(number=0, version=1, author=USER, author_key=None, scopes=frozenset(), fired=0, spec=spec)
    others = (
        msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, when=None))
        for one in active(conn, space)
        if one.spec.name != spec.name
    )
    known = (tried, *others)
    looked_at = total = 0
    firings: list[RuleFiring] = []
    for seq, kind, sender, text, hops, number in conn.execute(REPLAYED, (run,)):
        looked_at += 1
        trigger = trigger_of(kind, sender, text, hops)
        if trigger is not None and trigger.watched == "resolved":
            won = conn.execute(WINNER, (number, trigger.subject)).get
            trigger = trigger_of(kind, sender, text, hops, winner=won)
        done = None if trigger is None else decide(known, trigger)
        if done is None or not (done.steps or done.notes):
            continue
        total += 1
        if len(firings) < FIRINGS_LIMIT:
            asked = next((step.rule.spec.requires for step in done.steps if step.asks), None)
            would = (*map(described, done.steps), *(f"{note.rule}: not done: {note.why}" for note in done.notes))
            firings.append(
                RuleFiring(
                    seq=seq,
                    kind=kind,
                    sender=sender,
                    text=text[:200],
                    waits_for=() if asked is None else asked.from_,
                    would=tuple(one[:400] for one in would),
                )
            )
    return looked_at, total, tuple(firings)


class TransactionView:
    """View of the open transaction for rules (RuleView). Each query uses an index and a limit."""

    __slots__ = ("_conn",)

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def agent_exists(self, key: AgentKey) -> bool:
        return self._conn.execute(AGENT_EXISTS, (key,)).fetchone() is not None

    def workspace(self, space: str) -> RunningWorkspace | None:
        return workflows.workspace(self._conn, space)

    def member(self, space: str, name: str) -> AgentKey | None:
        if is_personal(space):
            return AgentKey(name) if space == personal_space(name) else None
        row = self._conn.execute(MEMBER, (space, name)).fetchone()
        return None if row is None else AgentKey(row[0])

    def member_names(self, space: str) -> tuple[str, ...]:
        return tuple(row[0] for row in self._conn.execute(MEMBER_NAMES, (space,)))

    def addressed_by(self, instruction: int) -> frozenset[AgentKey]:
        keys = [AgentKey(row[0]) for row in self._conn.execute(ADDRESSED_BY, (instruction,))]
        return frozenset((*keys, *filter(None, map(group_of, keys))))

    def incomplete(self, space: str, agent: AgentKey) -> int | None:
        row = self._conn.execute(INCOMPLETE, (agent, space)).fetchone()
        return None if row is None else int(row[0])

    def askers(self, instruction: int) -> tuple[AgentKey, ...]:
        return tuple(AgentKey(row[0]) for row in self._conn.execute(ASKERS, (instruction,)))

    def wakeup_before(self, instruction: int) -> EndedInstruction | None:
        row = self._conn.execute(WAKEUP_BEFORE, (instruction,)).fetchone()
        return None if row is None else EndedInstruction(*row)

    def seats(self, agent: AgentKey, workflow: str) -> tuple[Membership, ...]:
        return tuple(Membership(*row) for row in self._conn.execute(SEATS, (agent, workflow, DEFAULT_TAG)))

    def roster(self, space: str) -> tuple[tuple[AgentKey, str], ...]:
        own = [(name, name) for name in split_space(space)[1:] if is_personal(space)]
        return tuple((AgentKey(agent), name) for agent, name in own or self._conn.execute(ROSTER, (space,)))

    def has_ballot(self, space: str, name: str) -> bool:
        return voting.find(self._conn, space, name) is not None

    def open_ballots(self, space: str) -> int:
        return len(voting.open_deadlines(self._conn, space))

    def active_rules(self, space: str) -> tuple[ActiveRule, ...]:
        return active(self._conn, space)

    def has_grant(self, space: str, agent: AgentKey, scope: Scope, at_ms: int) -> bool:
        run = self._conn.execute(NEWEST_RUN, (space,)).get
        known = grants.book(self._conn, agent, space, run)
        return authority(known, agent, scope, at_ms) is not None

    def held_rule(self, space: str, proposal: str) -> HeldRule | None:
        return held(self._conn, space, proposal)


AGENT_EXISTS: Final = "SELECT 1 FROM agents WHERE key = ? AND home_space IS NULL"

# In an open space, each agent that exists outside of workflows counts as a member.
MEMBER: Final = """
SELECT agent FROM members WHERE space = ?1 AND name = ?2
UNION ALL SELECT a.key FROM workflows AS w CROSS JOIN agents AS a ON a.key = ?2 AND a.home_space IS NULL
WHERE w.space = ?1 AND w.state = 'running' AND w.open = 1 LIMIT 1
"""

MEMBER_NAMES: Final = "SELECT name FROM members WHERE space = ? ORDER BY name LIMIT 64"

NEWEST_RUN: Final = "SELECT max(id) FROM workflows WHERE space = ?"

# A group stands for its instances, which are members themselves.
ROSTER: Final = """
SELECT m.agent, m.name FROM members AS m WHERE m.space = ? AND NOT EXISTS (
  SELECT 1 FROM agents AS a WHERE a.key = m.agent AND a.replica_of = a.key)
ORDER BY m.name LIMIT 256
"""

ADDRESSED_BY: Final = """
SELECT d.agent FROM messages AS m CROSS JOIN deliveries AS d ON d.message = m.seq
WHERE m.cause = ?1 AND m.kind = 'said' AND m.space = (SELECT i.space FROM instructions AS i WHERE i.id = ?1) LIMIT 256
"""

ASKERS: Final = """
WITH RECURSIVE asking (id, agent, far) AS (
  -- the instruction that waits for its answer
  SELECT a.id, a.agent, 1 FROM instructions AS i CROSS JOIN instructions AS a ON a.id = i.asked_by
  WHERE i.id = ? AND i.told = 0 AND a.ended_ms IS NULL
  UNION ALL
  -- the instructions that wait for those; far limits a cycle
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
  WHERE agent IN (SELECT ?1 UNION SELECT r.key FROM agents AS r WHERE r.replica_of = ?1) AND space = ?2
    AND ended_ms IS NOT NULL ORDER BY ended_ms DESC, id DESC LIMIT 1) AS last
WHERE last.state = 'incomplete' AND NOT EXISTS (SELECT 1 FROM instructions AS i WHERE i.continues = last.id)
"""
