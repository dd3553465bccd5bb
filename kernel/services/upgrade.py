"""The upgrade of a running kernel: another version is tried, work is brought to a point where nothing is half done, and
the table of it is handed over. The replacement itself is kernel.boot's.

Up to ``leaving`` everything can be taken back: what stood still goes on, and nothing has happened. A worker that is
being started, or leaves, is waited for; so are commands (git, checks, setup). Work whose worker takes too long to start
is put back uncharged; a command that takes too long refuses the upgrade for now.
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
from kernel.store.writer import Writer
from protocol.api.kernel import UpgradeReport, UpgradeState
from protocol.errors import Refused

logger = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 20.0
"""For workers that are being started or leave, and for commands."""
PUT_BACK_SECONDS: Final = 8.0
"""For those to leave that could not be started in that time."""
STOP_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 2.0
"""For commits under way, until all conversations stand still."""
_LOOK_SECONDS: Final = 0.005

Try = Callable[[KernelProgram, bytes], Awaitable[str]]
"""Have a program say whether it can take this over. Returns its version; raises TrialFailed."""


def boot_seconds() -> float:
    """The seconds since the machine's boot, the same in every process."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class NotNow(Exception):
    """Work could not be brought to where it can be handed over. The text says what keeps it."""


class Upgrade(msgspec.Struct, eq=False, kw_only=True):
    """The upgrades of one kernel, one at a time. ``leaving`` is set where its program is to be replaced."""

    attempts: Attempts
    dispatcher: Dispatcher
    spawns: SpawnControl
    writer: Writer
    version: str
    safe_mode: trio.Event
    trial: Try
    installed: KernelProgram
    """The program that runs where nobody names another one."""
    program: KernelProgram = KernelProgram("", ())
    """The one that is asked for: what is to be executed, once it leaves."""
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
        """Begin with the program at ``to``, or the one that is installed. Raises Refused (busy, bad_request)."""
        if not hasattr(os, "memfd_create"):
            raise Refused("bad_request", "a kernel is upgraded under its workers on Linux only", "awk restart --kernel")
        if self._asked.is_set():
            raise Refused("busy", "an upgrade is under way", "see how it ends: awk upgrade --status")
        python = self.installed.python if to is None else interpreter_at(to)
        self.program = self.installed._replace(python=python)
        self.report = UpgradeReport(
            id=f"u{secrets.token_hex(6)}", state="checking", before=self.version, to=self.program.python
        )
        self._asked.set()
        return self.report

    def tell(self) -> UpgradeReport:
        """Return how the last one went, or goes."""
        return self.report

    async def run(self) -> None:
        """Carry out what is asked for, until one succeeds or this is cancelled."""
        while True:
            await self._asked.wait()
            try:
                await self._prepare()
            except (TrialFailed, NotNow) as error:
                await self._fail(str(error))
            except Exception as error:
                logger.exception("upgrade.broke")
                await self._fail(f"the kernel failed in it ({type(error).__name__}); see kernel.log")
            else:
                self.leaving.set()
                await trio.sleep_forever()

    async def _fail(self, reason: str) -> None:
        """Write down that the old program goes on, then say so: who hears it may ask for another upgrade at once."""
        logger.warning("upgrade.refused %s", reason)
        with suppress(Refused):
            await self.writer.commit(
                upgrade_failed, pid=os.getpid(), version=self.version, to=self.report.to, reason=reason
            )
        self._asked = trio.Event()
        self.report = msgspec.structs.replace(self.report, state="failed", reason=reason)

    def _samples(self) -> tuple[HandedAttempt, ...]:
        """Samples of what would be handed over of the attempts that talk now: whether another version can read it."""
        found: list[HandedAttempt] = []
        for attempt in self.attempts.running.values():
            with suppress(CannotHandOver):
                found.append(attempt.export(standing=False))
        return tuple(found)

    def _step(self, state: UpgradeState) -> None:
        self.report = msgspec.structs.replace(self.report, state=state)

    async def _prepare(self) -> None:
        """Try the new version, and bring all work to a stop. Raises TrialFailed, NotNow; then all goes on."""
        version = await self.trial(self.program, encode(self._table(self._samples(), ())))
        self.report = msgspec.structs.replace(self.report, to=version)
        fault_point("upgrade.tried")
        self._step("waiting")
        self.dispatcher.hold_back()
        try:
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
        self.spawns.open()
        self.dispatcher.go_on()

    async def _settle(self) -> None:
        """Wait until every attempt talks with its worker, and no command runs. Raises NotNow."""
        if await _until(lambda: not self._unsettled(), SETTLE_SECONDS):
            return
        for attempt in self.attempts.running.values():
            if not attempt.hands_over and not attempt.completing:
                attempt.stop("upgrade", STOP_SECONDS)
        if not await _until(lambda: not self._unsettled(), PUT_BACK_SECONDS):
            raise NotNow(f"{', '.join(self._unsettled()[:5])}: try again")

    def _unsettled(self) -> list[str]:
        running = self.attempts.running.values()
        between = [
            f"{one.leased.attempt} has not left the node {one.leased.node}"
            if one.leased.node
            else f"{one.leased.attempt} {'works where it cannot be handed over' if one.talks else 'starts or ends'}"
            for one in running
            if not one.hands_over
        ]
        if not between and self.dispatcher.unsettled():
            between = ["an attempt is being leased"]
        return [*between, *(f"the command {name or 'that is being started'} runs" for name in self._commands())]

    def _commands(self) -> tuple[str, ...]:
        workers = [one.handle for one in self.attempts.running.values()]
        kept = [one.worker.handle for one in self.attempts.kept.waiting.values()]
        return self.spawns.under_way([handle for handle in (*workers, *kept) if handle is not None])

    async def _bring_to_a_stop(self) -> None:
        """Have all conversations stand still at once, and start nothing. Raises NotNow."""
        self.spawns.shut_off()
        self._began = boot_seconds()
        for attempt in self.attempts.running.values():
            attempt.pause.ask()

        def stands() -> bool:
            return not self._unsettled() and all(one.pause.stands for one in self.attempts.running.values())

        if not await _until(stands, PAUSE_SECONDS):
            raise NotNow(f"{', '.join(self._unsettled()[:5]) or 'a commit takes long'}: try again")
        try:
            for attempt in self.attempts.running.values():
                attempt.export()
        except CannotHandOver as error:
            raise NotNow(f"{error}: try again") from error

    async def retire(self, children: tuple[int, ...]) -> None:
        """Have the launcher leave alone what it has started. There is no way back from here within this program.

        ``children`` are processes to be reaped beside its own.
        """
        self._children += (*children, *await self.spawns.hand_over())
        self.attempts.kept.close()

    def hand_over(self, signals: tuple[int, ...]) -> KernelHandover:
        """Return the table, and touch no worker any more. Cancel everything then, without another turn of the loop."""
        attempts: list[HandedAttempt] = []
        for attempt in self.attempts.running.values():
            try:
                attempts.append(attempt.export())
            except CannotHandOver as error:  # it was ended meanwhile: the next program finds it as after a death
                logger.warning("upgrade.left_behind %s", error)
                continue
            attempt.let_go()
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
        """Tell how it ended, once all goes on: ``returned`` says why it is the old program. Returns the wait."""
        waited_seconds = round(boot_seconds() - self._began, 3)
        told = self.report
        common = {"pid": os.getpid(), "attempts": self._taken_over, "waited_seconds": waited_seconds}
        if returned is None:
            self.report = msgspec.structs.replace(told, state="done", to=self.version, **common)
        else:
            logger.error("upgrade.returned %s", returned)
            self.report = msgspec.structs.replace(told, state="failed", reason=returned, **common)
            with suppress(Refused):
                await self.writer.commit(
                    upgrade_failed, pid=os.getpid(), version=self.version, to=told.to, reason=returned
                )
        if returned is None:
            with suppress(Refused):
                await self.writer.commit(
                    upgraded,
                    pid=os.getpid(),
                    version=self.version,
                    before=told.before,
                    attempts=self._taken_over,
                    waited_seconds=waited_seconds,
                )
        return waited_seconds

    def take_over(self, handover: KernelHandover) -> None:
        """Know what an earlier program has begun, and what it is to be told of in the end."""
        told = handover.upgrade
        self.report = UpgradeReport(id=told.id, state="replacing", before=told.before, to=told.to)
        self._began, self._taken_over, self._children = told.began, len(handover.attempts), handover.children
        self.dispatcher.take_over(handover.attempts)


async def _until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until it ``holds``; False if that takes longer. Nobody tells of all of it, and it lasts milliseconds."""
    deadline = trio.current_time() + seconds
    while not holds():
        if trio.current_time() >= deadline:
            return False
        await trio.sleep(_LOOK_SECONDS)
    return True
