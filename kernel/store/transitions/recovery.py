"""Recovery: a new kernel takes over, so that nothing the last one had begun is lost, and nothing runs twice.

One transaction: a kernel that dies in it leaves everything as it was, for the next one to do the same.
Run it only when no worker of the last kernel is left (every keeper's lock was taken). Starts are logged, so that
kernels that keep dying are noticed. What only the last kernel knew, or a new one may know better, is reset: a refused
credential or an empty account is tried once more, for whoever starts a kernel may have changed its environment.

An upgrade replaces the program of a kernel that goes on: only what does not go on with it is put back.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

import apsw
import msgspec

from kernel.fault_injection import fault_point
from kernel.policy.retry import LOOP_BOOTS, BootFailures, PastBoot, in_boot_loop, with_failure
from kernel.policy.scheduling import FENCE_SECONDS
from kernel.store import circuit_breakers, waits
from kernel.store.attempts import end_left_behind
from kernel.store.database import write_anew
from kernel.store.entries import of
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from kernel.store.transitions import close as transitions_close
from kernel.store.transitions.clock_correction import HostClock, correct_clock, skipped
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.threads import answer
from protocol.ipc import Entry
from protocol.names import AgentKey, InstructionId, instruction_id

LAST: Final = "SELECT at_ms, stopped_ms IS NOT NULL, progress_seq FROM boots ORDER BY id DESC LIMIT ?"

PROGRESS: Final = """
SELECT 1 FROM events WHERE seq > ? AND type IN ('instruction.step', 'instruction.ended') LIMIT 1
"""


def died(tx: Transaction) -> bool:
    """Return whether the kernel before us ended without being asked to."""
    row = tx.conn.execute(LAST, (1,)).fetchone()
    return row is not None and not row[1]


predecessor_died = Sql("SELECT stopped_ms IS NULL FROM boots ORDER BY id DESC LIMIT 1 OFFSET 1").scalar(bool, False)
"""Return whether the kernel before the one that runs ended without being asked to."""


def in_a_loop(tx: Transaction) -> bool:
    """Return whether the last kernels died one after the other and none got anything done."""
    rows = cast("list[tuple[int, int, int]]", tx.conn.execute(LAST, (LOOP_BOOTS,)).fetchall())
    if not in_boot_loop([PastBoot(at, bool(clean)) for at, clean, _seq in rows], tx.now_ms):
        return False
    return tx.conn.execute(PROGRESS, (rows[-1][2],)).fetchone() is None


INSERT: Final = """
INSERT INTO boots (pid, version, at_ms, requeued, safe, machine, offset_ms, skipped_ms, term, progress_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT max(seq) FROM events), 0))
"""

NEXT_TERM: Final = "SELECT coalesce(max(term), 0) + 1 FROM boots"


def next_term(conn: apsw.Connection) -> int:
    """The term of the kernel that takes over: higher than any before. Whoever has the project's lock is the only one to
    take it.
    """
    (term,) = cast("tuple[int]", conn.execute(NEXT_TERM).fetchone())
    return term


LAST_PID: Final = "SELECT pid FROM boots ORDER BY id DESC LIMIT 1"


def took_over(
    tx: Transaction,
    *,
    pid: int,
    version: str,
    requeued: int,
    safe: bool,
    machine: HostClock | None = None,
    skipped_ms: int = 0,
    working: Sequence[str] | None = None,
    kept_by: Mapping[str, str | None] | None = None,
) -> int:
    """Write down that this kernel runs, and return its term. What it has done so far counts for those before it.

    ``working`` is what the one before was at when it died, if it did: who killed a kernel is among them, or nobody
    of ours (fault PF24). ``kept_by`` is the service that started this one, and what it saw of that end.
    """
    term = next_term(tx.conn)
    data: dict[str, object] = {"pid": pid, "version": version, "requeued": requeued, "safe_mode": safe, "term": term}
    if working is not None:
        (last,) = cast("tuple[int]", tx.conn.execute(LAST_PID).fetchone())
        data["died"] = {"pid": last, "working": list(working), **(kept_by or {})}
    tx.emit("kernel.started", data=data)
    boot_id, offset_ms = (None, None) if machine is None else (machine.boot_id, machine.offset_ms)
    tx.conn.execute(INSERT, (pid, version, tx.now_ms, requeued, safe, boot_id, offset_ms, skipped_ms, term))
    return term


STOPPED: Final = """
UPDATE boots SET stopped_ms = ? WHERE id = (SELECT max(id) FROM boots) AND stopped_ms IS NULL
"""


def asked_to_stop(tx: Transaction, by: str = "request", *, wanted: bool = True) -> None:
    """However it ends now, it is no death: somebody wanted it to end. ``by``: a request, or the name of a signal.

    Where it ends because it cannot go on, nobody ``wanted`` that: then it is a death, after which more may follow.
    """
    tx.emit("kernel.stopping", data={"by": by})
    if wanted:
        tx.conn.execute(STOPPED, (tx.now_ms,))


def touch(tx: Transaction) -> None:
    """Write something and change nothing: whether the disk takes it is the answer."""
    write_anew(tx.conn)


# Whoever was trying is in its lane again, or has ended: nobody would ever report.
STOP_PROBES: Final = "UPDATE breakers SET state = 'open', probe = NULL WHERE state = 'half_open'"

WITHOUT_TIME: Final = """
SELECT key FROM breakers WHERE reason IN ('credentials', 'quota') AND open_until_ms = 0 ORDER BY key
"""

# Whom a breaker holds is let go with it; these have lost theirs, and nobody would ever come back to them.
STRANDED: Final = """
SELECT id FROM instructions INDEXED BY instructions_waiting
WHERE state = 'waiting' AND waits_for IN ('provider', 'credentials', 'quota')
  AND NOT EXISTS (SELECT 1 FROM breakers AS b WHERE b.key = instructions.wait_key AND b.state <> 'closed')
