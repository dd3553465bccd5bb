"""Approvals: requests, decisions and approval rules.

Work that waits for an approval holds no worker: it is ``waiting`` for ``approval``. If the call itself waits, its
attempt remains live, and the instruction records the same wait.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.tools import ApprovalRule, Decision, covering
from kernel.store import rows, waits, workflows
from kernel.store.attempts import Held
from kernel.store.entries import store_body
from kernel.store.rows import WHOLE, RowPage, Sql
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.agent import Approval
from protocol.api.approvals import ApprovalInfo, ApprovalRow, ApprovalRuleRow, ApprovalRules, Pending
from protocol.api.instructions import AskedApproval
from protocol.ipc import Granted
from protocol.message import SYSTEM
from protocol.names import AgentKey, ApprovalId, approval_id, instruction_id, name_of, number_of, place_of, rule_id
from protocol.tools import former_name

SHOWN_BYTES: Final = 64 * 1024
"""Limit of an input in a list; the request itself shows the full input."""


def _sql(statement: str) -> str:
    return statement.format(
        columns="""a.id, a.name AS agent, a.space, a.tool, a.why AS reason,
  CASE WHEN a.blob IS NULL THEN a.input ELSE b.body END AS input, a.instruction AS instruction_id,
  a.requested_ms AS requested_at, a.expires_ms AS expires_at"""
    )


OPEN: Final = _sql("""
SELECT {columns} FROM approvals AS a INDEXED BY approvals_open LEFT JOIN blobs AS b ON b.hash = a.blob
WHERE a.state = 'open' AND a.id > ? ORDER BY a.id LIMIT ?
""")
COUNT_OPEN: Final = "SELECT count(*) FROM approvals INDEXED BY approvals_open WHERE state = 'open'"
ONE: Final = _sql("""
SELECT {columns}, a.state, a.decided_ms AS decided_at, a.decided_by, a.reason AS decision_reason
FROM approvals AS a LEFT JOIN blobs AS b ON b.hash = a.blob WHERE a.id = ?
""")
_CALL: Mapping[str, Callable[[Any], Any]] = {
    "id": approval_id,
    "space": place_of,
    "instruction_id": instruction_id,
    "requested_at": rfc3339,
    "expires_at": rfc3339,
}


def pending(conn: apsw.Connection, page: RowPage = WHOLE) -> Pending:
    """Return the open requests, the oldest first. Call in a thread."""
    found = rows.all_(conn.execute(OPEN, (page.after or 0, page.limit + 1)), OPEN, _listed, **_CALL)
    shown, following = page.cut(found, lambda row: row.id)
    return Pending(approvals=shown, total=int(conn.execute(COUNT_OPEN).get), next=following)


def _listed(*, input: bytes | None, **columns: Any) -> ApprovalRow:
    whole = input or b"null"
    cut = len(whole) > SHOWN_BYTES
    shown = whole[:SHOWN_BYTES].decode("utf-8", "ignore") if cut else msgspec.Raw(whole)
    return ApprovalRow(input=shown, cut=cut, **columns)


def info(conn: apsw.Connection, approval: str) -> ApprovalInfo | None:
    """Return the details of the request ``approval``; None if unknown."""
    found = conn.execute(ONE, (number_of(approval, "a"),))
    return rows.one(found, ONE, ApprovalInfo, **_CALL, input=_json, decided_at=optional_rfc3339)


GRANTED: Final = """
SELECT a.tool, CASE WHEN a.blob IS NULL THEN a.input ELSE b.body END AS input,
  iif(a.state = 'granted', NULL, a.reason) AS denied
