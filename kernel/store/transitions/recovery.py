"""Recovery: settle the work of the previous kernel, so that nothing is lost and nothing runs twice.

Recovery is one transaction. If the kernel dies in it, the state is unchanged and the next kernel
repeats it. Call it only when no worker of the previous kernel is left (every keeper's lock was
acquired). Starts are logged, so that crash loops are detected. Refused credentials and empty
accounts are tried again, because a new kernel may have another environment.

An upgrade replaces the program of a running kernel: only instructions whose attempts do not continue are requeued.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

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
from kernel.store.transitions.retention import end_lost_runs
from kernel.store.transitions.threads import answer
from protocol.ipc import Entry
from protocol.names import AgentKey, InstructionId, instruction_id

LAST: Final = "SELECT at_ms, stopped_ms IS NOT NULL, progress_seq FROM boots ORDER BY id DESC LIMIT ?"

PROGRESS: Final = """
SELECT 1 FROM events WHERE seq > ? AND type IN ('instruction.step', 'instruction.ended') LIMIT 1
"""


def died(tx: Transaction) -> bool:
    """Return whether the previous kernel ended without a request to stop."""
    row = tx.conn.execute(LAST, (1,)).fetchone()
    return row is not None and not row[1]


predecessor_died = Sql("SELECT stopped_ms IS NULL FROM boots ORDER BY id DESC LIMIT 1 OFFSET 1").scalar(bool, False)
"""Return whether the kernel before the running one ended without a request to stop."""


def in_a_loop(tx: Transaction) -> bool:
    """Return whether the last kernels died soon after each other, without any progress."""
    rows = cast("list[tuple[int, int, int]]", tx.conn.execute(LAST, (LOOP_BOOTS,)).fetchall())
    if not in_boot_loop([PastBoot(at, bool(clean)) for at, clean, _seq in rows], tx.now_ms):
        return False
    return tx.conn.execute(PROGRESS, (rows[-1][2],)).fetchone() is None


INSERT: Final = """
INSERT INTO boots (pid, version, at_ms, requeued, safe, machine, offset_ms, skipped_ms, term, progress_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT max(seq) FROM events), 0))
"""


next_term = Sql("SELECT coalesce(max(term), 0) + 1 FROM boots").scalar(int)
"""Return a term above all earlier ones. The caller must hold the project's lock."""


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
    """Record the start of this kernel and return its term.

    ``working``: instructions in progress when the previous kernel died, one of which may have
    killed it (fault PF24); None if it did not die. ``kept_by``: the service that started this
    kernel, and what the service observed of that death.
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
    """Record that this kernel stops, so that its end is not counted as a crash.

    ``by`` is "request" or the name of a signal. With ``wanted=False``, for an internal failure, the
    end counts as a crash.
    """
    tx.emit("kernel.stopping", data={"by": by})
    if wanted:
        tx.conn.execute(STOPPED, (tx.now_ms,))


def touch(tx: Transaction) -> None:
    """Test whether the disk accepts a write, without changing anything."""
    write_anew(tx.conn)


# The probing instruction was requeued or has ended: its probe would never have a result.
STOP_PROBES: Final = "UPDATE breakers SET state = 'open', probe = NULL WHERE state = 'half_open'"

WITHOUT_TIME: Final = """
SELECT key FROM breakers WHERE reason IN ('credentials', 'quota') AND open_until_ms = 0 ORDER BY key
"""

# Closing a breaker wakes its waiting work. These instructions have no open breaker to wake them.
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
    """Wake work that has no reason to wait any more. Work that a person paused stays paused."""
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
"""Stop reasons after which a model's reply is complete."""
POISONOUS: Final = "the kernel died three times while it ran this instruction, which made no progress"
_REQUEUED: Final = Requeue(status="queued", outcome="kernel_restart", cause="kernel_restart")


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a recovery. ``closed``: instructions whose final reply was durable.

    ``given_up``: dead-lettered ones. ``safe_mode``: this kernel starts no work, because the last
    kernels died without progress.
    """

    requeued: tuple[InstructionId, ...] = ()
    closed: tuple[InstructionId, ...] = ()
    given_up: tuple[InstructionId, ...] = ()
    safe_mode: bool = False
    died: bool = False
    """The previous kernel ended without a request to stop."""
    term: int = 0
    """Higher than the term of any earlier kernel of this project."""


def recover(
    tx: Transaction,
    *,
    pid: int = 0,
    version: str = "",
    machine: HostClock | None = None,
    in_flight: Collection[InstructionId] | None = None,
    kept_by: Mapping[str, str | None] | None = None,
) -> Recovered:
    """Settle the instructions of the previous kernel. Its death charges no attempt.

    The death counts against the instructions that were running (``in_flight``), or (None) against
    all live ones: three deaths dead-letter an instruction.
    """
    skipped_ms = skipped(tx, machine)
    correct_clock(tx, machine)
    fault_point("recover.reclocked")
    looping = in_a_loop(tx)
    fence(tx)
    end_lost_runs(tx)
    left = _Left(tx, counts=died(tx), in_flight=in_flight)
    left.settle()
    end_left_behind(tx)
    fault_point("recover.settled")
    reset_volatile(tx)
    fault_point("recover.reopened")
    safe_mode = looping and not left.given_up  # the dead-lettered work caused the deaths: try again without it
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
    """Lease nothing to agents that may still run on a node, until the node's lease has expired.

    In a copy of a log (kernel.store.snapshot), these are all agents that need a node or had one.
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
    """Settles the previous kernel's instructions. ``counts``: that kernel crashed."""

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
            # An entry that another version wrote may not be readable. That must not prevent a kernel from starting.
            entries: tuple[Entry, ...]
            try:
                entries = of(tx.conn, instruction)
            except msgspec.MsgspecError:
                entries = ()
            # The text is the result if the last entry is a reply that ends the work. Otherwise an attempt has to run:
            # changes in a working tree are committed before the log records the end (decision 11.9).
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
    """Requeue, uncharged, the live work that does not continue after an upgrade. Return its ids.

    Commit this before any lease, and before a node receives ``term``, the term of the new program.
    """
    end_lost_runs(tx)
    tx.conn.execute(SERVES, (term,))
    rows = cast("list[tuple[int, int]]", tx.conn.execute(STILL_LIVE).fetchall())
    left = [(found, epoch) for number, epoch in rows if (found := instruction_id(number)) not in going_on]
    for instruction, epoch in left:
        requeue(tx, instruction, epoch, _REQUEUED)
    end_left_behind(tx)
    return tuple(instruction for instruction, _ in left)


RENAME: Final = "UPDATE boots SET version = ?, pid = ? WHERE id = (SELECT max(id) FROM boots)"


def upgraded(tx: Transaction, *, pid: int, version: str, before: str, attempts: int, waited_seconds: float) -> None:
    """Record the upgrade from ``before``, and how long its ``attempts`` waited at most."""
    tx.conn.execute(RENAME, (version, pid))
    data = {"from": before, "to": version, "pid": pid, "attempts": attempts, "waited_seconds": waited_seconds}
    tx.emit("kernel.upgraded", data=data)


def upgrade_failed(tx: Transaction, *, pid: int, version: str, to: str, reason: str) -> None:
    """Record that the upgrade to ``to`` failed, and that the program of ``version`` continues."""
    tx.conn.execute(RENAME, (version, pid))
    tx.emit("kernel.upgrade_failed", data={"from": version, "to": to, "pid": pid, "reason": reason})