ORDER BY id
"""
STRANDED_AGENTS: Final = """
SELECT key FROM agents WHERE hold_key IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM breakers AS b WHERE b.key = agents.hold_key AND b.state <> 'closed')
"""

ANSWERED: Final = """
SELECT i.id FROM instructions AS i INDEXED BY instructions_waiting
CROSS JOIN instructions AS asked ON asked.id = CAST(substr(i.wait_key, 2) AS INTEGER)
WHERE i.state = 'waiting' AND i.waits_for = 'answer'
  AND asked.state IN ('done', 'incomplete', 'failed', 'dead', 'cancelled')
ORDER BY i.id
"""


def reset_volatile(tx: Transaction) -> None:
    """Let go on what need not wait any more; what a person has paused stays so."""
    tx.conn.execute(STOP_PROBES)
    for (key,) in tx.conn.execute(WITHOUT_TIME).fetchall():
        circuit_breakers.close(tx, str(key))
    waits.wake(tx, _numbers(tx, STRANDED))
    for number in _numbers(tx, ANSWERED):
        answer(tx, number)
    for (agent,) in tx.conn.execute(STRANDED_AGENTS).fetchall():
        waits.release(tx, AgentKey(str(agent)))
    waits.wait_where_paused(tx)


def _numbers(tx: Transaction, query: str) -> list[int]:
    return [number for (number,) in cast("list[tuple[int]]", tx.conn.execute(query).fetchall())]


FINAL_STOPS: Final = frozenset({"end_turn", "stop_sequence", "stop"})
"""Stop reasons after which a model has said all it wanted to say."""
POISONOUS: Final = "the kernel died three times while it was at work for this, which had not got any further"
_REQUEUED: Final = Requeue(status="queued", outcome="kernel_restart", cause="kernel_restart")


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions that were open: put back into their lanes; closed because its last reply was durable; or given up.

    ``safe_mode``: kernels have died one after the other without getting anything done, so this one does no work.
    """

    requeued: tuple[InstructionId, ...] = ()
    closed: tuple[InstructionId, ...] = ()
    given_up: tuple[InstructionId, ...] = ()
    safe_mode: bool = False
    died: bool = False
    """The kernel before had not been asked to end."""
    term: int = 0
    """Higher than that of any kernel of this project before."""