FROM approvals AS a LEFT JOIN blobs AS b ON b.hash = a.blob
WHERE a.instruction = ? AND a.state <> 'open' AND a.told = 0 ORDER BY a.id LIMIT 20
"""


def granted(conn: apsw.Connection, instruction: str) -> tuple[Granted, ...]:
    """Return the calls of an instruction that were decided after the end of the asking attempt."""
    found = conn.execute(GRANTED, (number_of(instruction, "i"),))
    return tuple(rows.all_(found, GRANTED, Granted, input=_json))


def _json(given: bytes | None) -> msgspec.Raw:
    return msgspec.Raw(given or b"null")


of_instruction = Sql("""
SELECT id, tool, state, told AS heard, requested_ms AS requested_at, decided_ms AS decided_at
FROM approvals WHERE instruction = ? ORDER BY id
""").rows(AskedApproval, id=approval_id, heard=bool, requested_at=rfc3339, decided_at=optional_rfc3339)
"""Return all requests of an instruction, the oldest first."""


EXPIRES: Final = "SELECT expires_ms FROM approvals WHERE id = ?"


def expires_at(conn: apsw.Connection, approval: str) -> str | None:
    """Return the expiry time of a request as text; None if unknown."""
    found = conn.execute(EXPIRES, (number_of(approval, "a"),)).fetchone()
    return None if found is None else rfc3339(int(found[0]))


RULES: Final = """
SELECT id, agent, tool, pattern, created_ms AS created_at FROM approval_rules WHERE id > ? ORDER BY id LIMIT ?
"""
COUNT_RULES: Final = "SELECT count(*) FROM approval_rules"


def rules(conn: apsw.Connection, page: RowPage = WHOLE) -> ApprovalRules:
    """Return the approval rules, the oldest first."""
    cursor = conn.execute(RULES, (page.after or 0, page.limit + 1))
    found = rows.all_(cursor, RULES, ApprovalRuleRow, id=rule_id, agent=_optional_name, created_at=rfc3339)
    shown, following = page.cut(found, lambda row: row.id)
    return ApprovalRules(rules=shown, total=int(conn.execute(COUNT_RULES).get), next=following)


def _optional_name(agent: AgentKey | None) -> str | None:
    return None if agent is None else name_of(agent)


OF_RUN: Final = """
SELECT w.approval FROM instructions AS i CROSS JOIN workflows AS w ON w.id = i.run WHERE i.id = ?
"""


def of_run(conn: apsw.Connection, instruction: str) -> Approval | None:
    """Return the approval mode that overrides agents' files in the instruction's run, or None."""
    row = conn.execute(OF_RUN, (number_of(instruction, "i"),)).fetchone()
    return None if row is None else cast("Approval | None", row[0])


class GatedCall(msgspec.Struct, frozen=True, kw_only=True):
    """Call that needs an approval; ``input`` is canonical JSON.

    ``key``: the client's id of the call, if any. ``held``: the call waits for the decision.
    """

    key: str | None
    tool: str
    input: bytes
    why: str = ""
    held: bool = False

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of the input."""
        return hashlib.sha256(self.input).digest()


APPROVAL_RULES: Final = """
SELECT id AS number, pattern FROM approval_rules
WHERE tool IN (?, ?) AND (agent IS NULL OR agent = ?) ORDER BY id LIMIT 256
"""
INSERT: Final = """
INSERT INTO approvals (instruction, epoch, agent, name, space, call_key, tool, input, blob, digest, why, state,
  requested_ms, expires_ms, waits_ms, held, decided_ms, decided_by)
VALUES (:instruction, :epoch, :agent, :name, :space, :call_key, :tool, :input, :blob, :digest, :why, :state,
  :now, :expires, :waits, :held, :decided, :by)
"""


def put_request(tx: Transaction, asker: Held, epoch: int, call: GatedCall, expires_ms: int) -> None:
    """Store a request for ``call``, as granted if an approval rule covers the call."""
    asked = (call.tool, former_name(call.tool), asker.agent)
    known = rows.each(tx.conn.execute(APPROVAL_RULES, asked), APPROVAL_RULES, ApprovalRule)
    rule = covering(known, call.input.decode())
    by = None if rule is None else rule_id(rule.number)
    workspace = workflows.workspace(tx.conn, asker.space)
    stored = store_body(tx, call.input, asker.number)
    values = {
        **msgspec.structs.asdict(asker),
        **msgspec.structs.asdict(call),
        "instruction": asker.number,
        "epoch": epoch,
        "call_key": call.key,
        "input": stored.body,
        "blob": stored.blob,
        "digest": call.digest,
        "state": "open" if by is None else "granted",
        "now": tx.now_ms,
        "expires": expires_ms,
        # The run stays open for the request only if a person watches it.
        "waits": expires_ms if workspace is not None and workspace.watched else 0,
        "decided": None if by is None else tx.now_ms,
        "by": by,
    }
    tx.conn.execute(INSERT, values)
    one = Named(asker.number, asker.name, asker.space, call.tool)
    number = tx.conn.last_insert_rowid()
    if by is None:
        tell_request(tx, number, one, expires_ms)
    else:
        _tell_decision(tx, number, one, "granted", by)


