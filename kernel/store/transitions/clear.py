"""Remove what was said and done in spaces: texts, journals, prompts and effects, for a person who wants it gone.

What stays tells that something was there: messages with their kind and number, instructions with their status and
cost, events without their words. It reads the log from end to end, so it takes as long as the log is.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from kernel.policy.guard import NAME as GUARD
from kernel.store import souls, tray
from kernel.store.agents import remove_agent
from kernel.store.mirrors import mark_redo
from kernel.store.spaces import with_those_below
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import close_cancelled
from kernel.store.transitions.voting import cancel_open, expire_proposals
from protocol.api.agents import Cleared
from protocol.errors import Refused
from protocol.names import AgentKey, is_below, personal_space, place_of

WORDS: Final = """
UPDATE messages SET text = '', cleared = 1
WHERE space IN (SELECT value FROM cleared) AND cleared = 0 AND text <> ''
"""

# What entries and prompts refer to, before they are gone.
REFERRED: Final = """
-- journals, prompts, inputs of approvals, long texts, and the shared parts of prompts
SELECT e.blob FROM instructions AS i CROSS JOIN entries AS e ON e.instruction = i.id
WHERE i.space IN (SELECT value FROM cleared) AND e.blob IS NOT NULL
UNION SELECT i.prefix FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared) AND i.prefix IS NOT NULL
UNION SELECT p.blob FROM approvals AS p WHERE p.space IN (SELECT value FROM cleared) AND p.blob IS NOT NULL
UNION SELECT r.blob FROM resources AS r WHERE r.space IN (SELECT value FROM cleared)
UNION SELECT b.part FROM instructions AS i CROSS JOIN blobs AS b ON b.hash = i.prefix
WHERE i.space IN (SELECT value FROM cleared) AND b.part IS NOT NULL
-- and those of what a guard was asked about them
UNION SELECT e.blob FROM entries AS e WHERE e.instruction IN (SELECT value FROM asked) AND e.blob IS NOT NULL
UNION SELECT i.prefix FROM instructions AS i WHERE i.id IN (SELECT value FROM asked) AND i.prefix IS NOT NULL
"""

# What was said in them was shown to their guard, in a space of its own.
ASKED: Final = """
INSERT INTO asked (value) SELECT j.instruction FROM guard_jobs AS j WHERE j.space IN (SELECT value FROM cleared)
"""
ASKED_OPEN: Final = """
SELECT i.id, i.epoch FROM instructions AS i WHERE i.id IN (SELECT value FROM asked)
  AND i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""
ASKED_WORDS: Final = """
UPDATE messages SET text = '', cleared = 1
WHERE cleared = 0 AND text <> '' AND (cause IN (SELECT value FROM asked)
  OR seq IN (SELECT i.message FROM instructions AS i WHERE i.id IN (SELECT value FROM asked)))
"""
ERASE_ASKED: Final = "DELETE FROM entries WHERE instruction IN (SELECT value FROM asked)"
ASKED_COMPLAINTS: Final = "UPDATE attempts SET stderr_tail = NULL WHERE instruction IN (SELECT value FROM asked)"
ASKED_RESULTS: Final = """
UPDATE instructions SET result_text = '', manifest = NULL, prefix = NULL, vouched = NULL, entries = 0, aside = 0,
  carried_steps = 0
WHERE id IN (SELECT value FROM asked)
"""
ASKED_EVENTS: Final = """
UPDATE events SET data = CAST(json_replace(CAST(data AS TEXT), '$.text', '', '$.stderr', NULL) AS BLOB)
WHERE instruction IN (SELECT value FROM asked) AND data IS NOT NULL AND type IN ('instruction.ended', 'attempt.ended')
"""

