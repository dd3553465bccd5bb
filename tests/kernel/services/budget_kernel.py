"""A workflow with a budget on a real store, and attempts that spend from it without a process."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import trio

from kernel.rule.draft import Draft
from kernel.services.budgets import BudgetEnforcer
from kernel.services.runs import Runs
from kernel.store import workflows
from kernel.store.database import Reader
from kernel.store.feed import Feed
from kernel.store.transitions.append import append
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import Leased, lease
from kernel.store.writer import StoreLog, Writer
from protocol.agent import AgentDefinition
from protocol.api.runs import RunOptions
from protocol.instruction import Usage
from protocol.ipc import Entry, Limits, McpAddress, Provider, Start
from protocol.limits import RunBudget
from protocol.workflow import RunLimits, WorkflowDefinition
from tests.kernel.store.migrated import open_migrated
from tests.kernel.store.running_store import started
from tests.shorthand import present

SPACE = "review:main"
NAMES = ("ann", "bob", "cid", "dan")


@dataclass
class MemoryKernel:
    """A store in memory, and the end of its runs. Time stands until a test moves it."""

    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.database = open_migrated(":memory:")
        self.feed = Feed()
        self.reader = Reader(database=self.database)
        self.writer = Writer(database=self.database, clock_ms=lambda: self.now_ms, publish=self.feed.publish)
        self.runs = Runs(log=StoreLog(self.reader, self.writer, lambda: self.now_ms), wake=self.feed.new_wake())

    def run(self) -> workflows.WorkflowRecord:
        return present(self.reader.now(workflows.latest, SPACE))


K = TypeVar("K", bound=MemoryKernel)


@asynccontextmanager
async def alive(made: K) -> AsyncGenerator[K]:
    """Run the writer of ``made``."""
    async with trio.open_nursery() as nursery:
        await nursery.start(made.writer.run)
        yield made
        made.writer.close()
    made.database.close()


@dataclass
class BudgetKernel(MemoryKernel):
    """A store and the budgets on it."""

    now_ms: int = 1_000_000_000
    entries: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.budgets = BudgetEnforcer(reader=self.reader, now_ms=lambda: self.now_ms)

    async def start(
        self, kickoff: str, budget: RunBudget, *, mode: str = "run", limits: RunLimits | None = None,
        wall_time_ms: int | None = None,
    ) -> tuple[str, ...]:  # fmt: skip
        """Start ``review:main`` with four agents. Returns the instructions of its kickoff."""
        definition = msgspec.json.encode(WorkflowDefinition(name="review", agents={}, limits=limits or RunLimits()))
        draft = started(
            *NAMES, mode=mode, definition=definition, kickoff=kickoff, options=RunOptions(budget=budget),
            wall_time_ms=wall_time_ms, deadline_ms=None if wall_time_ms is None else self.now_ms + wall_time_ms,
        )  # fmt: skip
        return (await self.writer.commit(append, draft)).instruction_ids

    async def say(self, text: str) -> tuple[str, ...]:
        return (
            await self.writer.commit(append, Draft(kind="said", space=SPACE, sender="user", text=text))
        ).instruction_ids

    async def lease(self, instruction: str) -> Leased:
        token = secrets.token_bytes(16)
        return present(await self.writer.commit(lease, instruction, token))

    async def begin(self, instruction: str, definition: AgentDefinition, start: Start | None = None) -> Leased:
        """Begin an attempt, in the store and in the budgets."""
        leased = await self.lease(instruction)
        told = start or start_of(leased)
        await self.budgets.ready(leased, definition, told)
        self.budgets.open(leased, definition, told)
        return leased

    async def spend(self, leased: Leased, usage: Usage) -> None:
        """One reply of its model."""
        k = self.entries.get(leased.instruction, leased.entries)
        self.entries[leased.instruction] = k + 1
        entry = Entry(k=k, kind="reply", usage=self.budgets.priced(usage, leased.instruction))
        await self.writer.commit(journal, leased.instruction, leased.epoch, entry)

    def states(self) -> dict[str, tuple[str, str | None]]:
        return self.reader.now(_states)


def _states(conn: object) -> dict[str, tuple[str, str | None]]:
    rows = conn.execute("SELECT id, state, waits_for FROM instructions ORDER BY id")  # type: ignore[attr-defined]
    return {f"i{number}": (state, waits_for) for number, state, waits_for in rows}


def start_of(leased: Leased, model: str = "mock", provider: str | None = None) -> Start:
    return Start(
        instruction=leased.instruction, attempt=leased.attempt, epoch=leased.epoch, agent=leased.name,
        space=leased.space, backend="sdk" if provider else "mock", model=model,
        provider=None if provider is None else Provider(name=provider, dialect="openai"),
        system="", messages=(), message="", entries=(), limits=Limits(), mcp=McpAddress(url=""), token="", cwd="/",
        env={}, idempotency_key="",
    )  # fmt: skip
