"""Purge: delete all data that contains items of an agent's memory from the log, at a person's request.

The items themselves are in files. Copies in the log are found by their text: in messages, frozen prompts, journals and
other traces of work, which are deleted as if their space had been cleared. Documents, tasks, proposals and other
deliberate uses remain and are reported. A purge reads the whole log.
"""

from typing import Final, NamedTuple, cast

import apsw

from kernel.policy.provenance import ProvenanceMarks
from kernel.store import agents
from kernel.store.holdings import HOLDINGS
from kernel.store.mirrors import mark_redo
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.names import AgentKey, instruction_id, place_of

LIVE: Final = "SELECT id FROM instructions WHERE agent = ? AND state IN ('leased', 'running')"

MAKE_LISTS: Final = """
CREATE TEMP TABLE IF NOT EXISTS purged_blobs (value BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS purged_work (value INTEGER PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS purged_words (value INTEGER PRIMARY KEY) WITHOUT ROWID;
DELETE FROM purged_blobs; DELETE FROM purged_work; DELETE FROM purged_words;
"""

LIST_BLOBS: Final = "INSERT INTO purged_blobs (value) SELECT b.hash FROM blobs AS b WHERE held(b.body)"
# The prompt of a purged system text is purged with it.
LIST_PROMPTS: Final = """
INSERT OR IGNORE INTO purged_blobs (value)
SELECT b.hash FROM blobs AS b WHERE b.part IN (SELECT value FROM purged_blobs)
"""
LIST_WORDS: Final = """
INSERT INTO purged_words (value) SELECT m.seq FROM messages AS m WHERE m.cleared = 0 AND held(m.text)
"""
LIST_WORK: Final = """
INSERT OR IGNORE INTO purged_work (value)
SELECT e.instruction FROM entries AS e WHERE held(e.body) OR e.blob IN (SELECT value FROM purged_blobs)
UNION SELECT i.id FROM instructions AS i
  WHERE held(i.result_text) OR held(i.manifest) OR held(i.vouched) OR i.prefix IN (SELECT value FROM purged_blobs)
UNION SELECT f.instruction FROM effects AS f WHERE held(f.result)
UNION SELECT x.instruction FROM exchanges AS x
  WHERE x.request IN (SELECT value FROM purged_blobs) OR x.response IN (SELECT value FROM purged_blobs)
UNION SELECT a.instruction FROM attempts AS a WHERE held(a.stderr_tail)
"""

# Open work must not lose the data that it continues from.
UNDER_WAY: Final = """
SELECT i.id FROM instructions AS i
WHERE i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND (i.id IN (SELECT value FROM purged_work) OR i.message IN (SELECT value FROM purged_words))
ORDER BY i.id
"""

SPACES: Final = """
SELECT m.space, count(*) FROM messages AS m WHERE m.seq IN (SELECT value FROM purged_words) GROUP BY m.space
"""
HOMES: Final = """
SELECT DISTINCT i.agent, i.space, EXISTS (
    SELECT 1 FROM instructions AS l WHERE l.agent = i.agent AND l.space = i.space AND l.state IN ('leased', 'running'))
FROM instructions AS i WHERE i.id IN (SELECT value FROM purged_work) ORDER BY 1, 2
"""
WORDS: Final = "SELECT value FROM purged_words ORDER BY value"
WORK: Final = "SELECT value FROM purged_work ORDER BY value"

