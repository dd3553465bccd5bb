"""The writer without its thread: the production one, its work a task on the loop, so that virtual time can pass.

Admission, grouping, savepoints, answers and cancellation are the production code's. It also is where a kernel can be
killed: at any commit, before it or between it and its answer.
"""

import queue
from collections.abc import Callable, Sequence
from typing import Any

import trio

from kernel.store.database import Database
from kernel.store.schema import StorageFailed
from kernel.store.transaction import Transaction
from kernel.store.writer import Writer
from protocol.message import Event
from tests.sim.invariants import Inspector


class _Inbox(queue.SimpleQueue[Any]):
    """The writer's queue, with an event for a task to wait on where the thread would block."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = trio.Event()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put(item, block, timeout)
        self.arrived.set()


class InlineWriter(Writer):
    """A Writer whose work is a task.

    ``doomed`` is asked before each group and once more between its COMMIT and its answers: True kills the kernel
    there. A killed writer keeps nothing and answers nobody with success, as a killed process does.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock_ms: Callable[[], int],
        publish: Callable[[Sequence[Event]], None],
        capacity: int = 1024,
        doomed: Callable[[bool], bool] = lambda _committed: False,
        inspect: Inspector | None = None,
    ) -> None:
        super().__init__(database=database, clock_ms=clock_ms, publish=publish, capacity=capacity)
        self.soon_seconds = 0.0  # virtual time stands still while it waits
        self._inbox = _Inbox()
        self._jobs = self._inbox
        self._doomed = doomed
        self._inspect = inspect
        self.killed = False

    def kill(self) -> None:
        """From now on nothing is written: what the kernel does while it is taken down never happened."""
        self.killed = True
        self._inbox.put(None)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """As the production one, without its thread and without the checkpoint of a WAL that is not there."""
        self._refusal = None
        failure: StorageFailed | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._close_when_cancelled)
            task_status.started()
            with trio.CancelScope(shield=True):
                failure = await self._work_inline()
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _work_inline(self) -> StorageFailed | None:
        while True:
            await self._inbox.arrived.wait()
            self._inbox.arrived = trio.Event()
            while not self._inbox.empty():
                group, closing = self._next_group()
                failure = self._commit_all(group)
                if self.killed and failure is None:
                    failure = StorageFailed("the kernel was killed")
                    self._deliver_failure([], failure)
                if failure is not None or closing:
                    return failure

    def _commit_group(self, group: list[Any]) -> bool:
        if self.killed or self._doomed(False):
            self.killed = True
            raise StorageFailed("the kernel was killed before a commit")
        return super()._commit_group(group)

    def _transact(self, group: list[Any]) -> list[Event]:
        events = super()._transact(group)
        if self._doomed(True):
            self.killed = True
            raise StorageFailed("the kernel was killed between a commit and its answers")
        return events

    def _in_transaction(self, group: list[Any], now_ms: int, run: Callable[[Any, Transaction], None]) -> list[Event]:
        forget = None if self._inspect is None else self._inspect.remember()
        try:
            return super()._in_transaction(group, now_ms, run)
        except BaseException:
            if forget is not None:
                forget()
            raise

    def _run_job(self, job: Any, transaction: Transaction) -> None:
        told = len(transaction.events)
        super()._run_job(job, transaction)
        if self._inspect is not None:
            self._inspect(self._conn, transaction.events[told:], transaction.now_ms)

    def _on_trio(self, call: Callable[[], None]) -> None:
        call()
