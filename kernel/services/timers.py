"""Time-driven changes: deadlines of waits, and schedules of agents.

Each service reads rows, sleeps until the next one is due, and is woken by each change of a row.
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import trio

from kernel.agents.registration import Known, refresh, take_over
from kernel.agents.schedule import DEFAULT_PROMPT, Every, ScheduleRejected, parse_wakeup
from kernel.agents.trust import TrustedFiles
from kernel.policy.timing import rearmed_ms, sought_from_ms
from kernel.services.reload import MOVED, CannotWatch, watch_directories
from kernel.source.diagnostics import BadDefinition
from kernel.store import timers
from kernel.store.feed import Wake
from kernel.store.timers import Timer, arm, fire, postpone
from kernel.store.transaction import emit_log
from kernel.store.transitions.due import apply_due, next_due_ms
from kernel.store.writer import StoreLog
from kernel.workflows.schedules import Scheduled, schedules
from protocol.agent import Schedule
from protocol.errors import Refused
from protocol.names import AgentKey, name_of

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"agent.changed", "workflow.started", "workflow.stopped"})
"""Events that may change which schedules are active."""
LONGEST_NAP_SECONDS: Final = 60.0
REFUSED_PAUSE_SECONDS: Final = 1.0
CLOCK_SET_MS: Final = 1000
"""Drift between the two clocks after which the wall clock counts as changed."""

_decoder: Final = msgspec.json.Decoder(Schedule)


async def reconcile(
    wake: Wake, look: Callable[[], Awaitable[float]], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> NoReturn:
    """Call ``look`` now, after the seconds that it returned, and whenever ``wake`` is set, until cancelled.

    It is level-triggered (fault TF09): an event during a call triggers the next one.
    """
    task_status.started()
    while True:
        wake.clear()
        with trio.move_on_after(await look()):
            await wake.wait()


class Schedules:
    """Arms a timer for each active schedule, and fires due timers; one task.

    It reads rows when an agent or a workflow has changed, when a timer is due, and once a minute, to notice a changed
    wall clock or an edited agent file. Otherwise it sleeps (fault LF01).

    ``wake`` is set for events of WAKING.
    """

    def __init__(
        self,
        *,
        log: StoreLog,
        files: TrustedFiles,
        wake: Wake,
        wall_ms: Callable[[], int],
        trust_dir: Path | None = None,
    ) -> None:
        """``trust_dir`` is watched, because only trusted schedules are active."""
        self._reader, self._writer, self._now_ms = log
        self._catalog, environ, self._trust = files
        self._local = environ.get("TZ")
        self._wake = wake
        self._wall_ms = wall_ms
        self._trust_dir = trust_dir
        self._agreed = self._trust.kept()
        self._warned: frozenset[Scheduled] = frozenset()
        self._offset_ms = wall_ms() - log.now_ms()
        self._stamp = self._catalog.stamp()
        self._stamped_ms = log.now_ms()
        wake.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run schedules until cancelled."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_trust)
            while True:
                with trio.move_on_after(await self.run_once()):
                    await self._wake.wait()

    async def _watch_trust(self) -> None:
        """Wake when trust was granted or revoked; without inotify this is noticed once a minute."""
        if self._trust_dir is None or self._trust.everything:
            return
        try:
            with watch_directories() as watch:
                watch.cover((self._trust_dir,), MOVED)
                while True:
                    await watch.changed()
                    if self._trust.kept() != self._agreed:
                        self._wake.set()
        except CannotWatch as error:
            logger.warning("schedule.unwatched %s: changes of trust are noticed once a minute", error)

    async def run_once(self) -> float:
        """Arm changed timers, fire due ones, and return the seconds until the next round."""
        changed = self._wake.clear()
        try:
            if self._now_ms() - self._stamped_ms >= LONGEST_NAP_SECONDS * 1000:
                # Store agent files that were edited.
                self._stamped_ms = self._now_ms()
                stamp = await trio.to_thread.run_sync(self._catalog.stamp)
                if stamp != self._stamp:
                    survey = await trio.to_thread.run_sync(self._catalog.survey)
                    await take_over(survey.loaded, self._writer, self._reader)
                    self._stamp = stamp
            offset_ms = self._wall_ms() - self._now_ms()
            if abs(offset_ms - self._offset_ms) >= CLOCK_SET_MS:
                self._offset_ms, changed = offset_ms, True
            trusted_before, self._agreed = self._agreed, self._trust.kept()
            if trusted_before != self._agreed or self._wake.clear() or changed:
                await self._arm()
            refusals: list[Refused] = []
            async with trio.open_nursery() as nursery:  # due together: they share a commit
                for timer in self._reader.now(timers.due, self._now_ms(), self._wall_ms()):
                    nursery.start_soon(self._fire_unless_refused, timer, refusals)
            for refusal in refusals[:1]:
                raise refusal
        except Refused as refused:
            logger.warning("wakeup.refused %s", refused.text)
            self._wake.set()
            await trio.sleep(REFUSED_PAUSE_SECONDS)
        steady_ms, wall_ms = self._reader.now(timers.upcoming)
        nap = LONGEST_NAP_SECONDS
        if steady_ms is not None:
            nap = min(nap, (steady_ms - self._now_ms()) / 1000)
        if wall_ms is not None:
            nap = min(nap, (wall_ms - self._wall_ms()) / 1000)
        return max(nap, 0.0)

    async def _arm(self) -> None:
        declared = await self._reader.read(timers.declared)
        armed = {(timer.agent, timer.home): timer for timer in declared.armed}
        found = schedules(declared.agents, declared.workflows)
        untrusted = frozenset(() if self._trust.everything else (one for one in found if not one.trusted(self._agreed)))
        await self._warn_untrusted(untrusted)
        wanted: dict[tuple[AgentKey, str], Timer] = {}
        for one in found:
            timer = None if one in untrusted else self._timer(one, armed.get((one.agent, one.home)))
            if timer is not None:
                wanted[timer.agent, timer.home] = timer
        put = [timer for key, timer in wanted.items() if timer != armed.get(key)]
        drop = [timer for key, timer in armed.items() if key not in wanted]
        if put or drop:
            await self._writer.commit(arm, put, drop)

    async def _warn_untrusted(self, untrusted: frozenset[Scheduled]) -> None:
        fresh, self._warned = untrusted - self._warned, untrusted
        for one in sorted(fresh, key=lambda one: (one.agent, one.home)):
            name = name_of(one.agent)
            hint = f"review and trust it with awk trust {one.file}"
            logger.warning("schedule.untrusted %s in %s does not run; %s", name, one.home, hint)
            data = {"home": one.home, "wakeup": one.schedule.wakeup, "hint": hint}
            await self._writer.commit(emit_log, "schedule.untrusted", space=one.home, agent=name, data=data)

    def _timer(self, one: Scheduled, armed: Timer | None) -> Timer | None:
        """Return the timer of a schedule; an unchanged ``armed`` timer keeps its time."""
        fired_ms = None if armed is None else armed.fired_ms
        try:
            period_ms, fresh_ms = self._fresh(one.schedule, fired_ms)
        except ScheduleRejected as error:
            logger.warning("schedule.rejected %s in %s: %s", one.agent, one.home, error.message)
            return None
        same = armed is not None and _pace_of(armed) == _pace(one.schedule)
        return Timer(
            agent=one.agent,
            home=one.home,
            schedule=msgspec.json.encode(one.schedule),
            period_ms=period_ms,
            next_ms=rearmed_ms(armed.next_ms, fresh_ms) if armed is not None and same else fresh_ms,
            fired_ms=fired_ms,
        )

    def _fresh(self, schedule: Schedule, fired_ms: int | None) -> tuple[int | None, int]:
        pace = parse_wakeup(schedule, self._local)
        if isinstance(pace, Every):
            return pace.period_ms, self._now_ms() + pace.period_ms
        return None, pace.next_after(sought_from_ms(self._wall_ms(), fired_ms))

    async def _fire_unless_refused(self, timer: Timer, refusals: list[Refused]) -> None:
        try:
            await self._fire(timer)
        except Refused as refused:  # a nursery would cancel the others
            refusals.append(refused)

    async def _fire(self, timer: Timer) -> None:
        known: Known
        try:
            known = await refresh(timer.agent, self._catalog, self._writer, self._reader)
        except BadDefinition as error:  # an invalid file changes nothing
            logger.debug("wakeup.as_before %s: %s", timer.agent, error.text)
            known = "same"
        if known == "changed" or self._trust.kept() != self._agreed:
            self._wake.set()
            return
        schedule = _decoder.decode(timer.schedule)
        at_ms = self._wall_ms() if timer.period_ms is None else self._now_ms()
        following_ms = self._fresh(schedule, at_ms)[1]
        if known == "gone":
            await self._writer.commit(postpone, timer, following_ms)
            return
        words = (schedule.prompt or "").strip() or DEFAULT_PROMPT
        decision = await self._writer.commit(
            fire, timer, at_ms=at_ms, following_ms=following_ms, text=words, workspace=schedule.workspace
        )
        logger.debug("wakeup.%s %s in %s", decision, timer.agent, timer.home)


def _pace(schedule: Schedule) -> tuple[str, str | None]:
    return schedule.wakeup, schedule.timezone


def _pace_of(timer: Timer) -> tuple[str, str | None] | None:
    try:
        return _pace(_decoder.decode(timer.schedule))
    except msgspec.MsgspecError:  # stored by a version with other keys
        return None


SHORTEST_NAP_SECONDS: Final = 0.02
"""Prevents a busy loop if a row cannot be updated."""


class Deadlines(msgspec.Struct, eq=False, kw_only=True):
    """Ends waits, starts probes of circuit breakers, and promotes starving work when they are due; one task.

    ``starvation_ms``: time after which work of any lane becomes immediate.
    """

    log: StoreLog
    wake: Wake
    starvation_ms: int

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Apply deadlines until cancelled."""
        await reconcile(self.wake, self.run_once, task_status)

    async def run_once(self) -> float:
        """Apply due deadlines, and return the seconds until the next one."""
        if self._due_seconds() <= 0:
            try:
                await self.log.writer.commit(apply_due, self.starvation_ms)
            except Refused as refused:
                logger.warning("alarm.refused %s", refused.text)
                return REFUSED_PAUSE_SECONDS
            return max(self._due_seconds(), SHORTEST_NAP_SECONDS)
        return self._due_seconds()

    def _due_seconds(self) -> float:
        due_ms = self.log.reader.now(next_due_ms, self.starvation_ms)
        if due_ms is None:
            return LONGEST_NAP_SECONDS
        return min((due_ms - self.log.now_ms()) / 1000, LONGEST_NAP_SECONDS)
