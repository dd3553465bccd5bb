"""Approval requests: made by an attempt, decided by a person, and expired after their deadline."""

from typing import Final, cast

import msgspec

from kernel.policy.tools import Decision, State, matches
from kernel.rule.draft import Author, Draft, Fact
from kernel.store.approvals import GatedCall, Named, put_decision, put_request, put_rule, tell_request, update_wait
from kernel.store.attempts import Held, held, use
from kernel.store.transaction import Transaction
from kernel.store.transitions.apply_effects import apply_fact
from protocol.errors import Refused
from protocol.message import SYSTEM, USER
from protocol.names import AgentKey, ApprovalId, approval_id, name_of, number_of, rule_id

TOO_LATE: Final = "not approved in time"


class Requested(msgspec.Struct, frozen=True):
    """State of an approval request, as its call sees it."""

    number: int
    state: State
    reason: str
    first: bool = False
    """The call cannot have started: no earlier attempt received the decision, or was interrupted without asking."""

    @property
    def id(self) -> ApprovalId:
        """Return the public id of the request."""
        return approval_id(self.number)


# Find the request by its key, or one whose decision was not delivered and whose call no longer waits: a restarted
# worker asks again with another key. A decision belongs to the call that waits for it until the call receives it.
FIND: Final = """
SELECT id, state, reason, epoch FROM approvals
WHERE instruction = :instruction AND tool = :tool AND digest = :digest
  AND (call_key = :key OR (told = 0 AND NOT (held = 1 AND epoch = :epoch)))
ORDER BY call_key IS NOT :key, id LIMIT 1
"""

NEWEST: Final = "SELECT id, state, reason, epoch FROM approvals WHERE instruction = ? ORDER BY id DESC LIMIT 1"

TAKE_OVER: Final = """
UPDATE approvals SET call_key = :key, epoch = :epoch, held = :held WHERE id = :id RETURNING expires_ms
"""


def ask(tx: Transaction, author: Author, call: GatedCall, expires_ms: int) -> Requested:
    """Return the state of the request for ``call``; create the request if it does not exist.

    ``expires_ms`` applies to a new request. Raises Refused (stale_attempt, quota_reached).
    """
    instruction = held(tx.conn, author.instruction, author.epoch)
    values = {
        "instruction": instruction.number,
        "tool": call.tool,
        "digest": call.digest,
        "key": call.key,
        "epoch": author.epoch,
    }
    row = found = tx.conn.execute(FIND, values).fetchone()
    if row is None:
        put_request(tx, instruction, author.epoch, call, expires_ms)
        said = Draft(kind="approval", space=instruction.space, sender=instruction.name)
        apply_fact(tx, Fact(said, cause=instruction.number, speaker=instruction.agent))
        row = tx.conn.execute(NEWEST, (instruction.number,)).fetchone()
        assert row is not None, "it was just written"
        use(tx, instruction, approvals=int(row[1] == "open"), text=call.input + call.why.encode("utf-8", "replace"))
    *seen, asker = row
    asked = Requested(*seen)
    holds = call.held and asked.state == "open"
    taken = {"id": asked.number, "key": call.key, "epoch": author.epoch, "held": holds}
    (until_ms,) = cast("tuple[int]", tx.conn.execute(TAKE_OVER, taken).fetchone())
    update_wait(tx, instruction.number)
    if holds and found is not None:  # an existing request: announce that its call waits again
        one = Named(instruction.number, instruction.name, instruction.space, call.tool)
        tell_request(tx, asked.number, one, until_ms)
    return _told(tx, asked, instruction, asker)


ONE: Final = "SELECT id, state, reason FROM approvals WHERE id = ?"

TOLD: Final = "UPDATE approvals SET told = 1 WHERE id = ? AND told = 0 RETURNING 1"


def find_decision(tx: Transaction, author: Author, approval: int) -> Requested:
    """Return the state of a request whose call is waiting. Raises Refused (stale_attempt)."""
    instruction = held(tx.conn, author.instruction, author.epoch)
    row = tx.conn.execute(ONE, (approval,)).fetchone()
    assert row is not None, "an approval exists as long as its work is open"
    return _told(tx, Requested(*row), instruction, author.epoch)


# An attempt that broke off after the last entry may have started the call (kernel.store.transitions.lease reports the
# same to a worker), except the last one that asked: it found the request open. One that did not ask may have had
# permission.
BEGUN: Final = """
SELECT 1 FROM instructions AS i WHERE i.id = :instruction AND (
  (i.continues IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM entries AS own WHERE own.instruction = i.id AND own.epoch > 0))
  OR EXISTS (
    SELECT 1 FROM attempts AS p WHERE p.instruction = i.id AND p.epoch < i.epoch AND p.epoch <> :asker
      AND p.epoch >= coalesce(
        (SELECT e.epoch FROM entries AS e WHERE e.instruction = i.id ORDER BY e.k DESC LIMIT 1), 0)
      AND p.outcome NOT IN ('yielded', 'held back', 'over budget')))
"""


def _told(tx: Transaction, asked: Requested, instruction: Held, asker: int) -> Requested:
    if asked.state == "open":
        return asked
    unheard = tx.conn.execute(TOLD, (asked.number,)).fetchone() is not None
    begun = tx.conn.execute(BEGUN, {"instruction": instruction.number, "asker": asker}).fetchone() is not None
    return msgspec.structs.replace(asked, first=unheard and not begun)


USED_UP: Final = "UPDATE approvals SET told = 1 WHERE instruction = ? AND tool = ? AND digest = ? AND call_key = ?"


def mark_begun(tx: Transaction, author: Author, call: GatedCall) -> None:
    """Record that ``call`` may have started without approval: ``Requested.first`` is False from now on.

    Raises Refused (stale_attempt).
    """
    instruction = held(tx.conn, author.instruction, author.epoch)
    tx.conn.execute(USED_UP, (instruction.number, call.tool, call.digest, call.key))