def recover(
    tx: Transaction,
    *,
    pid: int = 0,
    version: str = "",
    machine: HostClock | None = None,
    in_flight: Collection[InstructionId] | None = None,
    kept_by: Mapping[str, str | None] | None = None,
) -> Recovered:
    """Take over from a kernel that is gone. No attempt is charged for its death.

    It counts against those instructions that it was at work for itself (``in_flight``); None: nobody knows, so against
    all that were open.
    """
    skipped_ms = skipped(tx, machine)
    correct_clock(tx, machine)
    fault_point("recover.reclocked")
    looping = in_a_loop(tx)
    fence(tx)
    left = _Left(tx, counts=died(tx), in_flight=in_flight)
    left.settle()
    end_left_behind(tx)
    fault_point("recover.settled")
    reset_volatile(tx)
    fault_point("recover.reopened")
    safe_mode = looping and not left.given_up  # who is given up is what they died of: without it, try again
    working = (*left.requeued, *left.closed, *left.given_up) if left.counts else None
    requeued = len(left.requeued)
    term = took_over(
        tx,
        pid=pid,
        version=version,
        requeued=requeued,
        safe=safe_mode,
        machine=machine,
        skipped_ms=skipped_ms,
        working=working,
        kept_by=kept_by,
    )
    return Recovered(
        died=left.counts,
        requeued=tuple(left.requeued),
        closed=tuple(left.closed),
        given_up=tuple(left.given_up),
        safe_mode=safe_mode,
        term=term,
    )


FENCED_MS: Final = round(FENCE_SECONDS * 1000)
FENCE: Final = """
UPDATE agents SET fenced_until_ms = :until
WHERE fenced_until_ms < 0 OR key IN (SELECT i.agent FROM attempts AS a INDEXED BY attempts_open
  CROSS JOIN instructions AS i ON i.id = a.instruction WHERE a.ended_ms IS NULL AND a.node <> '')
"""


def fence(tx: Transaction) -> None:
    """Lease nothing of the agents that may be at work on a node until its lease is certainly over, whoever asks for it.

    Where the log is a copy (kernel.store.snapshot), that is all that ask for a node, or had one.
    """
    tx.conn.execute(FENCE, {"until": tx.now_ms + FENCED_MS})


LIVE: Final = """
SELECT id, epoch, kernel_deaths, progress_mark,
  entries + (SELECT count(*) FROM effects AS e WHERE e.instruction = instructions.id),
  EXISTS (SELECT 1 FROM worktrees AS t
    WHERE t.run = instructions.run AND t.agent IN (instructions.agent, '') AND t.state = 'made'),
  EXISTS (SELECT 1 FROM attempts AS a
    WHERE a.instruction = instructions.id AND a.epoch = instructions.epoch AND a.node <> '')
FROM instructions INDEXED BY one_live WHERE state IN ('leased', 'running') ORDER BY id
"""

SET_DEATHS: Final = "UPDATE instructions SET kernel_deaths = ?, progress_mark = ? WHERE id = ?"


