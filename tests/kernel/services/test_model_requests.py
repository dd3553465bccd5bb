"""The allowance of requests that an attempt sends through the gateway, and whose usage is booked."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.agents.models import each_model
from kernel.gateway.access import Count, May, ModelAccess
from kernel.gateway.exchange import Asked
from kernel.services.model_access import ModelGrant, grants_of
from kernel.services.model_requests import ModelGateway, ModelRequests
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.ipc import Provider, Result
from protocol.limits import RunBudget
from protocol.ndjson import encode
from protocol.project import ProjectDefinition, ProjectModels
from tests.kernel.services.budget_kernel import BudgetKernel, alive
from tests.kernel.services.kernel_core import PlayedLauncher, core
from tests.shorthand import present

CALL = Usage(input_tokens=600, output_tokens=400)
EXEC = AgentDefinition(name="ann", backend="exec", command=("x",), max_tokens=1000)


async def admitted(kernel: BudgetKernel, definition: AgentDefinition) -> tuple[ModelRequests, May, Count, str]:
    """Begin an attempt of ``definition``, whose programs may call a provider."""
    (instruction,) = await kernel.start("@ann go", RunBudget())
    leased = await kernel.begin(instruction, definition)
    told: list[Any] = []

    def admit(*given: Any) -> None:
        told.extend(given)

    gateway: Any = SimpleNamespace(admit=admit)
    models = ModelGateway(gateway=gateway, environ={})
    requests = ModelRequests(
        leased=leased, models=models, budgets=kernel.budgets, writer=kernel.writer, placeholder="awk-i1-1-x"
    )
    grant = ModelGrant(provider=Provider(name="openai", dialect="openai"), source="")
    start: Any = SimpleNamespace(backend=definition.backend, mcp_servers={}, secrets=(), env={}, token="t")
    frame: Any = SimpleNamespace(grants=(grant,), definition=definition, start=start)
    requests.admit(frame, ProjectDefinition(), lambda: kernel.now_ms)
    return requests, told[2], told[3], instruction


async def test_parallel_requests_exceed_a_budget_by_one_call_at_most() -> None:
    definition = msgspec.structs.replace(
        EXEC, budget=msgspec.convert({"instruction": {"tokens": 2500}}, type(EXEC.budget))
    )
    async with alive(BudgetKernel()) as kernel, trio.open_nursery() as nursery:
        requests, may, count, _ = await admitted(kernel, definition)
        sent: list[int] = []

        async def ask(number: int) -> None:
            await may()
            sent.append(number)

        for number in range(20):
            nursery.start_soon(ask, number)
        for calls in (3, 3, 3):
            await trio.testing.wait_all_tasks_blocked()
            assert len(sent) == calls, "each reserves an answer of 1000 tokens"
            count("gpt-5", CALL)
        await trio.testing.wait_all_tasks_blocked()
        assert len(sent) == 3 and not requests.session.cancel_called
        nursery.cancel_scope.cancel()


async def test_requests_of_a_tool_server_do_not_replace_the_usage_of_the_built_in_loop() -> None:
    definition = AgentDefinition(name="ann", backend="sdk", max_tokens=1000)
    async with alive(BudgetKernel()) as kernel:
        _, may, count, instruction = await admitted(kernel, definition)
        await may()
        count("gpt-5", CALL)
        reported = Usage(input_tokens=7, cost_usd=0.5)
        assert kernel.budgets.priced(reported, instruction) == reported
        assert present(kernel.budgets.unbooked(instruction)).tokens == CALL.tokens


async def test_a_placeholder_is_refused_from_the_reply_on_although_the_worker_has_not_left(tmp_path: Path) -> None:
    async with core(tmp_path, PlayedLauncher()) as it:
        instruction = await it.send()
        worker = await it.launcher.next()
        await worker.say()
        await worker.hear()
        provider = Provider(name="openai", dialect="openai")
        access = ModelAccess(attempt=f"{instruction}-1", provider=provider, models=frozenset())
        it.gateway.admit(access, "awk-x", trio.lowlevel.checkpoint, lambda _model, _usage: None)
        await worker.outbox.send_all(encode(Result(status="done", text="hi")))
        await it.until(instruction, lambda status: status == "done")
        nothing: Any = None
        path, fields = b"openai/v1/responses", [(b"api-key", b"awk-x")]
        asked = Asked("POST", path, b"", fields, nothing, nothing, nothing, nothing)
        with pytest.raises(Refused, match="placeholder"):
            await it.gateway.answer(asked, lambda _leave: nullcontext(), lambda _holder: None)


@pytest.mark.parametrize("model", ["", ("openai/gpt-5", "anthropic/claude-x")])
def test_a_program_of_ones_own_gets_only_the_models_that_have_a_key(model: str | tuple[str, ...]) -> None:
    definition = msgspec.structs.replace(EXEC, model=model)
    project = ProjectDefinition(models=ProjectModels(default=("anthropic/claude-x", "openai/gpt-5")))
    choices = each_model(definition, project)
    found = grants_of(definition, choices, project, {"OPENAI_API_KEY": "k"}, ())
    assert [one.key for one in found] == ["OPENAI_API_KEY"]
