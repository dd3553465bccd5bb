"""The rows of approvals, and who waits for them. Part of commits, never a job: the rule decides what is written here.

Work that waits for an approval holds no worker: it is ``waiting`` for ``approval``. Where the call itself is kept
waiting its attempt lives on, and its instruction says all the same for what.
"""

from typing import Final, NamedTuple, cast

from kernel.policy.approval import Decision
from kernel.rule.effects import ApprovalDecision, ApprovalRequest, ApprovalRule
from kernel.store.clock_text import rfc3339
from kernel.store.commits.entry_body import store_body
from kernel.store.commits.trip import wake
from kernel.store.transaction import Transaction
from protocol.message import SYSTEM
from protocol.names import ApprovalId, approval_id, instruction_id, name_of, rule_id

INSERT: Final = """
INSERT INTO approvals (instruction, epoch, agent, name, space, call_key, tool, input, blob, digest, why, state,
  requested_ms, expires_ms, waits_ms, held, decided_ms, decided_by)
VALUES (:instruction, :epoch, :agent, :name, :space, :call_key, :tool, :input, :blob, :digest, :why, :state,
  :now, :expires, :waits, :held, :decided, :by)
"""


def put_request(tx: Transaction, row: ApprovalRequest) -> None:
    """Keep a request; what a standing rule grants is decided at once, and nobody is told to."""
    asked = row.asked
    by = None if row.rule is None else rule_id(row.rule)
    stored = store_body(tx, asked.input)
    values = {
        "instruction": row.instruction,
        "epoch": asked.epoch,
        "agent": row.agent,
        "name": row.name,
        "space": row.space,
        "call_key": asked.call_key,
        "tool": asked.tool,
        "input": stored.body,
        "blob": stored.blob,
        "digest": asked.digest,
        "why": asked.why,
        "state": "open" if by is None else "granted",
        "now": tx.now_ms,
        "expires": asked.expires_ms,
        "waits": row.waits_ms,
        "held": asked.held,
        "decided": None if by is None else tx.now_ms,
        "by": by,
    }
    tx.conn.execute(INSERT, values)
    one = Named(row.instruction, row.name, row.space, asked.tool)
    number = tx.conn.last_insert_rowid()
    if by is not None:
        _tell_decision(tx, number, one, "granted", by)
        return
    tell_request(tx, number, one, asked.expires_ms)


class Named(NamedTuple):
    """Whose request it is, and about what."""

    instruction: int
    name: str
    space: str
    tool: str


def tell_request(tx: Transaction, number: int, one: Named, expires_ms: int) -> None:
    """Somebody is waited for, who may watch; and work stands still, that something else may depend on."""
    data = {"id": approval_id(number), "tool": one.tool, "expires_at": rfc3339(expires_ms)}
    tx.emit("approval.requested", space=one.space, agent=one.name, instruction=one.instruction, data=data)


DECIDE: Final = """
UPDATE approvals SET state = :state, decided_ms = :now, decided_by = :by, reason = :reason
WHERE id = :id AND state = 'open' RETURNING instruction, name, space, tool
"""


def put_decision(tx: Transaction, row: ApprovalDecision) -> None:
    """Decide an open request, and let who waits for it go on."""
    values = {"id": row.approval, "state": row.decision, "by": row.by, "reason": row.reason, "now": tx.now_ms}
    found = tx.conn.execute(DECIDE, values).fetchone()
    if found is None:
        return
    one = Named(*found)
    _tell_decision(tx, row.approval, one, row.decision, row.by)
    keep_up(tx, one.instruction)
    if tx.conn.execute(WAITS, (one.instruction, approval_id(row.approval))).fetchone() is not None:
        wake(tx, one.instruction)


WAITS: Final = """
SELECT 1 FROM instructions WHERE id = ? AND state = 'waiting' AND waits_for = 'approval' AND wait_key = ?
"""


def _tell_decision(tx: Transaction, number: int, one: Named, decision: Decision, by: str) -> None:
    data = {"id": approval_id(number), "tool": one.tool, "decision": decision, "by": by}
    tx.emit("approval.decided", space=one.space, agent=one.name, instruction=one.instruction, data=data)


HELD: Final = """
UPDATE instructions SET waits_for = 'approval', wait_key = 'a' || held.id, not_before_ms = held.waits_ms
FROM (SELECT a.id, a.waits_ms FROM approvals AS a
  WHERE a.instruction = :id AND a.state = 'open' AND a.held = 1
    AND a.epoch = (SELECT i.epoch FROM instructions AS i WHERE i.id = :id)
  ORDER BY a.id DESC LIMIT 1) AS held
WHERE instructions.id = :id AND instructions.state IN ('leased', 'running')
RETURNING 1
"""

FREE: Final = """
UPDATE instructions SET waits_for = NULL, wait_key = NULL, not_before_ms = 0
WHERE id = ? AND state IN ('leased', 'running') AND waits_for = 'approval'
"""


def keep_up(tx: Transaction, number: int) -> None:
    """Have an instruction that an attempt holds say whether a call of it is kept waiting for an approval."""
    if tx.conn.execute(HELD, {"id": number}).fetchone() is None:
        tx.conn.execute(FREE, (number,))


class Awaited(NamedTuple):
    """The request that an instruction waits for, and until when its run is kept open for that (0: it is not)."""

    approval: ApprovalId
    waits_ms: int


FIRST_OPEN: Final = """
SELECT id, waits_ms FROM approvals WHERE instruction = ? AND state = 'open' ORDER BY id LIMIT 1
"""


def awaited(tx: Transaction, number: int) -> Awaited | None:
    """What an instruction that is put back has to wait for first, if there is something."""
    row = tx.conn.execute(FIRST_OPEN, (number,)).fetchone()
    return None if row is None else Awaited(approval_id(int(row[0])), int(row[1]))


OPEN_OF: Final = "SELECT id FROM approvals WHERE instruction = ? AND state = 'open' ORDER BY id"


def drop_requests(tx: Transaction, number: int, status: str) -> None:
    """The work has ended: nobody waits any more for what it had asked."""
    for (approval,) in cast("list[tuple[int]]", tx.conn.execute(OPEN_OF, (number,)).fetchall()):
        reason = f"{instruction_id(number)} ended {status}"
        put_decision(tx, ApprovalDecision(approval=approval, decision="expired", by=SYSTEM, reason=reason))


UNBIND: Final = "UPDATE approvals SET call_key = NULL, told = 1 WHERE instruction = ? AND (:all OR state <> 'granted')"


def unbind(tx: Transaction, number: int, *, everything: bool) -> None:
    """The work is tried again: what was refused may be asked again, and ``everything`` where it begins anew."""
    tx.conn.execute(UNBIND, (number, everything))


INSERT_RULE: Final = """
INSERT INTO approval_rules (agent, tool, pattern, created_by, created_ms) VALUES (?, ?, ?, ?, ?)
"""


def put_rule(tx: Transaction, row: ApprovalRule) -> None:
    """Keep what was agreed to once for all."""
    tx.conn.execute(INSERT_RULE, (row.agent, row.tool, row.pattern, row.by, tx.now_ms))
    data = {"id": rule_id(tx.conn.last_insert_rowid()), "tool": row.tool, "state": "kept"}
    tx.emit("approval.rule", agent=None if row.agent is None else name_of(row.agent), data=data)
