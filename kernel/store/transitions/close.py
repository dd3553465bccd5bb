"""End an instruction: its attempt, its deliveries, its cost and the message that reports it, in one transaction.

The attempt of a completed instruction ends in a later transaction, so that the reply is available at once. An
instruction is closed by its attempt, answered or cancelled by a person, ended at a limit, or ended with an ephemeral
agent when the kernel stops. Cost that a worker reports after a cancellation is still booked.

A space below a run's is closed when the run has ended, or when no work in the space and no work of its opener is open.
The same commit cancels its votes and tasks. If the opener continues with other work, it is woken with the last message.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

import msgspec

from kernel.policy.spaces import is_over
from kernel.rule.draft import Draft, Fact, InstructionOutcome, Wakes
from kernel.store import rows, spaces, trust, waits
from kernel.store.agents import charge_crash, dismiss_agent
from kernel.store.approvals import drop_requests
from kernel.store.attempts import AttemptEnding, book_reply, end_attempt, forget_quotas, stale
from kernel.store.circuit_breakers import ProviderFailure, record_failure, release_probe
from kernel.store.entries import store_body
from kernel.store.instructions import find
from kernel.store.rows import amounts_of, delivery_sql, instruction_sql
from kernel.store.spaces import Subspace
from kernel.store.tasks import TaskChange, by_number, make_step
from kernel.store.transaction import Transaction
from kernel.store.transitions import tasks
from kernel.store.transitions.apply_effects import apply_fact
from kernel.store.transitions.journal import INSERT_ENTRY
from kernel.store.transitions.limits import spend
from kernel.store.transitions.threads import answer
from kernel.store.transitions.voting import cancel_open
from protocol.agent_memory import least
from protocol.errors import CLASS_OF_CAUSE, Cause, Refused
from protocol.instruction import ENDED, Usage
from protocol.ipc import Entry
from protocol.message import SYSTEM, TEXT_LIMIT_BYTES, TOO_LARGE_HINT, MessageKind
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId, group_of, instruction_id, number_of
from protocol.text import one_line, quoted

IncompleteCause = Literal["budget", "limit", "total_timeout"]
EndStatus = Literal["done", "incomplete", "failed", "dead", "cancelled"]
_NO_USAGE: Final = Usage()


class _EndKind(msgspec.Struct, frozen=True):
    kind: MessageKind
    delivery: Literal["acked", "dead"]


ENDS: Final[Mapping[EndStatus, _EndKind]] = {
    "done": _EndKind("done", "acked"),
    "incomplete": _EndKind("done", "acked"),
    "failed": _EndKind("failed", "dead"),
    "dead": _EndKind("failed", "dead"),
    "cancelled": _EndKind("failed", "dead"),
}
"""Message and delivery state for each kind of end."""


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """Result of closing: number of the end's message, and instructions that the message created."""

    seq: int
    instruction_ids: tuple[InstructionId, ...] = ()


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """End of an instruction. ``usage`` is the usage that its entries have not booked yet."""

    status: EndStatus
    text: str = ""
    usage: Usage = _NO_USAGE
    cause: Cause | None = None
    crash_jitter: float | None = None
    """Set if the worker exited unexpectedly: uniform in [0, 1)."""
    failure: ProviderFailure | None = None
    """Set if the provider failed."""


def close(
    tx: Transaction,
    instruction: str,
    epoch: int,
    *,
    status: EndStatus,
    text: str = "",
    usage: Usage = _NO_USAGE,
    cause: Cause | None = None,
    outcome: str | None = None,
    exit: str | None = None,
    stderr_tail: str | None = None,
    crash_jitter: float | None = None,
    failure: ProviderFailure | None = None,
) -> Closed:
    """End the instruction as its attempt ``epoch`` reports. Raises Refused (stale_attempt)."""
    number = number_of(instruction, "i")
    conclusion = Closing(status=status, text=text, usage=usage, cause=cause, crash_jitter=crash_jitter, failure=failure)
    ending = AttemptEnding(outcome or status, exit, stderr_tail)
    closed = None if number is None else _conclude(tx, number, epoch, conclusion, ending)
    if closed is None:
        raise stale(instruction, epoch)
    return closed


