"""Upgrade of a running kernel: tries another version, pauses all work at a safe point, and hands over its table.

kernel.boot replaces the process.

Until ``leaving`` is set, everything can be undone: paused work continues as if nothing had happened. Workers that
start or exit are waited for, and so are commands (git, checks, setup). Work whose worker takes too long to start is
requeued without a charge; a command that takes too long makes the upgrade fail for now. New model requests wait, and
the next process receives their connections. Requests in progress get a minute; then their work is requeued as well.
"""

import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.gateway.gateway import Gateway
from kernel.procs.handle import CannotHandOver
from kernel.procs.launcher import SpawnControl
from kernel.services.attempts import Attempts
from kernel.services.dispatcher import Dispatcher
from kernel.services.handover import (
    HandedAttempt,
    HandedUpgrade,
    KernelHandover,
    KernelProgram,
    TrialFailed,
    children_of,
    encode,
    interpreter_at,
)
from kernel.store.transitions.recovery import upgrade_failed, upgraded
from kernel.store.workflows import memory_spaces
from kernel.store.writer import Writer
from protocol.api.kernel import UpgradeReport, UpgradeState
from protocol.errors import Refused

logger = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 20.0
"""Time for workers to start or exit, and for commands."""
PUT_BACK_SECONDS: Final = 8.0
"""Additional time for workers that did not start in time to exit."""
STOP_SECONDS: Final = 2.0
REQUEST_SECONDS: Final = 60.0
"""Time for model requests in progress to end."""
PAUSE_SECONDS: Final = 2.0
"""Time for running commits until all conversations are paused."""
_LOOK_SECONDS: Final = 0.005

Try = Callable[[KernelProgram, bytes], Awaitable[str]]
"""Asks a program whether it can take over a table; returns its version, or raises TrialFailed."""


