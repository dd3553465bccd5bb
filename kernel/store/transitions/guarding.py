"""Questions to a guard's model, asked in the commit that ends a run or for a waiting call.

A question is an instruction of the guard's own agent in its personal space. It has a budget,
retries and a journal like other work, but belongs to no run, so that no run's end waits for it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kernel.policy.guard import EXTRACT, MOST_OPEN, NAME, Extracted, Purpose, guard_agent, shown
from kernel.rule.draft import Author, Draft, GuardAsked
from kernel.store import messages
from kernel.store.agents import AgentSpec, put_agent
from kernel.store.attempts import held
from kernel.store.decisions import MEMORY
from kernel.store.memory import GuardJob, job_of
from kernel.store.messages import channel
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close_cancelled
from kernel.store.workflows import memory_spaces
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.message import SYSTEM
from protocol.names import AgentKey, base_space, inline_key, is_personal, number_of, personal_space, place_of
from protocol.project import GuardSettings
from protocol.text import encode_json

SHOWN_MESSAGES: Final = 200
RUN: Final = "SELECT definition, coalesce(vouched, '[]') FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1"
# Only agents that outlive the run: the memory of a workflow's inline agents ends with it.
MEMBERS: Final = """
SELECT m.name, m.agent FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent
WHERE m.space = ? AND a.origin <> 'inline' ORDER BY m.name
"""
ASK: Final = """
INSERT INTO guard_jobs (instruction, space, evidence, state, purpose, call) VALUES (?, ?, ?, 'open', ?, ?) RETURNING id
"""
ASKED: Final = "SELECT id FROM guard_jobs WHERE call = ?"


class GuardQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Question to a guard. ``call``: key of the agent's call that waits for it, if any."""

    purpose: Purpose
    text: str
    call: str | None = None


class _Guarded(msgspec.Struct, frozen=True):
    guard: GuardSettings | None = None


_guarded: Final = msgspec.json.Decoder(_Guarded)
_vouched: Final = msgspec.json.Decoder(tuple[str, ...])


def ask_guard(tx: Transaction, space: str) -> None:
    """Ask the guard of ``space`` what the agents should remember of the run that has ended.

    Does nothing without a guard that stores automatically, or if the guard cannot be asked.
    """
    row = tx.conn.execute(RUN, (space,)).fetchone()
    settings = None if row is None else _guarded.decode(_bytes(row[0])).guard
    if row is None or settings is None or settings.model is None or not settings.auto_store:
        return
    agents = {str(name): AgentKey(str(key)) for name, key in tx.conn.execute(MEMBERS, (space,))}
    said = channel(tx.conn, space, SHOWN_MESSAGES)
    text, classes = shown(said, messages.trust_of_messages(tx.conn, said))
    if not agents or not classes:
        return
    question = f"{EXTRACT}\n\nThe agents of {place_of(space)} are {', '.join(agents)}. What was said:\n\n{text}"
    vouched = _vouched.decode(_bytes(row[1]))
    _ask(tx, space, settings, GuardQuestion(purpose="extract", text=question), vouched, encode_json((classes, agents)))


def ask_for_call(tx: Transaction, settings: GuardSettings, question: GuardQuestion, *, author: Author) -> int | None:
    """Ask the guard of the author's space about a waiting call. Return the number of the guard job.

    A repeated call gets the same job. None: the guard cannot be asked. Raises Refused
    (stale_attempt).
    """
    space = held(tx.conn, author.instruction, author.epoch).space
    before = None if question.call is None else tx.conn.execute(ASKED, (question.call,)).fetchone()
    if before is not None:
        return int(before[0])
    row = tx.conn.execute(RUN, (space,)).fetchone()
    return _ask(tx, space, settings, question, () if row is None else _vouched.decode(_bytes(row[1])), b"[{},{}]")


def _ask(
    tx: Transaction,
    space: str,
    settings: GuardSettings,
    question: GuardQuestion,
    vouched: tuple[str, ...],
    evidence: bytes,
) -> int | None:
    if base_space(space) in memory_spaces(tx.conn, ""):
        return None  # the question would be stored in the guard's space
    home = personal_space(NAME)
    key = inline_key(NAME, home if is_personal(space) else place_of(space))
    told = len(tx.events)
    job: int | None = None
    tx.conn.execute("SAVEPOINT guard")
    try:
        definition = msgspec.json.encode(guard_agent(settings))
        put_agent(tx, AgentSpec(key=key, origin="inline", home_space=home, definition=definition))
        payload = GuardAsked(agent=key, waited_for=question.purpose != "extract")
        draft = Draft(kind="due", space=home, sender=SYSTEM, text=question.text, vouched=vouched, payload=payload)
        for instruction in append(tx, draft).instruction_ids:
            row = (number_of(instruction, "i"), space, evidence, question.purpose, question.call)
            job = int(tx.conn.execute(ASK, row).get)
    except Refused:
        tx.conn.execute("ROLLBACK TO guard")
        del tx.events[told:]
    tx.conn.execute("RELEASE guard")
    return job


def _bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]


SETTLE: Final = "UPDATE guard_jobs SET state = ? WHERE id = ? AND state = 'open' RETURNING id"
# The failure of a guard needs no attention from a person.
DISMISS: Final = "UPDATE instructions SET dismissed = 1 WHERE id = ?"


def settle(tx: Transaction, job: GuardJob, found: Sequence[Extracted]) -> None:
    """End a guard job, once: put extracted memories into trays, and cancel an open question."""
    if job.state not in ENDED:
        close_cancelled(tx, job.instruction, job.epoch)
    if tx.conn.execute(SETTLE, ("done" if job.state == "done" else "failed", job.id)).fetchone() is None:
        return
    tx.write(DISMISS, (job.instruction,))
    for one in found:
        if MEMORY.count(tx.conn, one.agent) < MOST_OPEN:
            detail = {"kind": one.kind, "messages": one.messages, "trust": one.trust}
            MEMORY.propose(tx, one.agent, job.space, one.key, one.value, detail=detail)
            tx.emit("memory.proposed", agent=one.agent, data={"kind": one.kind, "state": "open"})


def give_up(tx: Transaction, number: int) -> None:
    """Settle a guard job, if it is open, without a result: its call no longer waits."""
    job = job_of(tx.conn, number)
    if job is not None and not job.settled:
        settle(tx, job, ())
