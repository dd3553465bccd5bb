"""The end of runs, on a real store."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import msgspec
import pytest

from kernel.operations.runs import OneRun, show
from kernel.rule.draft import Draft
from kernel.services.runs import Runs
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from kernel.store.transitions.runs import RunJudgement, end_run, stop_workflow
from kernel.store.writer import StoreLog, Writer
from protocol.api.runs import RunOptions
from protocol.errors import Cause, Refused
from protocol.workflow import WorkflowDefinition
from tests.kernel.services.budget_kernel import MemoryKernel, alive
from tests.kernel.store.running_store import started

NOW_MS = 1_000_000


class Scene(MemoryKernel):
    """Runs of alice."""

    async def start(
        self, kickoff: str, deadline_ms: int | None = None, schema: dict[str, Any] | None = None, exit_from: str = ""
    ) -> None:
        definition = msgspec.json.encode(WorkflowDefinition(name="review", agents={}, output_schema=schema))
        options = RunOptions(exit_from=exit_from or None)
        draft = started("alice", definition=definition, kickoff=kickoff, deadline_ms=deadline_ms, options=options)
        await self.writer.commit(append, draft)


@pytest.fixture
async def it() -> AsyncGenerator[Scene]:
    async with alive(Scene()) as made:
        yield made


@pytest.mark.promise("P26")
async def test_a_run_that_woke_nobody_ends_at_once(it: Scene) -> None:
    await it.start("hello nobody")
    await it.runs.run_once()
    assert (it.run().state, it.run().status, it.run().exit_code) == ("stopped", "done", 0)


@pytest.mark.promise("P26")
async def test_a_run_with_open_work_goes_on_until_its_deadline(it: Scene) -> None:
    """Exit 124: the nap lasts no longer than the time that is left."""
    await it.start("@alice go", deadline_ms=NOW_MS + 5000)
    assert await it.runs.run_once() == 5.0
    assert it.run().state == "running"
    it.now_ms += 5000
    await it.runs.run_once()
    assert (it.run().status, it.run().exit_code) == ("timeout", 124)


async def test_a_run_that_somebody_stops_meanwhile_harms_nobody(it: Scene) -> None:
    await it.start("hello nobody")
    await it.writer.commit(stop_workflow, "review:main", "cancelled", 130)
    assert await it.writer.commit(end_run, 1) is False
    assert (it.run().status, it.run().exit_code) == ("cancelled", 130)


@pytest.mark.promise("P26", "TF11")
async def test_what_is_said_after_the_look_and_before_the_verdict_is_not_lost(it: Scene) -> None:
    await it.start("hello nobody")
    await it.writer.commit(append, Draft(kind="said", space="review:main", sender="user", text="@alice wait"))
    assert await it.writer.commit(end_run, 1) is False
    assert it.run().state == "running"


@pytest.mark.promise("SF03")
async def test_a_store_that_is_full_for_a_moment_does_not_end_the_kernel(it: Scene) -> None:
    await it.start("hello nobody")
    full = cast(Writer, _Full())
    runs = Runs(log=StoreLog(it.reader, full, lambda: it.now_ms), wake=it.feed.new_wake())
    assert await runs.run_once() <= 1.0
    assert it.run().state == "running"
    await it.runs.run_once()
    assert it.run().state == "stopped"


class _Full:
    """A writer on a full disk."""

    async def commit(self, *_: object) -> None:
        raise Refused("storage_full", "the disk is full")


@pytest.mark.parametrize(("cause", "exit_code"), [("untrusted", 7), ("auth", 4), ("invalid", 1)])
async def test_why_the_work_of_a_run_failed_gives_its_exit_code(it: Scene, cause: Cause, exit_code: int) -> None:
    """contracts 7: the same code as ``send --wait`` gives, in the run's report."""
    await it.start("@alice go")
    assert await it.writer.commit(lease, "i1", b"t") is not None
    await it.writer.commit(close, "i1", 1, status="failed", cause=cause)
    await it.runs.run_once()
    report = it.reader.now(show, OneRun(run="review:main"), it.now_ms)
    assert (report.status, report.exit_code) == ("failed", exit_code)


@pytest.mark.parametrize(
    ("text", "status", "output", "told"),
    [
        ('{"verdict": "ok"}', "done", {"verdict": "ok"}, "all work is done"),
        ("LGTM", "failed", None, "the final answer does not match output_schema: not JSON"),
        ("", "failed", None, "the final answer does not match output_schema: the run has no answer"),
    ],
)
async def test_the_final_answer_of_a_run_has_to_fit_its_schema(
    it: Scene, text: str, status: str, output: object, told: str
) -> None:
    """contracts 1: output_schema; a mismatch is exit 1, with a text that says why."""
    await it.start("@alice go", schema={"type": "object", "required": ["verdict"]})
    assert await it.writer.commit(lease, "i1", b"t") is not None
    await it.writer.commit(close, "i1", 1, status="done", text=text)
    assert await it.writer.commit(end_run, 1, RunJudgement(seq=1, misfit=None)) is False
    await it.runs.run_once()
    report = it.reader.now(show, OneRun(run="review:main"), it.now_ms)
    assert (report.status, report.exit_code, report.output) == (status, int(status == "failed"), output)
    assert told in report.messages[-1].text


async def test_a_run_may_answer_for_one_agent_only(it: Scene) -> None:
    """contracts 7: --exit-code-from."""
    await it.start("@alice go", exit_from="alice")
    assert await it.writer.commit(lease, "i1", b"t") is not None
    await it.writer.commit(close, "i1", 1, status="incomplete", cause="max_steps")
    await it.runs.run_once()
    assert (it.run().status, it.run().exit_code) == ("incomplete", 6)
