"""The one writer: a thread that owns the writing connection, and group commit.

Callers hand in jobs and get an answer only after COMMIT. Jobs that wait together share one transaction and one
fsync. One that fails harms no other. Most of those are refused before they change a row, with nothing to undo; else all
are run anew, each in a savepoint of its own, for nearly always none fails, and savepoints cost. So a job may run twice:
it changes nothing but rows. The writer knows no more of it.
"""

import logging
import queue
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from math import inf
from time import monotonic
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import apsw
import msgspec
import outcome
import trio
from msgspec import UNSET

from kernel.fault_injection import fault_point
from kernel.policy.metrics import Durations
from kernel.rule.evaluate import CORE_TABLE, Table
from kernel.store.database import Database, Reader
from kernel.store.log_tap import LogTap
from kernel.store.schema import StorageFailed
from kernel.store.transaction import Transaction
from kernel.store.transitions.recovery import touch
from protocol.errors import Refused
from protocol.message import Event

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

GROUP_LIMIT: Final = 512
ADMISSION_SECONDS: Final = 5.0
SOON_SECONDS: Final = 0.02
"""A job that may wait is committed with the next one, or by itself after so long."""
PLACE_SECONDS: Final = 2.0
"""Between two looks whether the database is still where it was, where nothing is written."""
DISK_FAILURES: Final = (
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.NoMemError,
)
"""After these nothing that is written can be trusted to last: an fsync must not be tried twice."""
STORAGE_FULL: Final = Refused(
    "storage_full", "the disk is full: nothing was written", "free some space; running work goes on by itself"
)
BUSY: Final = Refused("busy", "the kernel has more to write than it can: nothing was written", "try again")
LOCKED: Final = Refused("busy", "another program has locked the database: nothing was written", "end it, or try again")
STOPPING: Final = Refused("stopping", "the kernel is stopping: nothing was written")