LET_GO: Final = "UPDATE approvals SET held = 0 WHERE id = ? AND held = 1 AND epoch = ? RETURNING instruction"


def release_call(tx: Transaction, author: Author, approval: int) -> None:
    """Record that the call no longer waits for its request. The request's state does not change."""
    row = tx.conn.execute(LET_GO, (approval, author.epoch)).fetchone()
    if row is not None:
        update_wait(tx, int(row[0]))


def approve(
    tx: Transaction, approval: str, *, reason: str = "", always: str | None = None, everybody: bool = False
) -> tuple[ApprovalId, ...]:
    """Grant a request as a person. Return other open requests that the new rule (``always``) grants.

    ``always`` is a pattern: also grant all other calls of the tool whose whole input matches it;
    with ``everybody``, of any agent. Raises Refused: not_found; conflict if the request was decided
    otherwise or expired; bad_request if its own input does not match the pattern.
    """
    number = _number(approval)
    expire(tx)  # the timer that expires requests may not have fired yet
    waited = cast("list[tuple[int]]", [] if always is None else tx.conn.execute(OTHERS, (number,)).fetchall())
    decide(tx, number, "granted", USER, reason, always=always, everybody=everybody)
    states = {other: tx.conn.execute(ONE, (other,)).fetchone() for (other,) in waited}
    return tuple(approval_id(other) for other, row in states.items() if row is not None and row[1] == "granted")


OTHERS: Final = "SELECT id FROM approvals WHERE state = 'open' AND id <> ? ORDER BY id"


def deny(tx: Transaction, approval: str, *, reason: str = "") -> None:
    """Deny a request as a person. Raises Refused: not_found; conflict if it was decided otherwise."""
    decide(tx, _number(approval), "denied", USER, reason)


EXPIRED: Final = "SELECT id FROM approvals WHERE state = 'open' AND expires_ms <= ? ORDER BY expires_ms, id"


def expire(tx: Transaction) -> None:
    """Expire the requests whose deadline has passed."""
    for (number,) in cast("list[tuple[int]]", tx.conn.execute(EXPIRED, (tx.now_ms,)).fetchall()):
        decide(tx, number, "expired", SYSTEM, TOO_LATE)


REQUEST: Final = """
SELECT a.agent, a.space, a.tool, CASE WHEN a.blob IS NULL THEN a.input ELSE coalesce(b.body, x'') END, a.state,
  a.decided_by, a.reason
FROM approvals AS a LEFT JOIN blobs AS b ON b.hash = a.blob WHERE a.id = ?
"""


def decide(
    tx: Transaction,
    number: int,
    decision: Decision,
    by: str,
    reason: str = "",
    *,
    always: str | None = None,
    everybody: bool = False,
) -> None:
    """Decide a request, once. ``always`` and ``everybody`` are as in approve.

    Raises Refused: not_found, conflict, bad_request.
    """
    name = approval_id(number)
    row = tx.conn.execute(REQUEST, (number,)).fetchone()
    if row is None:
        raise Refused("not_found", f"request {name} not found", "list the open requests: awk needs")
    agent, space, tool, given, state, decided_by, why = cast("tuple[str, str, str, bytes, str, str | None, str]", row)
    if state not in ("open", decision):
        if state == "expired":
            raise Refused("conflict", f"{name} has expired: {why or 'its deadline has passed'}")
        raise Refused("conflict", f"{name} is already {state}{f' by {decided_by}' if decided_by else ''}")
    called = bytes(given).decode()
    if always is not None and not matches(always, called):
        text = f"pattern does not match the input of {name}: {called[:200]}"
        raise Refused("bad_request", text, "the pattern must match the whole input; * matches any text")
    put_decision(tx, number, decision, by, reason)
    if always is not None:
        whose = None if everybody else AgentKey(agent)
        put_rule(tx, whose, tool, always, by)
        others = tx.conn.execute(OPEN_REQUESTS, {"agent": whose, "tool": tool}).fetchall()
        for other, given in cast("list[tuple[int, bytes]]", others):
            if matches(always, bytes(given).decode()):
                put_decision(tx, other, decision, by, reason)
    apply_fact(tx, Fact(Draft(kind="approval", space=space, sender=by)))


OPEN_REQUESTS: Final = """
SELECT a.id, CASE WHEN a.blob IS NULL THEN a.input ELSE coalesce(b.body, x'') END
FROM approvals AS a INDEXED BY approvals_open LEFT JOIN blobs AS b ON b.hash = a.blob
WHERE a.state = 'open' AND a.tool = :tool AND (:agent IS NULL OR a.agent = :agent) ORDER BY a.id LIMIT 256
"""
DELETE_RULE: Final = "DELETE FROM approval_rules WHERE id = ? RETURNING agent, tool"


def drop_rule(tx: Transaction, rule: str) -> None:
    """Delete an approval rule: its calls need approval again. Raises Refused (not_found)."""
    number = number_of(rule, "r") or 0
    row = tx.conn.execute(DELETE_RULE, (number,)).fetchone()
    if row is None:
        raise Refused("not_found", f"approval rule {rule[:40]!r} not found", "list the rules: awk needs --rules")
    agent, tool = row
    data = {"id": rule_id(number), "tool": tool, "state": "taken back"}
    tx.emit("approval.rule", agent=None if agent is None else name_of(agent), data=data)


def _number(approval: str) -> int:
    number = number_of(approval, "a")
    if number is None:
        raise Refused(
            "not_found",
            f"request {approval[:40]!r} not found",
            "list the open requests, with ids such as a3: awk needs",
        )
    return number
