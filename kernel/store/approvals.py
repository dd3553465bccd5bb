"""Questions about approvals: what waits for a person, and what was agreed to once for all."""

from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.approval import State
from kernel.store.clock_text import optional_rfc3339, rfc3339
from kernel.store.page import WHOLE, Page
from protocol.agent import Approval
from protocol.api.approvals import ApprovalInfo, ApprovalRow, ApprovalRuleRow, ApprovalRules, Pending
from protocol.api.instructions import AskedApproval
from protocol.ipc import Granted
from protocol.names import approval_id, instruction_id, name_of, number_of, place_of, rule_id

SHOWN_BYTES: Final = 64 * 1024
"""Of an input in a list; the whole of it is shown with the request itself."""

OPEN: Final = """
SELECT a.id, a.name, a.space, a.tool, CASE WHEN a.blob IS NULL THEN a.input ELSE b.body END, a.why, a.instruction,
  a.requested_ms, a.expires_ms, a.state, a.decided_ms, a.decided_by, a.reason
FROM approvals AS a INDEXED BY approvals_open LEFT JOIN blobs AS b ON b.hash = a.blob
WHERE a.state = 'open' AND a.id > ? ORDER BY a.id LIMIT ?
"""
COUNT_OPEN: Final = "SELECT count(*) FROM approvals INDEXED BY approvals_open WHERE state = 'open'"
ONE: Final = """
SELECT a.id, a.name, a.space, a.tool, CASE WHEN a.blob IS NULL THEN a.input ELSE b.body END, a.why, a.instruction,
  a.requested_ms, a.expires_ms, a.state, a.decided_ms, a.decided_by, a.reason
FROM approvals AS a LEFT JOIN blobs AS b ON b.hash = a.blob WHERE a.id = ?
"""


class _Row(NamedTuple):
    """A row of OPEN or ONE."""

    number: int
    name: str
    space: str
    tool: str
    given: bytes | None
    why: str
    instruction: int
    requested_ms: int
    expires_ms: int
    state: State
    decided_ms: int | None
    decided_by: str | None
    reason: str


def pending(conn: apsw.Connection, page: Page = WHOLE) -> Pending:
    """What waits for a decision, the oldest first. Ask in a thread."""
    found = [_Row(*row) for row in conn.execute(OPEN, (page.after or 0, page.limit + 1))]
    rows, following = page.cut(found, lambda row: approval_id(row.number))
    total = int(conn.execute(COUNT_OPEN).get)
    return Pending(approvals=tuple(map(_listed, rows)), total=total, next=following)


GRANTED: Final = """
SELECT a.tool, CASE WHEN a.blob IS NULL THEN a.input ELSE b.body END
FROM approvals AS a LEFT JOIN blobs AS b ON b.hash = a.blob
WHERE a.instruction = ? AND a.state = 'granted' AND a.told = 0 ORDER BY a.id LIMIT 20
"""


def granted(conn: apsw.Connection, instruction: str) -> tuple[Granted, ...]:
    """Calls of an instruction that are approved, and whose attempt did not live to hear it."""
    rows = conn.execute(GRANTED, (number_of(instruction, "i"),))
    return tuple(Granted(tool=tool, input=msgspec.Raw(given or b"null")) for tool, given in rows)


def _listed(row: _Row) -> ApprovalRow:
    whole = row.given or b"null"
    cut = len(whole) > SHOWN_BYTES
    return ApprovalRow(
        id=approval_id(row.number),
        agent=row.name,
        space=place_of(row.space),
        tool=row.tool,
        input=whole[:SHOWN_BYTES].decode("utf-8", "ignore") if cut else msgspec.Raw(whole),
        cut=cut,
        reason=row.why,
        instruction_id=instruction_id(row.instruction),
        requested_at=rfc3339(row.requested_ms),
        expires_at=rfc3339(row.expires_ms),
    )


def info(conn: apsw.Connection, approval: str) -> ApprovalInfo | None:
    """All about one request."""
    found = conn.execute(ONE, (number_of(approval, "a"),)).fetchone()
    if found is None:
        return None
    row = _Row(*found)
    return ApprovalInfo(
        id=approval_id(row.number),
        agent=row.name,
        space=place_of(row.space),
        tool=row.tool,
        input=msgspec.Raw(row.given or b"null"),
        reason=row.why,
        instruction_id=instruction_id(row.instruction),
        requested_at=rfc3339(row.requested_ms),
        expires_at=rfc3339(row.expires_ms),
        state=row.state,
        decided_at=optional_rfc3339(row.decided_ms),
        decided_by=row.decided_by,
        decision_reason=row.reason,
    )


OF_INSTRUCTION: Final = """
SELECT id, tool, state, told, requested_ms, decided_ms FROM approvals WHERE instruction = ? ORDER BY id
"""


def of_instruction(conn: apsw.Connection, number: int) -> tuple[AskedApproval, ...]:
    """Everything an instruction asked for, the first first."""
    rows = cast(
        "list[tuple[int, str, State, int, int, int | None]]", conn.execute(OF_INSTRUCTION, (number,)).fetchall()
    )
    return tuple(
        AskedApproval(
            id=approval_id(approval),
            tool=tool,
            state=state,
            heard=bool(told),
            requested_at=rfc3339(requested_ms),
            decided_at=optional_rfc3339(decided_ms),
        )
        for approval, tool, state, told, requested_ms, decided_ms in rows
    )


EXPIRES: Final = "SELECT expires_ms FROM approvals WHERE id = ?"


def expires_at(conn: apsw.Connection, approval: str) -> str | None:
    """When one request is given up, or was."""
    found = conn.execute(EXPIRES, (number_of(approval, "a"),)).fetchone()
    return None if found is None else rfc3339(int(found[0]))


RULES: Final = "SELECT id, agent, tool, pattern, created_ms FROM approval_rules WHERE id > ? ORDER BY id LIMIT ?"
COUNT_RULES: Final = "SELECT count(*) FROM approval_rules"


def rules(conn: apsw.Connection, page: Page = WHOLE) -> ApprovalRules:
    """What was agreed to once for all, the oldest first."""
    found = list(conn.execute(RULES, (page.after or 0, page.limit + 1)))
    shown, following = page.cut(found, lambda row: rule_id(row[0]))
    rows = tuple(
        ApprovalRuleRow(
            id=rule_id(number),
            agent=None if agent is None else name_of(agent),
            tool=tool,
            pattern=pattern,
            created_at=rfc3339(created_ms),
        )
        for number, agent, tool, pattern, created_ms in shown
    )
    return ApprovalRules(rules=rows, total=int(conn.execute(COUNT_RULES).get), next=following)


OF_RUN: Final = """
SELECT w.approval FROM instructions AS i CROSS JOIN workflows AS w ON w.id = i.run WHERE i.id = ?
"""


def of_run(conn: apsw.Connection, instruction: str) -> Approval | None:
    """What the run of ``instruction`` was started with, whatever its agents' files say."""
    row = conn.execute(OF_RUN, (number_of(instruction, "i"),)).fetchone()
    return None if row is None else cast("Approval | None", row[0])
