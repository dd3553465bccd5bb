"""One run of a plan: first everything goes wrong and nothing false may happen, then all is mended and all must end."""

import logging
import random
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

import apsw
import trio

from kernel.store import instructions
from protocol.names import instruction_id
from tests.sim.chance import pass_seconds, run_virtually
from tests.sim.invariants import judge_end
from tests.sim.needs import judge_needs
from tests.sim.people import People
from tests.sim.plan import SPAN_SECONDS, Plan
from tests.sim.polls import OPEN as OPEN_BALLOT
from tests.sim.project_folder import ProjectFolder
from tests.sim.views import Views, disagreement, odd
from tests.sim.world import World

LIVENESS_SECONDS: Final = 1800.0
"""In which everything must have ended once nothing is broken any more."""
LOOK_SECONDS: Final = 5.0
LIFETIME_SECONDS: Final = 86_400.0
"""A world that is still there after so long has come to a halt; and a clock that jumps needs something to jump to."""
MEND_EVERY: Final = 60
"""Looks between two rounds of people who set things right."""
OPEN: Final = """
SELECT id FROM instructions WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""
RUNNING: Final = "SELECT 1 FROM workflows WHERE state = 'running' AND mode = 'run'"
STATES: Final = "SELECT agent || ' ' || state, count(*) FROM instructions GROUP BY 1 ORDER BY 1"
WHY: Final = """
SELECT i.id, i.agent, i.state, i.waits_for, i.wait_key, i.not_before_ms, a.state, a.hold_key, a.hold_until_ms,
  a.resume_at_ms FROM instructions AS i JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""


@dataclass(frozen=True)
class Report:
    """What came of a plan."""

    plan: Plan
    violations: tuple[str, ...]
    hash: str
    lines: tuple[str, ...]
    ended: dict[str, int]
    kernels: int
    spawned: int
    commits: int
    states: int
    needs: Counter[str]
    seconds: float

    @property
    def text(self) -> str:
        """For whoever has to find out: what was broken, and by what."""
        return "\n".join([*self.violations, str(self.plan), "", "the last that happened:", *self.lines[-60:]])


def simulate(
    plan: Plan,
    project_folder: ProjectFolder,
    *,
    begin: Callable[[World], None] = lambda _world: None,
    end: Callable[[World], None] = lambda _world: None,
) -> Report:
    """Run ``plan``. The same plan gives the same report, its hash included.

    ``begin`` and ``end`` get the world before its first kernel, and when all is over.
    """
    with _logs_to(logs := _Logs()):
        return run_virtually(plan.seed, lambda: _simulate(plan, project_folder, logs, begin, end))


async def _simulate(
    plan: Plan,
    project_folder: ProjectFolder,
    logs: "_Logs",
    begin: Callable[[World], None],
    end: Callable[[World], None],
) -> Report:
    database = project_folder.fresh()
    try:
        async with trio.open_nursery() as machine:
            world = World(plan, project_folder, database, machine)
            logs.world = world
            people = People(world)
            begin(world)
            machine.start_soon(world.reign)
            machine.start_soon(people.live)
            with trio.move_on_after(LIFETIME_SECONDS) as lifetime:
                await _safety(world, people)
                await _liveness(world, people)
            if lifetime.cancelled_caught:
                world.witness.blame(trio.current_time(), "P3", f"the world stands still: {_where(world)}")
            cancelled = (act.number for act in plan.acts if act.deed == "cancel")
            judge_end(world.eyes, people.accepted, world.witness, plan.workers, cancelled)
            report = _report(world)
            end(world)
            machine.cancel_scope.cancel()
    finally:
        database.close()
    return report


async def _safety(world: World, people: People) -> None:
    faults = max((one.at + one.seconds for one in world.plan.weather), default=0.0)
    await people.gone.wait()
    until = max(SPAN_SECONDS, faults)
    while trio.current_time() < until and not (_is_over(world) and trio.current_time() > SPAN_SECONDS):
        look_at_needs(world)
        await pass_seconds(LOOK_SECONDS)


def look_at_needs(world: World, chance: random.Random | None = None) -> None:
    """Hold all views of what needs a person against each other, where something was committed since the last look;
    by ``chance`` also in a copy in which more stands still.
    """
    if world.kernel is None or world.looked_at == world.commits:
        return
    judge_needs(world.eyes, world.kernel.now_ms(), world.witness)
    _look(world, world.eyes)
    if chance is not None:
        with closing(odd(world.eyes, chance)) as copy:
            _look(world, copy)
    world.looked_at = world.commits


def _look(world: World, conn: apsw.Connection) -> None:
    assert world.kernel is not None
    # Every other time as if somebody had taken trust back: then schedules wait for it.
    views = Views(conn, world.kernel.now_ms(), trusts=world.states % 2 == 0)
    numbers = views.numbers()
    wrong = disagreement(numbers)
    if wrong is not None:
        world.witness.blame(trio.current_time(), "P34", f"views do not say the same: {wrong}")
    world.states += 1
    world.needs.update(views.kinds)
    world.needs["any"] += any(numbers.values())


async def _liveness(world: World, people: People) -> None:
    world.witness.note(trio.current_time(), "all is mended")
    world.healed = world.launcher.healed = True
    world.providers.heal()
    end = trio.current_time() + LIVENESS_SECONDS
    for look in range(int(LIVENESS_SECONDS / LOOK_SECONDS) + 1):
        if _is_over(world):
            return
        look_at_needs(world)
        if look % MEND_EVERY == 0:
            await people.mend()
        await pass_seconds(LOOK_SECONDS)
    now_ms = world.kernel.now_ms() if world.kernel else 0
    stuck = _open(world)
    known = instructions.of(world.eyes, [instruction_id(one) for one in stuck], now_ms)
    for number in stuck:
        row = world.eyes.execute(WHY, (number,)).fetchone()
        world.witness.blame(end, "P3", f"never ended: {known.get(instruction_id(number))}, {row}, now {now_ms}")


def _is_over(world: World) -> bool:
    return _open(world) == [] and all(world.eyes.execute(one).fetchone() is None for one in (RUNNING, OPEN_BALLOT))


def _open(world: World) -> list[int]:
    return [int(str(number)) for (number,) in world.eyes.execute(OPEN)]


def _report(world: World) -> Report:
    return Report(
        plan=world.plan,
        violations=tuple(world.witness.violations),
        hash=world.witness.hash,
        lines=tuple(world.witness.lines),
        ended={str(what): int(str(count)) for what, count in world.eyes.execute(STATES)},
        kernels=world.kernels,
        spawned=world.launcher.spawned,
        commits=world.commits,
        states=world.states,
        needs=world.needs,
        seconds=trio.current_time(),
    )


class _Logs(logging.Handler):
    """What the kernel says went wrong inside it is a violation: nothing the world does may make it stumble."""

    world: World | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.world is None:
            return
        try:
            at = trio.current_time()
        except RuntimeError:
            return
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.world.witness.note(at, "log", record.levelname, text)
        if record.levelno >= logging.ERROR and "killed" not in text:
            self.world.witness.blame(at, "P9", text)


@contextmanager
def _logs_to(handler: logging.Handler) -> Generator[None]:
    logger = logging.getLogger("kernel")
    kept, level = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = kept
        logger.setLevel(level)


def _where(world: World) -> str:
    return (
        f"kernel {world.kernels} is {'up' if world.kernel else 'down'}, workers: {list(world.launcher.alive.values())}"
    )