class Named(NamedTuple):
    """Instruction, agent, space and tool of a request, for its events."""

    instruction: int
    name: str
    space: str
    tool: str


def tell_request(tx: Transaction, number: int, one: Named, expires_ms: int) -> None:
    """Emit the event that a person must decide a request."""
    data = {"id": approval_id(number), "tool": one.tool, "expires_at": rfc3339(expires_ms)}
    tx.emit("approval.requested", space=one.space, agent=one.name, instruction=one.instruction, data=data)


DECIDE: Final = """
UPDATE approvals SET state = :state, decided_ms = :now, decided_by = :by, reason = :reason
WHERE id = :id AND state = 'open' RETURNING instruction, name, space, tool
"""


def put_decision(tx: Transaction, number: int, decision: Decision, by: str, reason: str) -> None:
    """Decide a request if it is open, and resume the instruction that waits for it."""
    values = {"id": number, "state": decision, "by": by, "reason": reason, "now": tx.now_ms}
    one = rows.one(tx.conn.execute(DECIDE, values), DECIDE, Named)
    if one is None:
        return
    _tell_decision(tx, number, one, decision, by)
    update_wait(tx, one.instruction)
    if tx.conn.execute(WAITS, (one.instruction, approval_id(number))).fetchone() is not None:
        waits.wake(tx, (one.instruction,))


WAITS: Final = """
SELECT 1 FROM instructions WHERE id = ? AND state = 'waiting' AND waits_for = 'approval' AND wait_key = ?
"""


def _tell_decision(tx: Transaction, number: int, one: Named, decision: Decision, by: str) -> None:
    data = {"id": approval_id(number), "tool": one.tool, "decision": decision, "by": by}
    tx.emit("approval.decided", space=one.space, agent=one.name, instruction=one.instruction, data=data)


HELD: Final = """
SELECT a.id, a.waits_ms FROM approvals AS a
WHERE a.instruction = :id AND a.state = 'open' AND a.held = 1
  AND a.epoch = (SELECT i.epoch FROM instructions AS i WHERE i.id = :id)
ORDER BY a.id DESC LIMIT 1
"""


def update_wait(tx: Transaction, number: int) -> None:
    """Record on a running instruction whether one of its calls waits for an approval."""
    held = tx.conn.execute(HELD, {"id": number}).fetchone()
    if held is None:
        waits.unmark_live(tx, number, "approval")
    else:
        waits.mark_live(tx, number, "approval", approval_id(int(held[0])), int(held[1]))


class Awaited(NamedTuple):
    """Open request of a waiting instruction. Its run stays open until ``waits_ms`` (0: not)."""

    approval: ApprovalId
    waits_ms: int


awaited = Sql("""
SELECT id AS approval, waits_ms FROM approvals WHERE instruction = ? AND state = 'open' ORDER BY id LIMIT 1
""").row(Awaited, approval=approval_id)
"""Return the first open request of a requeued instruction."""


OPEN_OF: Final = "SELECT id FROM approvals WHERE instruction = ? AND state = 'open' ORDER BY id"


def drop_requests(tx: Transaction, number: int, status: str) -> None:
    """Expire the open requests of an instruction that ended with ``status``."""
    for (approval,) in cast("list[tuple[int]]", tx.conn.execute(OPEN_OF, (number,)).fetchall()):
        reason = f"{instruction_id(number)} ended {status}"
        put_decision(tx, approval, "expired", SYSTEM, reason)


unbind = Sql(
    "UPDATE approvals SET call_key = NULL, told = 1 WHERE instruction = ? AND (? OR state <> 'granted')"
).change()
"""Let retried work request refused calls again; with ``everything``, also granted calls."""


INSERT_RULE: Final = """
INSERT INTO approval_rules (agent, tool, pattern, created_by, created_ms) VALUES (?, ?, ?, ?, ?)
"""


def put_rule(tx: Transaction, agent: AgentKey | None, tool: str, pattern: str, by: str) -> None:
    """Store a rule that grants matching calls of ``tool`` to ``agent``, or (None) to any agent."""
    tx.conn.execute(INSERT_RULE, (agent, tool, pattern, by, tx.now_ms))
    data = {"id": rule_id(tx.conn.last_insert_rowid()), "tool": tool, "state": "kept"}
    tx.emit("approval.rule", agent=_optional_name(agent), data=data)
