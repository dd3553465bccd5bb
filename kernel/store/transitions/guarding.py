"""Questions to a guard's model: at the end of a run, in quiet conversations, about an agent's work, for calls.

A question is an instruction of the guard's own agent in its personal space. It has a budget,
retries and a journal like other work, but belongs to no run, so that no run's end waits for it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kernel.policy.guard import AUTO, EXTRACT, MOST_OPEN, MOST_SHOWN, NAME, Extracted, Purpose, guard_agent, shown
from kernel.policy.observing import OBSERVED, observe_question
from kernel.rule.draft import Author, Draft, GuardAsked
from kernel.store import memory, messages
from kernel.store.agents import AgentSpec, put_agent
from kernel.store.attempts import held
from kernel.store.decisions import MEMORY
from kernel.store.memory import GuardJob, call_of, job_of
from kernel.store.souls import SoulStanding
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close_cancelled
from kernel.store.workflows import memory_spaces
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.message import SYSTEM
from protocol.names import AgentKey, base_space, inline_key, is_below, is_personal, number_of, personal_space, place_of
from protocol.project import GuardSettings
from protocol.text import encode_json

RUN: Final = "SELECT definition, coalesce(vouched, '[]') FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1"
# Only agents that outlive the run: the memory of a workflow's inline agents ends with it.
MEMBERS: Final = """
SELECT m.name, m.agent FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent
WHERE m.space = ?1 AND a.origin <> 'inline'
UNION SELECT key, key FROM agents WHERE key = substr(?1, 4) AND ?1 GLOB 'dm:*' AND origin <> 'inline' ORDER BY 1
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


def _guard_of(tx: Transaction, space: str) -> tuple[GuardSettings | None, tuple[str, ...]]:
    """Return the guard of the newest run in ``space``, and what its start was trusted to do."""
    row = tx.conn.execute(RUN, (space,)).fetchone()
    return (None, ()) if row is None else (_guarded.decode(_bytes(row[0])).guard, _vouched.decode(_bytes(row[1])))


def ask_guard(tx: Transaction, space: str, project: GuardSettings | None = None) -> bool:
    """Ask the guard of ``space``, or of the ``project``, about the oldest new messages; return whether it was."""
    own, vouched = _guard_of(tx, space)
    settings = own or project
    if settings is None or settings.model is None or not settings.auto_store:
        return False
    agents = {str(name): AgentKey(str(key)) for name, key in tx.conn.execute(MEMBERS, (space,))}
    said = memory.unread(tx.conn, space=space, limit=MOST_SHOWN) if agents else ()
    if not said:
        return False
    text, classes = shown(said, messages.trust_of_messages(tx.conn, said))
    asked = f"{EXTRACT}\n\nThe agents of {place_of(space)} are {', '.join(agents)}. What was said:\n\n{text}"
    call = call_of("extract", space, said[len(classes) - 1].seq)
    question = GuardQuestion(purpose="extract", text=asked, call=call)
    return _ask(tx, space, settings, question, vouched, encode_json((classes, agents))) is not None


def ask_about_work(
    tx: Transaction, standing: SoulStanding, agent: AgentKey, numbers: str, settings: GuardSettings
) -> None:
    """Ask the project's guard about the newest instructions among ``numbers`` (JSON) of ``agent``, if they are enough.

    Work with another guard, in memory only, and in spaces that only their members see is left out.
    """
    work = memory.work_shown(tx.conn, numbers)
    hidden = memory_spaces(tx.conn, "")
    guards = {space: _guard_of(tx, space)[0] or settings for space in {one.space for one in work}}
    asked = {space for space, one in guards.items() if (one.model, one.provider) == (settings.model, settings.provider)}
    asked = {space for space in asked if not is_below(space) and base_space(space) not in hidden}
    work = tuple(one for one in work if one.space in asked)[-OBSERVED:]
    if len(work) == OBSERVED:
        text = observe_question(work, encode_json(standing.traits).decode())
        space = personal_space(agent)
        call = call_of("observe", space, number_of(work[-1].id, "i") or 0)
        evidence = encode_json(({one.id: one.trust for one in work}, {agent: agent}))
        _ask(tx, space, settings, GuardQuestion(purpose="observe", text=text, call=call), (), evidence)


def ask_for_call(tx: Transaction, settings: GuardSettings, question: GuardQuestion, *, author: Author) -> int | None:
    """Ask the guard of the author's space about a waiting call. Return the number of the guard job.

    A repeated call gets the same job. None: the guard cannot be asked. Raises Refused (stale_attempt).
    """
    space = held(tx.conn, author.instruction, author.epoch).space
    before = None if question.call is None else tx.conn.execute(ASKED, (question.call,)).fetchone()
    if before is not None:
        return int(before[0])
    return _ask(tx, space, settings, question, _guard_of(tx, space)[1], b"[{},{}]")


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
        payload = GuardAsked(agent=key, waited_for=question.purpose not in ("extract", "observe"))
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
# Without its key a question no longer covers its messages: they are asked about again.
REPEAT: Final = "UPDATE OR IGNORE guard_jobs SET call = ? || '/' || call WHERE id = ? AND call GLOB 'extract/*'"
REPEATS: Final = 3
# The failure of a guard needs no attention from a person.
DISMISS: Final = "UPDATE instructions SET dismissed = 1 WHERE id = ?"


def end_job(tx: Transaction, job: GuardJob) -> bool:
    """End a guard job, and cancel its open question; return False if it was ended before."""
    if job.state not in ENDED:
        close_cancelled(tx, job.instruction, job.epoch)
    if tx.conn.execute(SETTLE, ("done" if job.state == "done" else "failed", job.id)).fetchone() is None:
        return False
    if job.state != "done":
        tx.conn.executemany(REPEAT, [(number, job.id) for number in range(REPEATS)])
    tx.write(DISMISS, (job.instruction,))
    return True


def settle(tx: Transaction, job: GuardJob, found: Sequence[Extracted], project: GuardSettings | None = None) -> None:
    """End a guard job, once, and put extracted memories into trays, approved if the settings say so."""
    settings = _guard_of(tx, job.space)[0] or project or GuardSettings()
    for one in found if end_job(tx, job) else ():
        approved = one.kind in settings.auto_approve and one.trust in ("user", "agent")
        if MEMORY.count(tx.conn, one.agent) < MOST_OPEN:
            detail = {"kind": one.kind, "messages": one.messages, "trust": one.trust}
            name = MEMORY.propose(tx, one.agent, job.space, one.key, one.value, detail=detail)
            if approved:
                MEMORY.take(tx, name, AUTO)
            tx.emit("memory.proposed", agent=one.agent, data={"kind": one.kind, "state": "open"})


def give_up(tx: Transaction, number: int) -> None:
    """Settle a guard job, if it is open, without a result: its call no longer waits."""
    job = job_of(tx.conn, number)
    if job is not None and not job.settled:
        settle(tx, job, ())
