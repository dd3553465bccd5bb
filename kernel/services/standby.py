"""Maintains a copy of the log at another place, by passing commits to a copier process.

Neither the writer nor the kernel waits for the copy: frames that the place cannot store in time are
dropped, and the copy restarts from a new base. The lag and its reason are available on request.
"""

import fcntl
import logging
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.sections import standby_unit
from kernel.agents.trust import TrustedFiles
from kernel.fault_injection import AT, LOG
from kernel.store.history import log_name
from kernel.store.log_tap import LogTap, newest_event
from kernel.store.writer import StoreLog
from protocol.errors import Refused
from protocol.project import StandbySettings
from protocol.standby import CopierReport, Frames, LogRestart, StandbyState, UpTo, packed

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Interval of checks of the project file and its trust."""
FLUSH_SECONDS: Final = 3.0
"""Time limit for the rest of the copy when the kernel stops."""
END_SECONDS: Final = 2.0
"""Time for the copier to exit after its input is closed."""
LEFT_SECONDS: Final = 0.1
"""Time for a killed copier to exit while agents wait."""
AGAIN_SECONDS: Final = 2.0
"""Delay before a copier is restarted."""
PIPE_BYTES: Final = 1024 * 1024
_NEVER: Final = 2**62
"""More than is ever sent."""
_LINE_BYTES: Final = 64 * 1024
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR", AT, LOG)
_PROGRAM: Final = (sys.executable, "-I", "-m", "kernel.inspect.copier")
_heard: Final = msgspec.json.Decoder(CopierReport).decode


class _Looked(NamedTuple):
    """Point in the log: the number of sent frames, the time (Trio's clock), the newest event."""

    sent: int
    at: float
    event: int


class Standby:
    """Copies the log to the place in the project file."""

    def __init__(self, *, log: StoreLog, files: TrustedFiles, database: str, state_dir: Path, term: int) -> None:
        self._reader, self._writer, _ = log
        self._catalog, environ, self._trust = files
        self._database = database
        self._state_dir = state_dir
        self._environ = {name: environ[name] for name in _PASSED_ON if name in environ}
        self._term = term
        self._settings: StandbySettings | None = None
        self._waits_for_trust = False
        self._heard = CopierReport()
        self._begun = self._sent = 0
        self._open: deque[_Looked] = deque(maxlen=1000)
        self._covered = _Looked(0, 0.0, 0)
        self._told: str | None = None
        self._asked = trio.Event()
        self._ending = False
        self._ended = trio.Event()
        self._process: trio.Process | None = None
        self._left = False
        """The next kernel process copies; the copier is not waited for."""

    # -- status -------------------------------------------------------------------------------------------

    def state(self) -> StandbyState | None:
        """Return the state of the copy; None if the project file configures no standby."""
        settings = self._catalog.kept_project().standby
        if settings is None:
            return None
        if self._waits_for_trust or settings != self._settings:
            state, why, fix = (
                "untrusted",
                "it is not trusted, so nothing is copied",
                "review and trust it with awk trust",
            )
            if not self._waits_for_trust:
                state, why, fix = "copying", "the copy is starting", "wait a moment"
            return StandbyState(to=settings.to, state=state, lag_seconds=0.0, event=0, why=why, fix=fix)
        heard = self._heard
        lag = trio.current_time() - self._covered.at if self._open else 0.0
        state = "behind" if heard.why is not None else "following" if self._is_whole() else "copying"
        return StandbyState(
            to=settings.to,
            state=state,
            lag_seconds=round(lag, 3),
            event=self._covered.event,
            place_bytes=heard.place_bytes,
            why=heard.why,
            fix=heard.fix,
        )

    # -- running -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until cancelled, if the project file configures a trusted standby."""
        while not self._left:
            settings = self._usable()
            if settings != self._settings:
                self._covered = _Looked(0, trio.current_time(), 0)
            self._settings = settings
            if settings is None:
                await trio.sleep(LOOK_SECONDS)
                continue
            try:
                await self._copy(settings)
            except* (Refused, OSError, msgspec.MsgspecError, trio.BrokenResourceError, trio.ClosedResourceError) as why:
                # A failed copy must not end the kernel; the status shows its duration.
                logger.warning("standby.failed %s", "; ".join(map(repr, why.exceptions)))
            await trio.sleep(AGAIN_SECONDS)

    def _usable(self) -> StandbySettings | None:
        settings = self._catalog.kept_project().standby
        self._waits_for_trust = settings is not None and self._trust.fault(standby_unit(settings)) is not None
        return None if self._waits_for_trust else settings

    async def flush(self) -> None:
        """Copy the rest of the log within FLUSH_SECONDS, because the kernel stops."""
        if self._settings is None or not self._is_whole():
            return
        self._ending = True
        self._asked.set()
        with trio.move_on_after(FLUSH_SECONDS):
            await self._ended.wait()

    def leave(self) -> tuple[int, ...]:
        """Stop copying, because the next kernel process starts over; return the child processes that it has to reap.

        Agents wait meanwhile, so the copier, which may hang, is killed.
        """
        self._left = True
        if self._process is None:
            return ()
        self._process.kill()
        return (self._process.pid,)

    async def _copy(self, settings: StandbySettings) -> None:
        tap = LogTap(self._database)
        self._asked = trio.Event()
        root, log = str(self._catalog.root), self._reader.now(log_name)
        words = ("--project", root, "--state", str(self._state_dir), "--to", settings.to, "--log", log)
        self._heard, self._begun, self._sent = CopierReport(), 0, 0
        self._open.clear()
        self._open.append(_Looked(_NEVER, trio.current_time(), 0))
        process: trio.Process | None = None
        self._writer.tap = tap  # from now on the tap checkpoints the log
        try:
            await self._writer.commit(tap.install)
            process = self._process = await trio.lowlevel.open_process(
                [*_PROGRAM, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environ,
                cwd="/",
                start_new_session=True,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            if sys.platform == "linux" and isinstance(process.stdin, trio.lowlevel.FdStream):
                with suppress(OSError):  # fewer turns of the event loop per chunk
                    fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, process.stdout, nursery.cancel_scope)
                nursery.start_soon(self._until_changed, settings, nursery.cancel_scope)
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._speak(process.stdin, tap, settings.every)
                nursery.cancel_scope.cancel()
        finally:
            tap.stop()
            self._process = None
            with trio.CancelScope(shield=True):
                if process is not None:
                    await _end(process, asked=not self._left)
                with suppress(Refused):
                    await self._writer.commit(tap.remove)
                    self._writer.tap = None
                    tap.close()

    async def _until_changed(self, settings: StandbySettings, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(LOOK_SECONDS)
            if self._usable() != settings:
                scope.cancel()

    async def _hear(self, stdout: trio.abc.ReceiveStream, scope: trio.CancelScope) -> None:
        line = bytearray()
        async for chunk in stdout:
            line += chunk
            *whole, rest = line.split(b"\n")
            line = bytearray(rest[:_LINE_BYTES])
            for one in whole:
                self._take(_heard(one))
        scope.cancel()

    def _take(self, heard: CopierReport) -> None:
        before, self._heard = self._heard, heard
        if heard.why != self._told:
            self._told = heard.why
            if heard.why is not None:
                logger.warning("standby.behind %s: %s; %s", self._settings and self._settings.to, heard.why, heard.fix)
            else:
                logger.info("standby.goes_on %s", self._settings and self._settings.to)
        if self._is_whole():
            while self._open and self._open[0].sent <= heard.done:
                self._covered = self._open.popleft()
        if heard.ended:
            self._ended.set()
        if heard.copies != before.copies or heard.lost != before.lost:
            self._asked.set()

    def _is_whole(self) -> bool:
        return self._heard.whole and self._heard.begun == self._begun

    async def _speak(self, stdin: trio.abc.SendStream, tap: LogTap, every_seconds: float) -> None:
        while True:
            with trio.move_on_after(every_seconds):
                await self._asked.wait()
            self._asked = trio.Event()
            heard, began = self._heard, trio.current_time()
            event, at_ms = self._reader.now(newest_event)
            if tap.broken or (heard.lost and heard.begun == self._begun):
                if heard.why is None and heard.begun == self._begun:
                    tap.begin()
                if tap.broken or heard.why is not None or heard.begun != self._begun:
                    self._open.append(_Looked(_NEVER, began, event))
                    continue  # more data would only be dropped
                self._begun += 1
                await stdin.send_all(packed(LogRestart(sent=self._sent + 1)))
            more = True
            while more:
                found, more = await trio.to_thread.run_sync(tap.take)
                for taken in found:
                    self._sent += 1
                    frames = Frames(sent=self._sent, wal=taken.header, start=taken.start, body=taken.body)
                    await stdin.send_all(packed(frames))
            looked = _Looked(self._sent, began, event)
            if self._is_whole() and self._heard.done >= self._sent:
                self._open.clear()
                self._covered = looked
            elif not self._open or self._open[-1].sent != self._sent:
                self._open.append(looked)
            look = UpTo(
                event=event,
                at_ms=at_ms,
                sent=self._sent,
                term=self._term,
                copies=heard.copies if heard.begun == self._begun else 0,
                last=self._ending,
            )
            await stdin.send_all(packed(look))


async def _end(process: trio.Process, *, asked: bool) -> None:
    """End the copier, after closing its input if ``asked``; a copier that hangs exits later."""
    if asked:
        with trio.move_on_after(END_SECONDS):
            if process.stdin is not None:
                await process.stdin.aclose()
            await process.wait()
    if process.returncode is None:
        process.kill()
        with trio.move_on_after(END_SECONDS if asked else LEFT_SECONDS):
            await process.wait()


STALE_SECONDS: Final = 60.0
"""Lag above which people are notified."""


def standby_notice(found: StandbyState) -> str | None:
    """Return a notice with the problem and the fix; None if there is no problem."""
    if found.lag_seconds < STALE_SECONDS and found.state in ("following", "copying"):
        return None
    why = found.why or "the place accepts no data"
    behind = f"is {found.lag_seconds:.0f} s behind" if found.state != "untrusted" else "is not running"
    return f"standby at {found.to} {behind}: {why} ({found.fix or 'check the place'})"
