"""The one writer: a thread that owns the writing connection and commits jobs in groups.

Callers submit jobs and get an answer only after COMMIT. Waiting jobs share one transaction and one fsync, and a failing
job affects no other. Most failing jobs raise before they change a row, so that nothing has to be undone. Otherwise all
jobs of the group run again, each in its own savepoint. A job may therefore run twice and must change nothing but rows.
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
"""Delay after which a job that may wait is committed, unless it joins an earlier group."""
PLACE_SECONDS: Final = 2.0
"""Interval between checks of the database's path while nothing is written."""
DISK_FAILURES: Final = (
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.NoMemError,
)
"""Errors after which written data may not be durable: an fsync must not be retried."""
STORAGE_FULL: Final = Refused(
    "storage_full", "the disk is full: nothing was written", "free some space; running work continues automatically"
)
BUSY: Final = Refused("busy", "the kernel is overloaded with writes: nothing was written", "try again")
LOCKED: Final = Refused("busy", "another program has locked the database: nothing was written", "end it, or try again")
STOPPING: Final = Refused("stopping", "the kernel is stopping: nothing was written")


class _Job(msgspec.Struct, eq=False):
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    task: trio.lowlevel.Task | None
    """Task that waits for the answer; None if it was cancelled."""
    soon: bool = False
    """The job may wait for another one to share its commit."""
    shielded: bool = False
    """A cancellation waits for the answer."""
    result: Any = UNSET
    failure: outcome.Error | None = None

    def abandon(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        if self.shielded:
            return trio.lowlevel.Abort.FAILED
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class _JobFailed(Exception):
    """A job has raised and has its answer, but its changes must be undone."""


class CommitWriter(Protocol):
    """The one writer's interface for handlers. See Writer for the exceptions."""

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``job(transaction, ...)`` and return its result once it is durable."""
        ...

    async def trouble(self) -> Refused | None:
        """Return why nothing can be written now, or None."""
        ...


class Writer:
    """Commits jobs. ``publish`` gets their events after COMMIT, before callers get answers."""

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
        """Number of jobs that may still be submitted; further callers wait in ``_full``."""
        self._full = trio.lowlevel.ParkingLot()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._later: deque[_Job] = deque()
        """Jobs that may wait, for the thread's next group: waking the thread would cost as much as the job."""
        self._dozes = True
        """The thread waits only for ``_jobs``. Otherwise it checks ``_later`` within SOON_SECONDS."""
        self._refusal: Exception | None = STOPPING
        self._token: trio.lowlevel.TrioToken | None = None
        self._trouble: Refused | None = None
        """Why the last commit failed, if the next one may fail too."""
        self.soon_seconds = SOON_SECONDS
        self.tap: LogTap | None = None
        """Tap of the standby copier, if one runs."""
        self.commits = Durations()
        """Durations from the start of each transaction until it is durable."""
        self._owes_truncation = self._owes_rewrite = False
        """Deleted data is still in the write-ahead log, or in the file."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled or closed. Raises StorageFailed after a disk failure.

        Cancellation: no new job is accepted, submitted ones are committed and answered, then the WAL is checkpointed.
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
        """Accept no more jobs; ``run`` returns once the submitted ones are answered."""
        if self._refusal is None:
            self._refusal = STOPPING
            self._jobs.put(None)

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``job(transaction, ...)`` in the writer's thread; return its result once durable.

        Raises what the job raised, Refused (busy, storage_full, stopping) or StorageFailed; then
        nothing has changed. If the caller is cancelled, a submitted job is committed anyway.
        """
        return cast("T", await self._hand_in(_Job(job, args, kwargs, trio.lowlevel.current_task())))

    async def commit_shielded(
        self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Commit ``job``; once it is submitted, a cancellation waits for its result. Return the result."""
        return cast("T", await self._hand_in(_Job(job, args, kwargs, trio.lowlevel.current_task(), shielded=True)))

    async def commit_soon(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Commit ``job`` within SOON_SECONDS, together with other jobs. Return its result."""
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
                with suppress(ValueError):  # the thread has already taken it
                    self._later.remove(job)
                    self._jobs.put(job)
        try:
            await trio.lowlevel.wait_task_rescheduled(job.abandon)
            return job.result
        finally:
            job.failure = None  # its traceback refers to this frame and would keep the job's arguments alive

    async def trouble(self) -> Refused | None:
        """Return why writing fails, or None. After a failure, make a test commit first."""
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
        """Return the jobs to commit next, maybe none, and whether to stop after them."""
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
            else:  # the delay counts from the first such job
                due = min(due, monotonic() + self.soon_seconds)
        return group, False

    def _commit_group(self, group: list[_Job]) -> bool:
        """Commit and answer ``group``. False: try its jobs one by one. Raises StorageFailed."""
        events: list[Event] = []
        try:
            events = self._transact(group)
        except apsw.FullError:
            # SQLite may have rolled back the whole transaction because one job was too large.
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
        self._check_place()  # before the answers: data in a deleted file is lost
        if self._owes_truncation:
            self._scrub()
        self._on_trio(partial(self._deliver, group, events))
        if self.tap is not None:
            self.tap.after_commit(self._conn)
        return True

    def _check_place(self) -> None:
        fault = self._misplaced()
        if fault is not None:
            raise StorageFailed(f"{fault}; no more writes are accepted")

    def _look_at_place(self) -> StorageFailed | None:
        try:
            self._check_place()
        except StorageFailed as failure:
            self._on_trio(partial(self._deliver_failure, [], failure))
            return failure
        return None

    def _scrub(self) -> None:
        """Erase all bytes of deleted data: rewrite the file, then checkpoint and truncate the WAL. Raises
        StorageFailed.

        Deleted rows are overwritten, but pages that were split earlier may hold copies. The cost grows with the file,
        and the rewrite is tried once. A reader only delays the truncation until the next commit.
        """
        if self.tap is not None:
            self.tap.stop()  # a standby copy starts again, without the deleted data
        try:
            if self._owes_rewrite:
                self._owes_rewrite = False
                self._conn.execute("VACUUM").fetchall()
            busy = self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
        except (apsw.BusyError, apsw.FullError) as error:
            logger.warning("store.not_scrubbed %s: cleared data may remain in the file; clear it again", error)
            return
        except apsw.Error as error:
            raise StorageFailed(f"rewriting the database failed: {error}") from error
        self._owes_truncation = bool(busy)

    def _transact(self, group: list[_Job]) -> list[Event]:
        """Commit ``group`` except failed jobs. Return its events. Raises apsw.Error on failure."""
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
        """Run a job and set its answer. Raises _JobFailed if a failed job has changed rows."""
        before = self._conn.total_changes()
        try:
            job.result = job.call(transaction, *job.args, **job.kwargs)
            job.failure = None
        except (apsw.FullError, apsw.BusyError, *DISK_FAILURES):
            raise
        except Exception as error:  # noqa: BLE001 - isolation of jobs: an exception belongs to its caller
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
    """Return a new exception: one that many tasks raise would collect their tracebacks."""
    if isinstance(error, Refused):
        return Refused(error.code, error.text, error.hint)
    return StorageFailed(*error.args)


class StoreLog(NamedTuple):
    """The log as services use it: reads, commits, and the clock of their timestamps."""

    reader: Reader
    writer: Writer
    now_ms: Callable[[], int]
