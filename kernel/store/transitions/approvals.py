"""Requests for approval: asked by an attempt, decided by a person, given up when their time is over."""

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

TOO_LATE: Final = "nobody approved it in time"


class Requested(msgspec.Struct, frozen=True):
    """A request as it is now."""

    number: int
    state: State
    reason: str
    first: bool = False
    """What it is about has not begun: nobody who asked has learned its decision before, nor broke off unasked."""

    @property
    def id(self) -> ApprovalId:
        """Its name outside."""
        return approval_id(self.number)


# By its key; else one that nobody has learned the decision of, and whose own call waits no more: a worker that was
# ended meanwhile asks again by another key. A decision belongs to the call that waits for it until that has it.
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
    """Return the decision on the request for ``call``, which is made where there is none: asked twice, it is the same
    one.

    ``expires_ms`` counts for a new one. Raises Refused (stale_attempt, quota_reached).
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
    if holds and found is not None:  # nothing is new but that its work stands still again
        one = Named(instruction.number, instruction.name, instruction.space, call.tool)
        tell_request(tx, asked.number, one, until_ms)
    return _told(tx, asked, instruction, asker)


ONE: Final = "SELECT id, state, reason FROM approvals WHERE id = ?"

TOLD: Final = "UPDATE approvals SET told = 1 WHERE id = ? AND told = 0 RETURNING 1"


def find_decision(tx: Transaction, author: Author, approval: int) -> Requested:
    """Return the decision on the request whose call is kept waiting. Raises Refused (stale_attempt)."""
    instruction = held(tx.conn, author.instruction, author.epoch)
    row = tx.conn.execute(ONE, (approval,)).fetchone()
    assert row is not None, "an approval is kept as long as its work goes on"
    return _told(tx, Requested(*row), instruction, author.epoch)


# An attempt may have begun the call if it broke off since the last entry (as kernel.store.transitions.lease tells a
# worker), but for the one that asked last: that found the request open. One that did not ask may have been allowed to.
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
    """Its decision is used up with this, if it has one. ``asker``: the attempt that asked for it last, until now."""
    if asked.state == "open":
        return asked
    unheard = tx.conn.execute(TOLD, (asked.number,)).fetchone() is not None
    begun = tx.conn.execute(BEGUN, {"instruction": instruction.number, "asker": asker}).fetchone() is not None
    return msgspec.structs.replace(asked, first=unheard and not begun)


USED_UP: Final = "UPDATE approvals SET told = 1 WHERE instruction = ? AND tool = ? AND digest = ? AND call_key = ?"


def mark_begun(tx: Transaction, author: Author, call: GatedCall) -> None:
    """``call`` may be made by now without anybody's leave: a request of its own shows no more that it has not begun.

    Raises Refused (stale_attempt).
    """
    instruction = held(tx.conn, author.instruction, author.epoch)
    tx.conn.execute(USED_UP, (instruction.number, call.tool, call.digest, call.key))


LET_GO: Final = "UPDATE approvals SET held = 0 WHERE id = ? AND held = 1 AND epoch = ? RETURNING instruction"


def release_call(tx: Transaction, author: Author, approval: int) -> None:
    """The call is not kept waiting any more, whatever becomes of its request."""
    row = tx.conn.execute(LET_GO, (approval, author.epoch)).fetchone()
    if row is not None:
        update_wait(tx, int(row[0]))


def approve(
    tx: Transaction, approval: str, *, reason: str = "", always: str | None = None, everybody: bool = False
) -> tuple[ApprovalId, ...]:
    """A person agrees. ``always``: and to every other call of the tool whose whole input has this pattern.

    ``everybody``: whichever agent makes it. Returns which others that waited are granted with it. Raises Refused:
    not_found; conflict where it is decided otherwise, or is no longer open; bad_request for a pattern that the request
    itself does not have.
    """
    number = _number(approval)
    expire(tx)  # though no alarm has come yet
    waited = cast("list[tuple[int]]", [] if always is None else tx.conn.execute(OTHERS, (number,)).fetchall())
    decide(tx, number, "granted", USER, reason, always=always, everybody=everybody)
    states = {other: tx.conn.execute(ONE, (other,)).fetchone() for (other,) in waited}
    return tuple(approval_id(other) for other, row in states.items() if row is not None and row[1] == "granted")


OTHERS: Final = "SELECT id FROM approvals WHERE state = 'open' AND id <> ? ORDER BY id"


def deny(tx: Transaction, approval: str, *, reason: str = "") -> None:
    """A person does not agree. Raises Refused: not_found; conflict where it is decided otherwise."""
    decide(tx, _number(approval), "denied", USER, reason)


EXPIRED: Final = "SELECT id FROM approvals WHERE state = 'open' AND expires_ms <= ? ORDER BY expires_ms, id"


def expire(tx: Transaction) -> None:
    """Refuse what nobody decided in time."""
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
    """Decide a request once; the same decision again changes nothing. ``always``, ``everybody``: see approve.

    Raises Refused: not_found, conflict, bad_request.
    """
    name = approval_id(number)
    row = tx.conn.execute(REQUEST, (number,)).fetchone()
    if row is None:
        raise Refused("not_found", f"there is no request {name}", "awk pending lists what waits for a decision")
    agent, space, tool, given, state, decided_by, why = cast("tuple[str, str, str, bytes, str, str | None, str]", row)
    if state not in ("open", decision):
        if state == "expired":
            raise Refused("conflict", f"{name} is no longer open: {why or 'its time is over'}")
        raise Refused("conflict", f"{name} is {state} already{f' by {decided_by}' if decided_by else ''}")
    called = bytes(given).decode()
    if always is not None and not matches(always, called):
        text = f"the pattern is not that of {name}, whose input is {called[:200]}"
        raise Refused("bad_request", text, "it has to fit the whole input; * stands for any text")
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
    """Ask again about what a standing rule grants. Raises Refused (not_found)."""
    number = number_of(rule, "r") or 0
    row = tx.conn.execute(DELETE_RULE, (number,)).fetchone()
    if row is None:
        raise Refused("not_found", f"there is no standing rule {rule[:40]!r}", "awk pending --rules lists them")
    agent, tool = row
    data = {"id": rule_id(number), "tool": tool, "state": "taken back"}
    tx.emit("approval.rule", agent=None if agent is None else name_of(agent), data=data)


def _number(approval: str) -> int:
    number = number_of(approval, "a")
    if number is None:
        raise Refused("not_found", f"there is no request {approval[:40]!r}", "ids look like a3: awk pending lists them")
    return number