def reply(
    tx: Transaction,
    instruction: str,
    epoch: int,
    text: str,
    write_last: Callable[[Transaction, str, int], object] | None,
) -> Closed:
    """End the instruction as done. ``write_last`` (None: stored already) stores its last entry.

    Its attempt ends when the worker exits (attempts.leave). Raises Refused (stale_attempt; conflict).
    """
    if write_last is not None:
        write_last(tx, instruction, epoch)
    number = number_of(instruction, "i")
    closed = None if number is None else _conclude(tx, number, epoch, Closing(status="done", text=text), None)
    if closed is None:
        raise stale(instruction, epoch)
    return closed


def close_cancelled(tx: Transaction, number: int, epoch: int) -> Closed | None:
    """Cancel an open instruction and its attempt, if any. Return None if it changed meanwhile."""
    conclusion = Closing(status="cancelled", cause="cancelled")
    return _conclude(tx, number, epoch, conclusion, AttemptEnding("cancelled"), step="cancel")


def close_incomplete(tx: Transaction, number: int, epoch: int, cause: IncompleteCause) -> Closed | None:
    """End an open instruction as incomplete; it can be continued. Return None if it changed."""
    conclusion = Closing(status="incomplete", cause=cause)
    return _conclude(tx, number, epoch, conclusion, AttemptEnding(cause), step="cancel")


WAITS_FOR_PERSON: Final = "SELECT 1 FROM instructions WHERE id = ? AND state = 'waiting' AND waits_for = 'person'"


def answer_for(tx: Transaction, instruction: str, text: str, name: str | None = None) -> Closed:
    """End an instruction of a human agent as done, with the reply ``text``.

    ``name``: human agent that must be asked (None: any). Raises Refused: too_large; not_found;
    conflict if the instruction waits for no person, was answered, or belongs to another agent.
    """
    if len(text.encode("utf-8", "replace")) > TEXT_LIMIT_BYTES:
        raise Refused("too_large", f"answer too large: the limit is {TEXT_LIMIT_BYTES} bytes", TOO_LARGE_HINT)
    found = find(tx.conn, instruction)
    see = f"see it: awk show {instruction}"
    if name is not None and name != found.name:
        raise Refused("conflict", f"{instruction} belongs to agent {found.name}, not to {name[:60]}", see)
    if found.state in ENDED:
        why = f" ({found.cause})" if found.cause and found.cause != found.state else ""
        raise Refused("conflict", f"{instruction} has ended: {found.state}{why}", see)
    if tx.conn.execute(WAITS_FOR_PERSON, (found.number,)).fetchone() is None:
        raise Refused("conflict", f"{instruction} of {found.name} does not wait for a person's answer", see)
    conclusion = Closing(status="done", text=text)
    closed = _conclude(tx, found.number, found.epoch, conclusion, AttemptEnding("done"), step="answer")
    assert closed is not None, "it waits in this transaction"
    return closed


END: Final = instruction_sql("""
UPDATE instructions SET state = :status, result_text = :text, cause = :cause, error_class = :class, ended_ms = :now,
  {no_wait}, {add}
WHERE id = :id AND epoch = :epoch
  -- an attempt ends the work it holds, a person or a limit any open work, an answer the work that waits for it
  AND CASE :step WHEN 'done' THEN state {before done} WHEN 'answer' THEN state {before answer}
    ELSE state {before cancel} END
RETURNING agent, name, space, run, hops, asked_by, attempts + crashes AS tried,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
""")

END_DELIVERY: Final = delivery_sql("""
UPDATE deliveries SET state = ? WHERE instruction = ? AND state {before ack}
""")

BOOK: Final = instruction_sql("""
UPDATE agents SET {add}, last_exit = coalesce(:exit, last_exit), last_event_ms = :now, stepped = stepped OR :worked
WHERE key = :agent
""")


class _Ended(msgspec.Struct, frozen=True):
    agent: AgentKey
    name: AgentName
    space: SpaceId
    run: int | None
    hops: int
    asked_by: int | None
    tried: int
    usage: Usage


