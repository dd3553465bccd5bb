"""A short life told in full: what was durable in the end, how often everything was done, and who disturbed it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kernel.rule.draft import Draft
from kernel.store import entries
from kernel.store.transitions.append import append
from protocol.ipc import Entry
from protocol.message import USER, Event
from protocol.names import instruction_id
from tests.sim.plan import Plan
from tests.sim.project_folder import ProjectFolder
from tests.sim.simulation import Report, simulate
from tests.sim.world import World

ENDED: Final = """
SELECT i.id, m.text, i.state, i.result_text, i.epoch
FROM instructions AS i CROSS JOIN messages AS m ON m.seq = i.message
ORDER BY m.text
"""


@dataclass(frozen=True)
class End:
    """How one message's work ended."""

    text: str
    state: str
    result: str
    epoch: int
    thread: tuple[Entry, ...]


@dataclass
class Story:
    """What is told afterwards. ``asked`` and ``touched`` count calls of the model, by entry, and of the tool."""

    ends: dict[str, End] = field(default_factory=dict)
    asked: dict[tuple[str, int], int] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[float, str]] = field(default_factory=list)
    report: Report | None = None


def tell(plan: Plan, project_folder: ProjectFolder, disturb: Callable[[World], None] = lambda _world: None) -> Story:
    """Run ``plan``, disturbed by ``disturb``; whatever promise was broken fails here."""
    story = Story()

    def remember(world: World) -> None:
        for number, text, state, result, epoch in world.eyes.execute(ENDED).fetchall():
            thread = tuple(
                msgspec.structs.replace(entry, duration_ms=None)  # which is no part of what was done
                for entry in entries.of(world.eyes, instruction_id(int(str(number))))
            )
            story.ends[str(text)] = End(str(text), str(state), str(result), int(str(epoch)), thread)
        story.asked, story.touched = world.desk.replied, world.desk.touched
        story.calls = world.providers.asked

    story.report = simulate(plan, project_folder, begin=disturb, end=remember)
    assert story.report.violations == (), story.report.text
    return story


def at_step(k: int, do: Callable[[World], None]) -> Callable[[World], None]:
    """Disturb a world once, when entry ``k`` of its first instruction is durable (-1: when its worker runs)."""

    def begin(world: World) -> None:
        done = False

        def listen(events: Sequence[Event]) -> None:
            nonlocal done
            for event in events:
                began = k < 0 and event.type == "attempt.started"
                stepped = event.type == "instruction.step" and event.data["k"] == k
                if not done and event.instruction == "i1" and (began or stepped):
                    done = True
                    do(world)

        world.listeners.append(listen)

    return begin


def interrupt(world: World) -> None:
    world.machine.start_soon(_interrupt, world)


async def _interrupt(world: World) -> None:
    await world.ask(append, Draft(kind="said", space="dm:alice", sender=USER, text="job urgent: do 1."))