ERASE_ENTRIES: Final = """
DELETE FROM entries
WHERE instruction IN (SELECT i.id FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared))
"""
ERASE_EFFECTS: Final = """
DELETE FROM effects
WHERE instruction IN (SELECT i.id FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared))
"""
ERASE_APPROVALS: Final = "DELETE FROM approvals WHERE space IN (SELECT value FROM cleared)"
ERASE_RESOURCES: Final = "DELETE FROM resources WHERE space IN (SELECT value FROM cleared)"
ERASE_STATUSES: Final = "DELETE FROM statuses WHERE space IN (SELECT value FROM cleared)"
ERASE_HANDOVERS: Final = """
DELETE FROM handovers
WHERE instruction IN (SELECT i.id FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared))
"""
# Which entries were given stays; what was asked for were words.
ERASE_QUERIES: Final = "UPDATE audit SET query = '' WHERE space IN (SELECT value FROM cleared) AND query <> ''"
ERASE_OBSERVATIONS: Final = "DELETE FROM soul_proposals WHERE space IN (SELECT value FROM cleared)"
ERASE_TRAY: Final = "DELETE FROM tray WHERE space IN (SELECT value FROM cleared)"
ERASE_JOBS: Final = "DELETE FROM guard_jobs WHERE space IN (SELECT value FROM cleared)"
ERASE_FEEDBACK: Final = "DELETE FROM feedback WHERE space IN (SELECT value FROM cleared)"
ERASE_VOTES: Final = (
    "DELETE FROM votes WHERE ballot IN (SELECT b.id FROM ballots AS b WHERE b.space IN (SELECT value FROM cleared))"
)
ERASE_ELECTORS: Final = (
    "DELETE FROM electors WHERE ballot IN (SELECT b.id FROM ballots AS b WHERE b.space IN (SELECT value FROM cleared))"
)
ERASE_BALLOTS: Final = "DELETE FROM ballots WHERE space IN (SELECT value FROM cleared)"
ERASE_TASK_NEEDS: Final = (
    "DELETE FROM task_needs WHERE task IN (SELECT t.id FROM tasks AS t WHERE t.space IN (SELECT value FROM cleared))"
)
ERASE_HELD_RULES: Final = "DELETE FROM held_rules WHERE space IN (SELECT value FROM cleared)"
# Those of its workflow's file were not said there.
ERASE_RULES: Final = "DELETE FROM rules WHERE space IN (SELECT value FROM cleared) AND author <> 'system'"
ERASE_TASKS: Final = "DELETE FROM tasks WHERE space IN (SELECT value FROM cleared)"
ERASE_COMPLAINTS: Final = """
UPDATE attempts SET stderr_tail = NULL
WHERE stderr_tail IS NOT NULL
  AND instruction IN (SELECT i.id FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared))
"""

RESULTS: Final = """
UPDATE instructions SET result_text = '', manifest = NULL, prefix = NULL, vouched = NULL, entries = 0, aside = 0,
  carried_steps = 0
WHERE space IN (SELECT value FROM cleared)
"""

# What a check printed, and why it was refused; that it was merged, and to where, stays.
ERASE_OUTCOMES: Final = """
UPDATE landings SET outcome = CAST(json_remove(CAST(outcome AS TEXT), '$.output', '$.why', '$.files') AS BLOB)
WHERE space IN (SELECT value FROM cleared)
"""

ERASE_VERSIONS: Final = """
DELETE FROM document_versions
WHERE document IN (SELECT d.id FROM documents AS d WHERE d.space IN (SELECT value FROM cleared))
"""
ERASE_DOCUMENTS: Final = "DELETE FROM documents WHERE space IN (SELECT value FROM cleared)"
ERASE_SUGGESTIONS: Final = "DELETE FROM document_suggestions WHERE space IN (SELECT value FROM cleared)"

PARAMS: Final = "UPDATE workflows SET params = x'7b7d', held_kickoff = NULL WHERE space IN (SELECT value FROM cleared)"

EVENTS: Final = """
UPDATE events SET data = CAST(json_replace(CAST(data AS TEXT), '$.text', '', '$.stderr', NULL, '$.id', '',
  '$.winner', NULL) AS BLOB)
WHERE space IN (SELECT value FROM cleared) AND data IS NOT NULL
  AND type IN ('instruction.ended', 'attempt.ended', 'worker.log', 'proposal.opened', 'proposal.ended')
"""

# What a request was answered is kept to be answered again; of a document about this space only its shape is.
ERASE_ANSWERS: Final = """
UPDATE idempotency SET response = CAST(json_replace(CAST(response AS TEXT), '$.text', '', '$.steps', json('[]'),
  '$.input', NULL, '$.reason', '', '$.decision_reason', '', '$.title', '', '$.description', '',
  '$.options', json('[]'), '$.votes', json('[]'), '$.counts', json('{}'), '$.tied', json('[]'), '$.winner', NULL,
  '$.assigned', json('{}'), '$.key', NULL, '$.check', NULL, '$.files', json('[]'), '$.result', '', '$.ids', json('{}'),
  CASE json_extract(CAST(response AS TEXT), '$.schema') WHEN 'awk/proposal/1' THEN '$.id' ELSE '$.text' END, '')
  AS BLOB)
WHERE json_valid(CAST(response AS TEXT)) AND json_extract(CAST(response AS TEXT), '$.space') IN (
  SELECT CASE instr(value, '#') WHEN 0 THEN value ELSE substr(value, 1, instr(value, '#') - 1) END FROM cleared)
"""

ERASE_BLOBS: Final = """
DELETE FROM blobs WHERE hash IN (SELECT value FROM wiped)
  -- what another space refers to stays
  AND hash NOT IN (SELECT e.blob FROM entries AS e WHERE e.blob IS NOT NULL)
  AND hash NOT IN (SELECT i.prefix FROM instructions AS i WHERE i.prefix IS NOT NULL)
  AND hash NOT IN (SELECT p.blob FROM approvals AS p WHERE p.blob IS NOT NULL)
  AND hash NOT IN (SELECT r.blob FROM resources AS r)
  AND hash NOT IN (SELECT b.part FROM blobs AS b WHERE b.part IS NOT NULL)
"""