WIPE_WORDS: Final = "UPDATE messages SET text = '', cleared = 1 WHERE seq IN (SELECT value FROM purged_words)"
WIPE_ENTRIES: Final = "DELETE FROM entries WHERE instruction IN (SELECT value FROM purged_work)"
WIPE_EFFECTS: Final = "DELETE FROM effects WHERE instruction IN (SELECT value FROM purged_work)"
WIPE_EXCHANGES: Final = "DELETE FROM exchanges WHERE instruction IN (SELECT value FROM purged_work)"
WIPE_COMPLAINTS: Final = "UPDATE attempts SET stderr_tail = NULL WHERE instruction IN (SELECT value FROM purged_work)"
WIPE_RESULTS: Final = """
UPDATE instructions SET result_text = '', manifest = NULL, prefix = NULL, vouched = NULL, entries = 0, aside = 0,
  carried_steps = 0
WHERE id IN (SELECT value FROM purged_work)
"""
WIPE_APPROVALS: Final = """
DELETE FROM approvals
WHERE held(input) OR held(why) OR held(reason) OR blob IN (SELECT value FROM purged_blobs)
"""
WIPE_RESOURCES: Final = "DELETE FROM resources WHERE blob IN (SELECT value FROM purged_blobs)"
# Without its idempotency row, a repeated request is executed again.
WIPED: Final = frozenset({"statuses", "handovers", "feedback", "idempotency"})
WIPE_ROWS: Final = tuple(
    one.deleting(" OR ".join(f"held({column})" for column in one.text)) for one in HOLDINGS if one.table in WIPED
)
WIPE_PROPOSED: Final = """
DELETE FROM decisions
WHERE kind <> 'document' AND (held(subject) OR held(content) OR held(reason) OR held(decision_reason))
"""
WIPE_AUDIT: Final = "UPDATE audit SET query = '', given = x'5b5d' WHERE held(query) OR held(given)"
# If an answer also gave other entries, those remain in the audit.
WIPE_AUDITED_KEYS: Final = """
UPDATE audit SET given = (
  SELECT CAST(json_group_array(json(g.value)) AS BLOB) FROM json_each(CAST(audit.given AS TEXT)) AS g
  WHERE NOT is_key(g.value ->> '$.key'))
WHERE owner = ? AND EXISTS (SELECT 1 FROM json_each(CAST(audit.given AS TEXT)) AS g WHERE is_key(g.value ->> '$.key'))
"""
WIPE_CREATIONS: Final = """
UPDATE creations SET spec = x'7b7d', state = iif(state = 'planned', 'refused', state) WHERE held(spec)
"""
WIPE_REASONS: Final = "UPDATE votes SET reason = '' WHERE held(reason)"
WIPE_EVENTS: Final = """
UPDATE events SET data = CAST(json_replace(CAST(data AS TEXT), '$.text', '', '$.stderr', NULL) AS BLOB)
WHERE data IS NOT NULL AND held(data)
"""
WIPE_EVENTS_WHOLE: Final = "UPDATE events SET data = x'7b7d' WHERE data IS NOT NULL AND held(data)"
WIPE_BLOBS: Final = """
DELETE FROM blobs WHERE hash IN (SELECT value FROM purged_blobs)
  AND hash NOT IN (SELECT e.blob FROM entries AS e WHERE e.blob IS NOT NULL)
  AND hash NOT IN (SELECT i.prefix FROM instructions AS i WHERE i.prefix IS NOT NULL)
  AND hash NOT IN (SELECT p.blob FROM approvals AS p WHERE p.blob IS NOT NULL)
"""

WIPE: Final = (
    WIPE_WORDS, WIPE_ENTRIES, WIPE_EFFECTS, WIPE_EXCHANGES, WIPE_COMPLAINTS, WIPE_RESULTS, WIPE_APPROVALS,
    WIPE_RESOURCES,
    *WIPE_ROWS, WIPE_PROPOSED, WIPE_AUDIT, WIPE_CREATIONS, WIPE_REASONS, WIPE_EVENTS, WIPE_EVENTS_WHOLE, WIPE_BLOBS,
)  # fmt: skip

LEFT_DOCUMENTS: Final = """
SELECT 'document ' || d.file, d.space FROM documents AS d WHERE held(d.content)
UNION SELECT 'an older version of document ' || d.file, d.space
  FROM document_versions AS v CROSS JOIN documents AS d ON d.id = v.document WHERE held(v.undo) OR held(v.reason)
UNION SELECT 'a suggestion for document ' || s.subject, s.space FROM decisions AS s
  WHERE s.kind = 'document' AND (held(s.content) OR held(s.reason) OR held(s.decision_reason))
ORDER BY 2, 1
"""
LEFT_SOULS: Final = """
SELECT 'version ' || v.version || ' of the soul', 'dm:' || v.agent FROM soul_versions AS v
WHERE held(v.body) OR held(v.diff) OR held(v.reason) ORDER BY v.agent, v.version
"""
LEFT_TASKS: Final = """
SELECT 'task t' || t.n, t.space FROM tasks AS t
WHERE held(t.title) OR held(t.text) OR held(t.command) OR held(t.result) OR held(t.reason) ORDER BY t.space, t.n
"""
LEFT_BALLOTS: Final = """
SELECT 'proposal ' || b.name, b.space FROM ballots AS b
WHERE held(b.title) OR held(b.description) OR held(b.options) OR held(b.reason) ORDER BY b.id
"""
LEFT_WORKFLOWS: Final = """
SELECT 'the parameters or the kickoff of run r' || w.id, w.space FROM workflows AS w
WHERE held(w.params) OR held(w.held_kickoff) OR held(w.definition) ORDER BY w.id
"""
LEFT_MERGES: Final = """
SELECT 'what a merge of run r' || l.run || ' printed', l.space FROM landings AS l
WHERE held(l.terms) OR held(l.outcome) ORDER BY l.id
"""
LEFT_TREES: Final = """
SELECT 'the note on the working tree of ' || t.name, t.space FROM worktrees AS t WHERE held(t.why) OR held(t.note)
ORDER BY t.run, t.name
"""
LEFT_AGENTS: Final = """
SELECT 'the definition', coalesce(a.home_space, 'dm:' || a.key) FROM agents AS a WHERE held(a.definition) ORDER BY a.key
"""
LEFT_SCHEDULES: Final = """
SELECT 'a schedule', t.home FROM timers AS t WHERE held(t.schedule) ORDER BY t.agent, t.home
"""
LEFT_APPROVALS: Final = """
SELECT 'the pattern of approval rule ' || r.id, coalesce('dm:' || r.agent, 'all agents') FROM approval_rules AS r
WHERE held(r.pattern) ORDER BY r.id
"""
LEFT_RULES: Final = """
SELECT 'rule ' || r.name, r.space FROM rules AS r WHERE held(r.spec)
UNION SELECT 'what waits for proposal ' || h.proposal, h.space FROM held_rules AS h
  WHERE held(h.spec) OR held(h.occasion)
ORDER BY 2, 1
"""
LEFT: Final = (
    LEFT_DOCUMENTS, LEFT_SOULS, LEFT_TASKS, LEFT_BALLOTS, LEFT_WORKFLOWS, LEFT_MERGES, LEFT_TREES, LEFT_AGENTS,
    LEFT_SCHEDULES, LEFT_APPROVALS, LEFT_RULES,
)  # fmt: skip