def boot_seconds() -> float:
    """Return the seconds since the machine's boot, which are the same in all processes."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class NotNow(Exception):
    """Work could not be paused for a handover; the text has the reason."""


class Upgrade(msgspec.Struct, eq=False, kw_only=True):
    """Upgrades of one kernel, one at a time; ``leaving`` is set when the process has to be replaced."""

    attempts: Attempts
    dispatcher: Dispatcher
    spawns: SpawnControl
    gateway: Gateway
    writer: Writer
    version: str
    safe_mode: trio.Event
    trial: Try
    installed: KernelProgram
    """Program of the running kernel, used by default."""
    program: KernelProgram = KernelProgram("", ())
    """Requested program, which is executed when this process leaves."""
    report: UpgradeReport = UpgradeReport(id="", state="none", before="", to="")
    leaving: trio.Event = msgspec.field(default_factory=trio.Event)
    _asked: trio.Event = msgspec.field(default_factory=trio.Event)
    _children: tuple[int, ...] = ()
    _began: float = 0.0
    _taken_over: int = 0

    def __post_init__(self) -> None:
        self.program = self.installed
        self.report = UpgradeReport(id="", state="none", before=self.version, to="")

    def ask(self, to: str | None) -> UpgradeReport:
        """Start an upgrade to the program at ``to``, or to the installed one. Raises Refused (busy, bad_request)."""
        if not hasattr(os, "memfd_create"):
            raise Refused("bad_request", "upgrades without interruption require Linux", "use awk restart --kernel")
        if self._asked.is_set():
            raise Refused("busy", "another upgrade is running", "check it with awk upgrade --status")
        python = self.installed.python if to is None else interpreter_at(to)
        self.program = self.installed._replace(python=python)
        self.report = UpgradeReport(
            id=f"u{secrets.token_hex(6)}", state="checking", before=self.version, to=self.program.python
        )
        self._asked.set()
        return self.report

    def tell(self) -> UpgradeReport:
        """Return the state of the current or last upgrade."""
        return self.report

    async def run(self) -> None:
        """Carry out requested upgrades until one succeeds, or until cancelled."""
        while True:
            await self._asked.wait()
            try:
                await self._prepare()
            except (TrialFailed, NotNow) as error:
                await self._fail(str(error))
            except Exception as error:
                logger.exception("upgrade.broke")
                await self._fail(f"internal error ({type(error).__name__}); see kernel.log")
            else:
                self.leaving.set()
                await trio.sleep_forever()

    async def _fail(self, reason: str) -> None:
        """Record the failure before reporting it, because the client may request another upgrade at once."""
        logger.warning("upgrade.refused %s", reason)
        with suppress(Refused):
            await self.writer.commit(
                upgrade_failed, pid=os.getpid(), version=self.version, to=self.report.to, reason=reason
            )
        self._asked = trio.Event()
        self.report = msgspec.structs.replace(self.report, state="failed", reason=reason)

    # Tests whether another version can read the state of running attempts.
    def _samples(self) -> tuple[HandedAttempt, ...]:
        found: list[HandedAttempt] = []
        for attempt in self.attempts.running.values():
            with suppress(CannotHandOver):
                found.append(attempt.export(standing=False))
        return tuple(found)

    def _step(self, state: UpgradeState) -> None:
        self.report = msgspec.structs.replace(self.report, state=state)

    async def _prepare(self) -> None:
        """Try the new version, and pause all work. Raises TrialFailed, NotNow after resuming all work."""
        version = await self.trial(self.program, encode(self._table(self._samples(), ())))
        self.report = msgspec.structs.replace(self.report, to=version)
        fault_point("upgrade.tried")
        self._step("waiting")
        self.dispatcher.hold_back()
        try:
            if await self.writer.commit(lambda tx: memory_spaces(tx.conn, "stopped")):
                raise NotNow("a workflow with provider: memory is running: wait for its end, or stop it")
            # New model requests wait, and others get time to end.
            self.gateway.hold()
            await self.gateway.idle(REQUEST_SECONDS)
            busy = self.gateway.busy()
            for attempt in self.attempts.running.values():
                if attempt.leased.attempt in busy and not attempt.completing:
                    attempt.stop("upgrade", STOP_SECONDS)
            await self._settle()
            await self._bring_to_a_stop()
        except BaseException:
            self._go_on()
            raise
        fault_point("upgrade.stopped")
        self._step("replacing")

    def _go_on(self) -> None:
        for attempt in self.attempts.running.values():
            attempt.pause.release()
        self.gateway.release()
        self.spawns.open()
        self.dispatcher.go_on()

    async def _settle(self) -> None:
        """Wait until each attempt is in a conversation with its worker and no command runs. Raises NotNow."""
        if await _until(lambda: not self._unsettled(), SETTLE_SECONDS):
            return
        for attempt in self.attempts.running.values():
            if not attempt.hands_over and not attempt.completing:
                attempt.stop("upgrade", STOP_SECONDS)
        if not await _until(lambda: not self._unsettled(), PUT_BACK_SECONDS):
            raise NotNow(f"{', '.join(self._unsettled()[:5])}: retry")

    def _unsettled(self) -> list[str]:
        running = self.attempts.running.values()
        between = [
            f"{one.leased.attempt} has not left node {one.leased.node}"
            if one.leased.node
            else f"{one.leased.attempt} {'cannot be handed over' if one.talks else 'starts or ends'}"
            for one in running
            if not one.hands_over
        ]
        if not between and self.dispatcher.unsettled():
            between = ["an attempt is being leased"]
        return [*between, *(f"command {name or '(starting)'} is running" for name in self._commands())]

    def _commands(self) -> tuple[str, ...]:
        workers = [one.handle for one in self.attempts.running.values()]
        kept = [one.worker.handle for one in self.attempts.kept.waiting.values()]
        return self.spawns.under_way([handle for handle in (*workers, *kept) if handle is not None])

    async def _bring_to_a_stop(self) -> None:
        self.spawns.shut_off()
        self._began = boot_seconds()
        for attempt in self.attempts.running.values():
            attempt.pause.ask()

        def stands() -> bool:
            return not self._unsettled() and all(one.pause.stands for one in self.attempts.running.values())

        if not await _until(stands, PAUSE_SECONDS):
            raise NotNow(f"{', '.join(self._unsettled()[:5]) or 'a commit takes too long'}: retry")
        try:
            for attempt in self.attempts.running.values():
                attempt.export()
        except CannotHandOver as error:
            raise NotNow(f"{error}: retry") from error

    async def retire(self, children: tuple[int, ...]) -> None:
        """Make the launcher release its processes; this process cannot undo it.

        ``children`` are further processes that the next kernel process has to reap.
        """
        self._children += (*children, *await self.spawns.hand_over())
        self.attempts.kept.close()

    def hand_over(self, signals: tuple[int, ...]) -> KernelHandover:
        """Release all workers, and return the table; the caller must cancel all tasks at once."""
        attempts: list[HandedAttempt] = []
        for attempt in self.attempts.running.values():
            try:
                attempts.append(attempt.export())
            except CannotHandOver as error:  # ended meanwhile: the next process finds it like after a crash
                logger.warning("upgrade.left_behind %s", error)
                continue
            attempt.let_go()
        fault_point("upgrade.handed_over")
        return self._table(tuple(attempts), signals)

    def _table(self, attempts: tuple[HandedAttempt, ...], signals: tuple[int, ...]) -> KernelHandover:
        return KernelHandover(
            upgrade=HandedUpgrade(id=self.report.id, before=self.version, to=self.report.to, began=self._began),
            attempts=attempts,
            children=children_of(attempts, self._children),
            safe_mode=self.safe_mode.is_set(),
            signals=signals,
        )

    async def finish(self, returned: str | None) -> float:
        """Report the result; return the seconds that work paused. ``returned``: why it failed."""
        waited_seconds = round(boot_seconds() - self._began, 3)
        report = self.report
        common = {"pid": os.getpid(), "attempts": self._taken_over, "waited_seconds": waited_seconds}
        if returned is None:
            self.report = msgspec.structs.replace(report, state="done", to=self.version, **common)
        else:
            logger.error("upgrade.returned %s", returned)
            self.report = msgspec.structs.replace(report, state="failed", reason=returned, **common)
            with suppress(Refused):
                await self.writer.commit(
                    upgrade_failed, pid=os.getpid(), version=self.version, to=report.to, reason=returned
                )
        if returned is None:
            with suppress(Refused):
                await self.writer.commit(
                    upgraded,
                    pid=os.getpid(),
                    version=self.version,
                    before=report.before,
                    attempts=self._taken_over,
                    waited_seconds=waited_seconds,
                )
        return waited_seconds

    def take_over(self, handover: KernelHandover) -> None:
        """Register the work of the previous process, and the upgrade to report at the end."""
        upgrade = handover.upgrade
        self.report = UpgradeReport(id=upgrade.id, state="replacing", before=upgrade.before, to=upgrade.to)
        self._began, self._taken_over, self._children = upgrade.began, len(handover.attempts), handover.children
        self.dispatcher.take_over(handover.attempts)


async def _until(holds: Callable[[], bool], seconds: float) -> bool:
    """Poll until ``holds`` returns True, or return False after ``seconds``; not all conditions send an event."""
    deadline = trio.current_time() + seconds
    while not holds():
        if trio.current_time() >= deadline:
            return False
        await trio.sleep(_LOOK_SECONDS)
    return True
