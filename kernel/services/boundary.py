"""Restarts each service of the kernel that fails, after a pause and within a budget.

So what one watcher trips over ends neither the kernel nor anybody's work. A service that goes on failing ends the
kernel, but in order: its workers are asked to leave, and it says which service it was and why.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from kernel.policy.retry import HOUR_MS, OF_SERVICES, Backoff, CrashRecord, Stop, after_crash
from kernel.services.shutdown import ShutdownRequest
from kernel.store.errors import StorageFailed
from kernel.store.transaction import emit_log
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.text import shown_name

logger = logging.getLogger(__name__)

_JITTER: Final = 0.5
"""There is one of each service: nobody else comes back at the same time."""
_ERROR_LIMIT: Final = 500


class Boundary:
    """Runs services. ``gave_up`` says why the kernel has to end, once a service has used up its budget."""

    def __init__(
        self,
        *,
        writer: Writer,
        shutdown: ShutdownRequest,
        now_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[object]] = trio.sleep,
    ) -> None:
        self._writer = writer
        self._shutdown = shutdown
        self._now_ms = now_ms
        self._sleep = sleep
        self.gave_up: str | None = None

    async def keep(
        self,
        name: str,
        service: Callable[..., Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run ``service`` until it returns. Where this is waited for, ``service`` says itself when it has started.

        Raises StorageFailed: then no service can go on.
        """
        told = _Once(task_status)
        record = CrashRecord(stepped=True)
        while True:
            try:
                if task_status is trio.TASK_STATUS_IGNORED:
                    await service()
                else:
                    await service(task_status=told)
                return
            except Exception as error:
                if _storage_failed(error):
                    raise
                now_ms = self._now_ms()
                after = after_crash(record, now_ms, _JITTER, OF_SERVICES)
                recent = tuple(at for at in (*record.recent_ms, now_ms) if at > now_ms - HOUR_MS)
                record = CrashRecord(streak=after.streak, last_ms=now_ms, stepped=True, recent_ms=recent)
                again = after.seconds if isinstance(after, Backoff) else None
                what_follows = "the last time" if again is None else f"it is started again in {again:g} s"
                logger.error("service.failed %s: %s", name, what_follows, exc_info=error)
                with suppress(Refused):
                    data = {"service": name, "error": _one_line(error), "again_seconds": again}
                    await self._writer.commit(emit_log, "kernel.service_failed", data=data)
                if isinstance(after, Stop):
                    told.started()
                    self.gave_up = f"{name}: {after.reason}, the last: {_one_line(error)}"
                    logger.critical("kernel.service_gave_up %s; the kernel ends", self.gave_up)
                    self._shutdown.ask(by=f"failure of {name}")
                    return
                await self._sleep(after.seconds)


class _Once:
    """Tells that a service has started, the first time that it has."""

    def __init__(self, task_status: trio.TaskStatus[None]) -> None:
        self._task_status: trio.TaskStatus[None] | None = task_status

    def started(self, _value: None = None) -> None:
        task_status, self._task_status = self._task_status, None
        if task_status is not None:
            task_status.started()


def _storage_failed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_storage_failed(inner) for inner in error.exceptions)
    return isinstance(error, StorageFailed)


def _one_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return shown_name(f"{type(error).__name__}: {error}".rstrip(": "))[:_ERROR_LIMIT]