class _Job(msgspec.Struct, eq=False):
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    task: trio.lowlevel.Task | None
    """Who waits; None once nobody does."""
    soon: bool = False
    """It may wait for another one, to share its commit."""
    result: Any = UNSET
    failure: outcome.Error | None = None

    def abandon(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        """Nobody waits any more; it is committed all the same."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class _JobFailed(Exception):
    """A job raised: its answer is known, what it wrote is not undone yet."""


class CommitWriter(Protocol):
    """The one writer, as handlers use it: Writer says what each raises."""

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``job(transaction, ...)``; return what it returned once it is durable."""
        ...

    async def trouble(self) -> Refused | None:
        """Return why nothing can be written now."""
        ...


class Writer:
    """Commits jobs. ``publish`` gets the events of a group on the Trio thread, after COMMIT, before any caller."""

    def __init__(
        self,
        *,
        database: Database,
        clock_ms: Callable[[], int],
        publish: Callable[[Sequence[Event]], None],
        rules: Table = CORE_TABLE,
        capacity: int = 1024,
    ) -> None:
        self._rules = rules
        self._conn = database.writer()
        self._misplaced = database.misplaced
        self._has_room = database.has_room
        self._clock_ms = clock_ms
        self._publish = publish
        self._room = capacity
        """How many more jobs may be handed in; who finds none waits in ``_full``, and is given the next."""
        self._full = trio.lowlevel.ParkingLot()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._later: deque[_Job] = deque()
        """What may wait, for the thread to take along: to wake it for that costs as much as to do it."""
        self._dozes = True
        """The thread waits for ``_jobs`` only. Else it looks after ``_later`` within SOON_SECONDS."""
        self._refusal: Exception | None = STOPPING
        self._token: trio.lowlevel.TrioToken | None = None
        self._trouble: Refused | None = None
        """Why the last commit failed, where it did and another may not."""
        self.soon_seconds = SOON_SECONDS
        self.tap: LogTap | None = None
        """Who copies what is committed, if somebody does."""
        self.commits = Durations()
        """From the begin of each transaction until it is durable."""
        self._owes_truncation = self._owes_rewrite = False
        """Something was removed whose bytes are still in the write-ahead log, or in the file."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled or closed. Raises StorageFailed when the disk does.

        Cancellation: no new job is taken, those handed in are committed and answered, then the WAL is checkpointed.
        """
        self._token = trio.lowlevel.current_trio_token()
        self._refusal = None
        failure: StorageFailed | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._close_when_cancelled)
            task_status.started()
            with trio.CancelScope(shield=True):
                failure = await trio.to_thread.run_sync(self._work, limiter=trio.CapacityLimiter(1))
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Take no more jobs; ``run`` returns once those handed in are answered."""
        if self._refusal is None:
            self._refusal = STOPPING
            self._jobs.put(None)

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``job(transaction, ...)`` in the writer's thread; return what it returned once it is durable.

        Raises what the job raised, Refused (busy, storage_full, stopping) or StorageFailed; then nothing of the
        job was kept. Cancellation: a job that was handed in is committed all the same.
        """
        return cast("T", await self._hand_in(_Job(job, args, kwargs, trio.lowlevel.current_task())))

    async def commit_soon(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same, for what nobody waits for: it shares the commit of what is handed in within SOON_SECONDS."""
        return cast("T", await self._hand_in(_Job(job, args, kwargs, trio.lowlevel.current_task(), soon=True)))

    async def _hand_in(self, job: _Job) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._room:
            self._room -= 1
        else:
            with trio.move_on_after(ADMISSION_SECONDS) as patience:
                await self._full.park()
            if patience.cancelled_caught:
                raise _copy(BUSY) from None
        if self._refusal is not None:
            self._make_room(1)
            raise _copy(self._refusal)
        if not job.soon:
            self._jobs.put(job)
        else:
            self._later.append(job)
            if self._dozes:
                with suppress(ValueError):  # the thread has it already
                    self._later.remove(job)
                    self._jobs.put(job)
        try:
            await trio.lowlevel.wait_task_rescheduled(job.abandon)
            return job.result
        finally:
            job.failure = None  # its traceback leads here again, and would keep all that the job was given

    async def trouble(self) -> Refused | None:
        """Return why nothing can be written now; None: the last commit succeeded, or one that was tried for this
        question.
        """
        if self._trouble is not None and self._has_room():
            with suppress(Refused):
                await self.commit(touch)
        return self._trouble

    def _make_room(self, jobs: int) -> None:
        self._room += jobs - len(self._full.unpark(count=jobs))

    async def _close_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.close()

    # -- on the writer's thread -----------------------------------------------------------------------

    def _work(self) -> StorageFailed | None:
        while True:
            group, closing = self._next_group(min(self.soon_seconds, SOON_SECONDS))
            self._dozes = not group and not closing
            if self._dozes and not self._later:
                group, closing = self._next_group(PLACE_SECONDS)
            self._dozes = False
            earlier: list[_Job] = []
            with suppress(IndexError):
                while True:
                    earlier.append(self._later.popleft())
            group = [*earlier, *group]
            failure = self._commit_all(group) if group or closing else self._look_at_place()
            if failure is not None:
                return failure
            if closing:
                fault_point("store.checkpoint")
                if self.tap is not None:
                    self.tap.keep_rest()
                self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                return None

    def _commit_all(self, jobs: list[_Job]) -> StorageFailed | None:
        """Commit ``jobs``, together if that can be. Every one of them is answered when this returns."""
        left = deque([jobs] if jobs else [])
        while left:
            group = left.popleft()
            try:
                if not self._commit_group(group):
                    left.extend([job] for job in group)
            except StorageFailed as failure:
                self._on_trio(partial(self._deliver_failure, [*group, *chain.from_iterable(left)], failure))
                return failure
        return None

    def _next_group(self, patience_seconds: float = PLACE_SECONDS) -> tuple[list[_Job], bool]:
        """All that waits, up to the limit; nothing, where none comes so long; and whether to end after it."""
        group: list[_Job] = []
        due = inf
        while len(group) < GROUP_LIMIT:
            try:
                job = self._jobs.get(timeout=max(0.0, min(patience_seconds, due - monotonic())))
            except queue.Empty:
                return group, False
            if job is None:
                return group, True
            group.append(job)
            if not job.soon:
                patience_seconds = 0.0
            else:  # from the first of them on, however many follow
                due = min(due, monotonic() + self.soon_seconds)
        return group, False

    def _commit_group(self, group: list[_Job]) -> bool:
        """Commit and answer ``group``. False: it must be tried one by one, nothing was kept. Raises StorageFailed."""
        events: list[Event] = []
        try:
            events = self._transact(group)
        except apsw.FullError:
            # SQLite may have undone the whole transaction because of one job that was too large.
            if len(group) > 1:
                return False
            self._trouble = STORAGE_FULL
            self._answer_all(group, STORAGE_FULL)
        except apsw.BusyError:
            self._trouble = LOCKED
            self._answer_all(group, LOCKED)
        except apsw.Error as error:
            raise StorageFailed(f"writing failed: {error}") from error
        else:
            self._trouble = None
        fault_point("store.committed")
        self._check_place()  # before the answers: what is not at the path is not kept
        if self._owes_truncation:
            self._scrub()
        self._on_trio(partial(self._deliver, group, events))
        if self.tap is not None:
            self.tap.after_commit(self._conn)
        return True

    def _check_place(self) -> None:
        """Raise StorageFailed where the database was removed, replaced or moved under us."""
        fault = self._misplaced()
        if fault is not None:
            raise StorageFailed(f"{fault}; nothing more is accepted")

    def _look_at_place(self) -> StorageFailed | None:
        try:
            self._check_place()
        except StorageFailed as failure:
            self._on_trio(partial(self._deliver_failure, [], failure))
            return failure
        return None

    def _scrub(self) -> None:
        """Leave no byte of what was removed: rewrite the file, write the log back and cut it off. Raises StorageFailed.

        Deleted rows are overwritten, but pages that were split long ago hold copies. It costs as much as the file is
        large, and is tried once; that somebody reads from the log only puts its truncation off to the next commit.
        """
        if self.tap is not None:
            self.tap.stop()  # a copy begins anew, without what was removed
        try:
            if self._owes_rewrite:
                self._owes_rewrite = False
                self._conn.execute("VACUUM").fetchall()
            busy = self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
        except (apsw.BusyError, apsw.FullError) as error:
            logger.warning("store.not_scrubbed %s: bytes of what was cleared may be left; clear it again", error)
            return
        except apsw.Error as error:
            raise StorageFailed(f"rewriting the database failed: {error}") from error
        self._owes_truncation = bool(busy)

    def _transact(self, group: list[_Job]) -> list[Event]:
        """One transaction, one fsync. Raises apsw.Error where the whole group is affected; then nothing was kept."""
        now_ms = self._clock_ms()
        try:
            return self._in_transaction(group, now_ms, self._run_job)
        except _JobFailed:
            if len(group) == 1:
                return []
            return self._in_transaction(group, now_ms, self._run_apart)

    def _in_transaction(self, group: list[_Job], now_ms: int, run: Callable[[_Job, Transaction], None]) -> list[Event]:
        conn = self._conn
        transaction = Transaction(conn, now_ms, self._rules)
        fault_point("store.begin")
        began = monotonic()
        conn.execute("BEGIN IMMEDIATE")
        try:
            for job in group:
                run(job, transaction)
                fault_point("store.job")
            fault_point("store.commit")
            conn.execute("COMMIT")
        except BaseException:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            raise
        self.commits.add(monotonic() - began)
        if transaction.forgets:
            self._owes_truncation = self._owes_rewrite = True
        return transaction.events

    def _run_job(self, job: _Job, transaction: Transaction) -> None:
        """Run it as if it could not fail. Raises _JobFailed, with its answer, where the transaction must be undone."""
        before = self._conn.total_changes()
        try:
            job.result = job.call(transaction, *job.args, **job.kwargs)
            job.failure = None
        except (apsw.FullError, apsw.BusyError, *DISK_FAILURES):
            raise
        except Exception as error:  # noqa: BLE001 - the wall between jobs: what one raises is its caller's
            job.failure = outcome.Error(error)
            if self._conn.total_changes() != before:
                raise _JobFailed from None

    def _run_apart(self, job: _Job, transaction: Transaction) -> None:
        conn = self._conn
        told, forgets = len(transaction.events), transaction.forgets
        conn.execute("SAVEPOINT job")
        try:
            self._run_job(job, transaction)
        except _JobFailed:
            conn.execute("ROLLBACK TO job")
            del transaction.events[told:]
            transaction.forgets = forgets
        conn.execute("RELEASE job")

    def _answer_all(self, jobs: Sequence[_Job], error: Exception) -> None:
        for job in jobs:
            job.failure = outcome.Error(_copy(error))

    def _on_trio(self, call: Callable[[], None]) -> None:
        assert self._token is not None
        self._token.run_sync_soon(call)

    # -- on the Trio thread -----------------------------------------------------------------------------

    def _deliver(self, group: Sequence[_Job], events: Sequence[Event]) -> None:
        try:
            if events:
                self._publish(events)
        finally:
            self._make_room(len(group))
            for job in group:
                if job.task is not None:
                    assert job.failure or job.result is not UNSET
                    trio.lowlevel.reschedule(job.task, job.failure or outcome.Value(None))

    def _deliver_failure(self, left: list[_Job], failure: StorageFailed) -> None:
        self._refusal = failure
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job is not None:
                left.append(job)
        left.extend(self._later)
        self._later.clear()
        self._answer_all(left, failure)
        self._deliver(left, ())


def _copy(error: Exception) -> Exception:
    """A fresh exception: one object raised in many tasks would collect their tracebacks."""
    if isinstance(error, Refused):
        return Refused(error.code, error.text, error.hint)
    return StorageFailed(*error.args)


class StoreLog(NamedTuple):
    """Access of a service to the log: reads, commits, and the clock of their timestamps."""

    reader: Reader
    writer: Writer
    now_ms: Callable[[], int]