def _conclude(
    tx: Transaction,
    number: int,
    epoch: int,
    conclusion: Closing,
    ending: AttemptEnding | None,
    *,
    step: Literal["done", "answer", "cancel"] = "done",
) -> Closed | None:
    error_class = None if conclusion.cause is None else CLASS_OF_CAUSE[conclusion.cause]
    values = {
        "id": number,
        "epoch": epoch,
        "status": conclusion.status,
        "text": conclusion.text,
        "cause": conclusion.cause,
        "class": error_class,
        "now": tx.now_ms,
        "step": step,
        **amounts_of(conclusion.usage),
    }
    row = rows.one(tx.conn.execute(END, values), END, _Ended)
    if row is None:
        return None
    agent, name, space = row.agent, row.name, row.space
    forget_quotas(tx, number)
    total = row.usage
    spend(tx, agent=agent, run=row.run, usage=conclusion.usage, instruction=number)
    end = ENDS[conclusion.status]
    tx.conn.execute(END_DELIVERY, (end.delivery, number))
    if ending is None:
        book_reply(tx, number, epoch, agent)
    else:
        end_attempt(tx, number, epoch, name, space, ending)
    release_probe(tx, number)
    drop_requests(tx, number, conclusion.status)
    worked = conclusion.status in ("done", "incomplete")
    left = None if ending is None else ending.exit
    tx.conn.execute(BOOK, {"agent": agent, "exit": left, "now": tx.now_ms, "worked": worked, **amounts_of(total)})
    if conclusion.crash_jitter is not None:
        charge_crash(tx, agent, conclusion.crash_jitter)
    if conclusion.failure is not None:
        breaker = record_failure(tx, conclusion.failure)
        if breaker.state != "closed":
            waits.hold(tx, agent, breaker.key, breaker.reason, breaker.open_until_ms)
    data = {
        "status": conclusion.status,
        "class": error_class,
        "cause": conclusion.cause,
        "text": conclusion.text,
        "usage": msgspec.to_builtins(total),
        "attempts": row.tried,
    }
    outcome = InstructionOutcome(
        instruction=instruction_id(number),
        status=conclusion.status,
        text=conclusion.text,
        cause=conclusion.cause,
        error_class=error_class,
    )
    fact = Fact(
        Draft(kind=end.kind, space=space, sender=name, payload=outcome), hops=row.hops + 1, cause=number, speaker=agent
    )
    recorder = apply_fact(tx, fact)
    tasks.instruction_over(tx, number, conclusion.status)
    if row.asked_by is not None:
        answer(tx, row.asked_by)
    close_what_is_over(tx, number, space, row.hops + 1)
    if group_of(agent) is not None:
        dismiss_agent(tx, agent)
    # Last: readers of this event must find the instruction's last message.
    tx.emit("instruction.ended", space=space, agent=name, instruction=number, data=data)
    return Closed(seq=recorder.first_seq, instruction_ids=tuple(recorder.instructions))


def cancel(tx: Transaction, instruction: str) -> None:
    """Cancel an open instruction and stop its worker. Raises Refused: not_found, conflict."""
    found = find(tx.conn, instruction)
    if close_cancelled(tx, found.number, found.epoch) is None:
        why = f" ({found.cause})" if found.cause and found.cause != found.state else ""
        raise Refused("conflict", f"{instruction} has ended: {found.state}{why}", f"see it: awk show {instruction}")


OPEN: Final = """
SELECT i.id, i.epoch FROM instructions AS i CROSS JOIN agents AS a ON a.key = i.agent
WHERE a.origin = 'ephemeral' AND i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY i.id
"""
DELETE: Final = "DELETE FROM agents WHERE origin = 'ephemeral' RETURNING key"


def end_ephemeral(tx: Transaction) -> tuple[str, ...]:
    """Cancel the open work of ephemeral agents and delete them. Return their names."""
    for number, epoch in cast("list[tuple[int, int]]", tx.conn.execute(OPEN).fetchall()):
        close_cancelled(tx, number, epoch)
    names = tuple(str(key) for (key,) in tx.conn.execute(DELETE).fetchall())
    for name in names:
        tx.emit("agent.changed", agent=name, data={"state": "deleted", "reason": "the kernel was stopped"})
    return names


_encode: Final = msgspec.json.Encoder().encode

# Only for the stopped attempt: a newer attempt has another epoch.
ADVANCE: Final = instruction_sql("""
UPDATE instructions SET entries = entries + 1, {add}
WHERE id = :id AND epoch = :epoch AND entries = :k AND state = 'cancelled'
RETURNING agent, run
""")


