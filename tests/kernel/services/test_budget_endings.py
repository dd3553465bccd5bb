"""An attempt that ends for want of money or time: where its instruction goes, by whose budget it was."""

from pathlib import Path

import msgspec
import pytest

from kernel.rule.draft import Draft, MemberSpec, RunSpec
from kernel.store.transitions.append import append
from protocol.api.runs import RunOptions
from protocol.budget import RunBudget
from protocol.instruction import Usage
from protocol.ipc import Entry, Exited, Result, Start
from protocol.names import AgentKey
from protocol.workflow import WorkflowDefinition
from tests.kernel.services.kernel_core import Core, PlayedLauncher, core

SPACE = "review:main"
OUT = Result(status="incomplete", cause="budget")
MEMBER = b'{"name":"ann","backend":"mock","mock":[]}'


async def start(it: Core, mode: str) -> str:
    """A workflow of one agent that may spend half a dollar."""
    ann = MemberSpec(name="ann", key=AgentKey(f"ann@{SPACE}"), origin="inline", definition=MEMBER)
    payload = RunSpec(
        name="review", tag="main", mode=mode, file="review.yaml",  # type: ignore[arg-type]
        definition=msgspec.json.encode(WorkflowDefinition(name="review", agents={})),
        members=(ann,), kickoff="@ann go", options=RunOptions(budget=RunBudget(usd=0.5)),
        wall_time_ms=None, deadline_ms=None,
    )  # fmt: skip
    draft = Draft(kind="status", space=SPACE, sender="system", text="started", payload=payload)
    return (await it.writer.commit(append, draft)).instruction_ids[0]


@pytest.mark.parametrize(
    ("mode", "spent", "status"),
    [("start", 0.6, "waiting"), ("run", 0.6, "incomplete"), ("start", 0.3, "incomplete")],
)
async def test_a_program_that_stops_at_its_own_count_waits_where_a_workflow_s_money_is_gone(
    tmp_path: Path, mode: str, spent: float, status: str
) -> None:
    """Promise P27: of a started workflow it goes on once somebody continues it; otherwise it is incomplete."""
    async with core(tmp_path, PlayedLauncher()) as it:
        instruction = await start(it, mode)
        worker = await it.launcher.next()
        await worker.say()
        told = await worker.hear()
        assert isinstance(told, Start) and told.budget_usd == pytest.approx(0.5)
        await worker.say(Entry(k=0, kind="reply", text="x", usage=Usage(input_tokens=1, cost_usd=spent)), OUT)
        await worker.leave(Exited(code=1))
        assert await it.until(instruction, lambda now: now in ("waiting", "incomplete")) == status