class _Left(msgspec.Struct):
    """Settles the instructions that the last kernel was working on, one by one. ``counts``: it died of itself."""

    tx: Transaction
    counts: bool
    in_flight: Collection[InstructionId] | None
    requeued: list[InstructionId] = msgspec.field(default_factory=list)
    closed: list[InstructionId] = msgspec.field(default_factory=list)
    given_up: list[InstructionId] = msgspec.field(default_factory=list)

    def settle(self) -> None:
        rows = self.tx.conn.execute(LIVE).fetchall()
        for number, epoch, count, mark, progress, in_tree, away in cast("list[tuple[int, ...]]", rows):
            deaths = BootFailures(count, mark)
            instruction = instruction_id(number)
            charged = self.counts and (self.in_flight is None or instruction in self.in_flight)
            if charged:
                deaths = with_failure(deaths, progress)
                self.tx.conn.execute(SET_DEATHS, (deaths.count, deaths.mark, number))
            poisonous = charged and deaths.poisonous
            tx = self.tx
            # What is durable of it. What another version of this program wrote must not keep a kernel from starting.
            entries: tuple[Entry, ...]
            try:
                entries = of(tx.conn, instruction)
            except msgspec.MsgspecError:
                entries = ()
            # The result, if the last entry is a reply that ends the work; else None. What was done in a working tree is
            # committed before the log knows the end: an attempt with nothing left to ask does both (decision 11.9).
            text: str | None
            if not entries or in_tree or away:
                text = None
            else:
                last = entries[-1]
                if last.kind != "reply" or last.calls or last.stop_reason not in FINAL_STOPS:
                    text = None
                else:
                    text = next((one.text for one in reversed(entries) if one.kind == "reply" and one.text), "")
            if text is not None:
                transitions_close.close(tx, instruction, epoch, status="done", text=text, outcome="kernel_restart")
                self.closed.append(instruction)
            elif poisonous:
                transitions_close.close(
                    tx,
                    instruction,
                    epoch,
                    status="dead",
                    text=POISONOUS,
                    cause="suspect_kernel_crash",
                    outcome="kernel_restart",
                )
                self.given_up.append(instruction)
            else:
                not_before_ms = tx.now_ms + FENCED_MS if away else 0
                requeue(tx, instruction, epoch, msgspec.structs.replace(_REQUEUED, not_before_ms=not_before_ms))
                self.requeued.append(instruction)


STILL_LIVE: Final = """
SELECT id, epoch FROM instructions INDEXED BY one_live WHERE state IN ('leased', 'running') ORDER BY id
"""
SERVES: Final = "UPDATE boots SET term = ? WHERE id = (SELECT max(id) FROM boots)"


def settle(tx: Transaction, going_on: Collection[InstructionId], term: int) -> tuple[InstructionId, ...]:
    """Put back, uncharged, what was live when the program was replaced and does not go on: it was just being ended.

    To be committed before anything is leased, and before any node hears of ``term``, which is this program's. Returns
    what was put back.
    """
    tx.conn.execute(SERVES, (term,))
    rows = cast("list[tuple[int, int]]", tx.conn.execute(STILL_LIVE).fetchall())
    left = [(found, epoch) for number, epoch in rows if (found := instruction_id(number)) not in going_on]
    for instruction, epoch in left:
        requeue(tx, instruction, epoch, _REQUEUED)
    end_left_behind(tx)
    return tuple(instruction for instruction, _ in left)


RENAME: Final = "UPDATE boots SET version = ?, pid = ? WHERE id = (SELECT max(id) FROM boots)"


def upgraded(tx: Transaction, *, pid: int, version: str, before: str, attempts: int, waited_seconds: float) -> None:
    """Write down that the program of ``version`` goes on, with so many attempts that waited so long at most."""
    tx.conn.execute(RENAME, (version, pid))
    data = {"from": before, "to": version, "pid": pid, "attempts": attempts, "waited_seconds": waited_seconds}
    tx.emit("kernel.upgraded", data=data)


def upgrade_failed(tx: Transaction, *, pid: int, version: str, to: str, reason: str) -> None:
    """Write down that the program of ``version`` goes on, for ``reason``, and not ``to``."""
    tx.conn.execute(RENAME, (version, pid))
    tx.emit("kernel.upgrade_failed", data={"from": version, "to": to, "pid": pid, "reason": reason})