class Wiped(NamedTuple):
    """Result of a purge: messages and instructions that lost their texts, and texts for people
    about the remaining data (``left``).

    ``homes``: agents and spaces of these instructions, whose programs may have stored the texts.
    ``paused``: the purge paused the agent; resume it when its files are purged too.
    """

    messages: tuple[int, ...]
    instructions: tuple[int, ...]
    homes: tuple[tuple[str, str], ...]
    left: tuple[str, ...]
    paused: bool


def purge(tx: Transaction, key: AgentKey, traces: ProvenanceMarks) -> Wiped:
    """Delete the copies of the agent's purged memory items. Return also where copies remain.

    Raises Refused (conflict) while the agent runs or open work of any agent contains an item.
    """
    conn = tx.conn
    if (row := conn.execute(LIVE, (key,)).fetchone()) is not None:
        _refuse([int(row[0])], "may have the items in its context")

    def held(*values: object) -> bool:
        return traces.held_by(cast("bytes | str | None", values[0]))

    def is_key(*values: object) -> bool:
        return values[0] in traces.keys

    conn.create_scalar_function("held", held, 1)
    conn.create_scalar_function("is_key", is_key, 1)
    try:
        conn.execute(MAKE_LISTS).fetchall()
        for statement in (LIST_BLOBS, LIST_PROMPTS, LIST_WORDS, LIST_WORK):
            conn.execute(statement)
        if under_way := _numbers(conn, UNDER_WAY):
            _refuse(under_way, "contains items to be purged in its message, prompt or steps")
        wiped = _numbers(conn, WORDS), _numbers(conn, WORK)
        worked = [(str(agent), str(space), bool(live)) for agent, space, live in conn.execute(HOMES)]
        for space, count in conn.execute(SPACES).fetchall():
            mark_redo(tx, str(space))
            tx.emit("space.cleared", space=str(space), data={"messages": count, "instructions": 0})
        for statement in WIPE:
            conn.execute(statement)
        conn.execute(WIPE_AUDITED_KEYS, (key,))
        at_work = (f"sessions of {agent}'s program, which is running" for agent, _, live in worked if live)
        holding = (f"{what} of {place_of(str(space))}" for one in LEFT for what, space in conn.execute(one))
        left = (*holding, *dict.fromkeys(at_work))
    finally:
        conn.create_scalar_function("held", None, 1)
        conn.create_scalar_function("is_key", None, 1)
    record = agents.row(conn, key)
    pause = record is not None and record.state == "active"
    if pause:
        agents.set_agent_state(tx, key, "paused")
    tx.forget()
    return Wiped(*wiped, tuple((agent, space) for agent, space, live in worked if not live), left, pause)


def _refuse(numbers: list[int] | tuple[int, ...], why: str) -> None:
    shown = ", ".join(map(instruction_id, numbers[:10])) + (" and more" if len(numbers) > 10 else "")
    raise Refused("conflict", f"{shown} has not ended and {why}", "wait for its end, or cancel it: awk cancel ID")


def _numbers(conn: apsw.Connection, statement: str) -> tuple[int, ...]:
    return tuple(cast("int", number) for (number,) in conn.execute(statement).fetchall())
