"""What a new kernel does first: nothing that the last one had begun is lost, and nothing runs twice.

One transaction: a kernel that dies in it leaves everything as it was, for the next one to do the same (promises 4.7).
Run it only when no worker of the last kernel is left (every keeper's lock was taken).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from kernel.fault import fault_hook
from kernel.policy.boots import Deaths, one_more
from kernel.store.commits.boots import died, in_a_loop, took_over
from kernel.store.commits.close import close
from kernel.store.commits.park import Parking, park
from kernel.store.commits.reclock import Machine, reclock, skipped
from kernel.store.commits.reopen import reopen
from kernel.store.entries import of
from kernel.store.transaction import Transaction
from protocol.ipc import Entry
from protocol.names import InstructionId, instruction_id

FINAL_STOPS: Final = frozenset({"end_turn", "stop_sequence", "stop"})
"""Stop reasons after which a model has said all it wanted to say."""
POISONOUS: Final = "the kernel died three times while it was at work for this, which had not got any further"
_REQUEUED: Final = Parking(status="queued", outcome="kernel_restart", cause="kernel_restart")


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was open: put back into its lane; closed because its last reply was durable; or given up.

    ``safe_mode``: kernels have died one after the other without getting anything done, so this one does no work.
    """

    requeued: tuple[InstructionId, ...] = ()
    closed: tuple[InstructionId, ...] = ()
    given_up: tuple[InstructionId, ...] = ()
    safe_mode: bool = False


def recover(
    tx: Transaction,
    *,
    pid: int = 0,
    version: str = "",
    machine: Machine | None = None,
    in_flight: Collection[InstructionId] | None = None,
) -> Recovered:
    """Take over from a kernel that is gone. No attempt is charged for its death.

    It counts against those instructions that it was at work for itself (``in_flight``); None: nobody knows, so against
    all that were open.
    """
    skipped_ms = skipped(tx, machine)
    reclock(tx, machine)
    fault_hook("recover.reclocked")
    looping = in_a_loop(tx)
    left = _Left(tx, counts=died(tx), in_flight=in_flight)
    left.settle()
    fault_hook("recover.settled")
    reopen(tx)
    fault_hook("recover.reopened")
    safe_mode = looping and not left.given_up  # who is given up is what they died of: without it, try again
    working = (*left.requeued, *left.closed, *left.given_up) if left.counts else None
    requeued = len(left.requeued)
    took_over(
        tx,
        pid=pid,
        version=version,
        requeued=requeued,
        safe=safe_mode,
        machine=machine,
        skipped_ms=skipped_ms,
        working=working,
    )
    return Recovered(
        requeued=tuple(left.requeued),
        closed=tuple(left.closed),
        given_up=tuple(left.given_up),
        safe_mode=safe_mode,
    )


LIVE: Final = """
SELECT id, epoch, kernel_deaths, progress_mark,
  entries + (SELECT count(*) FROM effects AS e WHERE e.instruction = instructions.id)
FROM instructions INDEXED BY one_live WHERE state IN ('leased', 'running') ORDER BY id
"""

SET_DEATHS: Final = "UPDATE instructions SET kernel_deaths = ?, progress_mark = ? WHERE id = ?"


@dataclass
class _Left:
    """What the last kernel was working on, one by one. ``counts``: it died of itself."""

    tx: Transaction
    counts: bool
    in_flight: Collection[InstructionId] | None
    requeued: list[InstructionId] = field(default_factory=list)
    closed: list[InstructionId] = field(default_factory=list)
    given_up: list[InstructionId] = field(default_factory=list)

    def settle(self) -> None:
        rows = self.tx.conn.execute(LIVE).fetchall()
        for number, epoch, count, mark, progress in cast("list[tuple[int, int, int, int, int]]", rows):
            deaths = Deaths(count, mark)
            instruction = instruction_id(number)
            charged = self.counts and (self.in_flight is None or instruction in self.in_flight)
            if charged:
                deaths = one_more(deaths, progress)
                self.tx.conn.execute(SET_DEATHS, (deaths.count, deaths.mark, number))
            self._settle(instruction, epoch, poisonous=charged and deaths.poisonous)

    def _settle(self, instruction: InstructionId, epoch: int, *, poisonous: bool) -> None:
        tx = self.tx
        text = _final_text(_entries(tx, instruction))
        if text is not None:
            close(tx, instruction, epoch, status="done", text=text, outcome="kernel_restart")
            self.closed.append(instruction)
        elif poisonous:
            close(
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
            park(tx, instruction, epoch, _REQUEUED)
            self.requeued.append(instruction)


def _entries(tx: Transaction, instruction: InstructionId) -> tuple[Entry, ...]:
    """What is durable of it. What another version of this program wrote must not keep a kernel from starting."""
    try:
        return of(tx.conn, instruction)
    except msgspec.MsgspecError:
        return ()


def _final_text(entries: tuple[Entry, ...]) -> str | None:
    """The result, if the last entry is a reply that ends the work; else None."""
    if not entries:
        return None
    last = entries[-1]
    if last.kind != "reply" or last.calls or last.stop_reason not in FINAL_STOPS:
        return None
    return next((one.text for one in reversed(entries) if one.kind == "reply" and one.text), "")