OF_SPACE: Final = (
    ERASE_ENTRIES, ERASE_EFFECTS, ERASE_APPROVALS, ERASE_RESOURCES, ERASE_STATUSES, ERASE_HANDOVERS, ERASE_FEEDBACK,
    ERASE_QUERIES, ERASE_OBSERVATIONS, ERASE_TRAY, ERASE_JOBS,
    ERASE_ASKED, ASKED_COMPLAINTS, ASKED_RESULTS, ASKED_EVENTS,
    ERASE_VOTES, ERASE_ELECTORS, ERASE_BALLOTS, ERASE_TASK_NEEDS, ERASE_TASKS, ERASE_COMPLAINTS, ERASE_OUTCOMES,
    ERASE_HELD_RULES, ERASE_RULES, ERASE_VERSIONS, ERASE_DOCUMENTS, ERASE_SUGGESTIONS, PARAMS, EVENTS, ERASE_ANSWERS,
)  # fmt: skip

MAKE_LISTS: Final = """
CREATE TEMP TABLE IF NOT EXISTS wiped (value BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS cleared (value TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS asked (value INTEGER PRIMARY KEY) WITHOUT ROWID;
"""
ADD_TO_LIST: Final = "INSERT INTO wiped (value) VALUES (?)"
ADD_SPACE: Final = "INSERT OR IGNORE INTO cleared (value) VALUES (?)"
EMPTY_LISTS: Final = "DELETE FROM wiped; DELETE FROM cleared; DELETE FROM asked"


class Erased(NamedTuple):
    """Numbers of messages and instructions that lost their words."""

    messages: int
    instructions: int


def erase(tx: Transaction, spaces: Iterable[str]) -> Erased:
    """Remove the words of ``spaces`` and of those below them. Once that is committed no byte of them is left."""
    conn = tx.conn
    conn.execute(MAKE_LISTS).fetchall()
    conn.executemany(ADD_SPACE, [(space,) for space in with_those_below(conn, spaces)])
    conn.execute(ASKED)
    for number, epoch in cast("list[tuple[int, int]]", conn.execute(ASKED_OPEN).fetchall()):
        close_cancelled(tx, number, epoch)
    referred = conn.execute(REFERRED).fetchall()
    conn.execute(ASKED_WORDS)
    if asked := conn.changes():
        home = personal_space(GUARD)
        mark_redo(tx, home)
        tx.emit("space.cleared", space=home, data={"messages": asked, "instructions": 0})
    conn.execute(WORDS)
    messages = conn.changes()
    for statement in OF_SPACE:
        conn.execute(statement)
    conn.execute(RESULTS)
    instructions = conn.changes()
    conn.executemany(ADD_TO_LIST, referred)
    # Prompts first: what only they needed is needed by nobody then.
    conn.execute(ERASE_BLOBS)
    conn.execute(ERASE_BLOBS)
    conn.execute(EMPTY_LISTS).fetchall()
    tx.forget()
    return Erased(messages, instructions)


OPEN: Final = """
SELECT count(*) FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""


def clear(tx: Transaction, space: str, *more: str) -> Cleared:
    """Remove the words of ``space``, and of ``more`` with the same name; what is put to the vote there is cancelled.

    What was said in spaces below them goes along.
    Raises Refused (conflict) while something there has not ended.
    """
    spaces = with_those_below(tx.conn, (space, *more))
    expire_proposals(tx)  # it may wake somebody
    count = sum(int(tx.conn.execute(OPEN, (one,)).get) for one in spaces)
    if count:
        raise Refused(
            "conflict",
            f"{count} instructions in {place_of(space)} have not ended",
            "wait for them, or end them first: awk cancel ID",
        )
    for one in spaces:
        cancel_open(tx, one, "what was said here is removed")
    erased = erase(tx, spaces)
    for one in spaces:
        mark_redo(tx, one)
    data = {"messages": erased.messages, "instructions": erased.instructions}
    for one in spaces:
        if one == space or is_below(one):
            tx.emit("space.cleared", space=one, data=data if one == space else {"messages": 0, "instructions": 0})
    return Cleared(space=place_of(space), messages=erased.messages, instructions=erased.instructions)


def delete_agent(tx: Transaction, key: AgentKey) -> None:
    """Forget an agent that has nothing to do, and what was said to it. Raises Refused (unknown_agent, conflict).

    One that was forgotten before, when its file went, may have left words behind.
    """
    souls.forget(tx, key)
    tray.forget(tx, key)
    try:
        remove_agent(tx, key)
    except Refused as refused:
        if refused.code != "unknown_agent" or not erase(tx, [personal_space(key)]).messages:
            raise
        return
    erase(tx, [personal_space(key)])
    mark_redo(tx, personal_space(key))