def book_late(tx: Transaction, instruction: str, epoch: int, entry: Entry) -> None:
    """Store and book an entry of a cancelled instruction. Raises Refused (stale_attempt)."""
    number = number_of(instruction, "i")
    assert entry.usage is not None, "there is something to book"
    values = {"id": number, "epoch": epoch, "k": entry.k, **amounts_of(entry.usage)}
    row = tx.conn.execute(ADVANCE, values).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    agent, run = row
    body = store_body(tx, _encode(entry), number)
    tx.conn.execute(INSERT_ENTRY, (number, entry.k, epoch, entry.kind, *body, tx.now_ms))
    spend(tx, agent=agent, run=run, usage=entry.usage, instruction=number)
    tx.conn.execute(BOOK, {"agent": agent, "exit": None, "now": tx.now_ms, "worked": False, **amounts_of(entry.usage)})


SPEND: Final = instruction_sql("""
UPDATE instructions SET {add} WHERE id = :id AND epoch = :epoch AND state IN ('running', 'leased', 'cancelled')
RETURNING agent, run, state
""")


def book_usage(tx: Transaction, instruction: str, epoch: int, usage: Usage) -> None:
    """Book usage of an attempt that belongs to no entry, also after a cancellation. Raises Refused (stale_attempt)."""
    number = number_of(instruction, "i")
    row = tx.conn.execute(SPEND, {"id": number, "epoch": epoch, **amounts_of(usage)}).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    agent, run, state = row
    spend(tx, agent=agent, run=run, usage=usage, instruction=number)
    if state == "cancelled":  # otherwise the agent's total is booked at the end
        tx.conn.execute(BOOK, {"agent": agent, "exit": None, "now": tx.now_ms, "worked": False, **amounts_of(usage)})


LAST_CHARACTERS: Final = 4000
"""Limit of the last message that the opener receives."""


def close_what_is_over(tx: Transaction, instruction: int, space: str, hops: int) -> None:
    """Close the spaces in which no work is left after the end of ``instruction``."""
    for row in spaces.affected_by(tx.conn, instruction=instruction, space=space):
        at_work = spaces.opener_at_work(tx.conn, row.instruction)
        if not is_over(opener_at_work=at_work, work_open=spaces.work_open(tx.conn, row.space)):
            continue
        close_space(tx, row, "all work in it has ended")
        if row.instruction != instruction and row.opener_key:
            _wake_opener(tx, row, hops)


def close_space(tx: Transaction, row: Subspace, why: str) -> None:
    """Close a space with its votes and tasks; wake no agent. The caller ends its instructions."""
    reason = f"the space {row.name} is closed"
    cancel_open(tx, row.space, reason)
    for number in cast("list[tuple[int]]", tx.conn.execute(UNFINISHED, (row.space,)).fetchall()):
        make_step(tx, by_number(tx.conn, number[0]), TaskChange(step="cancel", by=SYSTEM, reason=reason))
    text = f"[SPACE] {row.name} is closed: {why}"
    apply_fact(tx, Fact(Draft(kind="system", space=row.space, sender=SYSTEM, text=text)))
    spaces.close(tx, row.number)
    data = {"state": "closed", "members": spaces.members(tx.conn, row.space)}
    tx.emit("space.changed", space=row.space, agent=row.opener, data=data)


UNFINISHED: Final = "SELECT id FROM tasks WHERE space = ? AND state IN ('open', 'ready', 'claimed') ORDER BY n DESC"


def _wake_opener(tx: Transaction, row: Subspace, hops: int) -> None:
    """Wake the opener by a message to its inbox only: other members may not know the space."""
    last = spaces.last_words(tx.conn, row.space)
    text = f"[SPACE] {row.name}, which you opened, is closed: all work in it has ended."
    if last is not None:
        sender, said = last
        lines = said[:LAST_CHARACTERS].splitlines() + (["[cut]"] if len(said) > LAST_CHARACTERS else [])
        class_ = least(["agent", trust.in_space(tx.conn, row.space)])
        text = f"{text} Last message there, from @{one_line(sender)} ({class_}):\n\n{quoted(chr(10).join(lines))}"
    payload = Wakes(agent=row.opener_key, name=row.opener)
    apply_fact(tx, Fact(Draft(kind="due", space=row.base, sender=SYSTEM, text=text, payload=payload), hops=hops))
