"""Who is passed over because its provider has no room holds up nobody, however many of them there are."""

from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from kernel.policy.scheduling import Limits
from kernel.rule.draft import Author
from kernel.services.dispatcher import Dispatcher
from kernel.services.kept_workers import Place
from kernel.services.running_attempt import RunningAttempt
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.approvals import Call
from kernel.store.transitions.approvals import ask
from protocol.names import AgentKey, InstructionId
from tests.kernel.store.running_store import open_store

WORKERS = 2


@dataclass
class Notes:
    """In place of attempts: what was to be run, and nothing runs."""

    begun: list[str] = field(default_factory=list)
    running: dict[str, RunningAttempt] = field(default_factory=dict)

    async def lease(self, instruction: str, _place: Place) -> None:
        self.begun.append(instruction)
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "limits", [Limits(WORKERS, each_provider=1), Limits(WORKERS, {"anthropic": 1})], ids=["each", "named"]
)
async def test_a_full_provider_with_more_agents_than_workers_holds_up_nobody_else(limits: Limits) -> None:
    models = {**{f"a{n}": "anthropic/m" for n in range(5)}, "z": "openai/m"}
    async with open_store(":memory:") as store:
        specs = [
            AgentSpec(key=AgentKey(name), origin="file", definition=b'{"model":"%s"}' % model.encode())
            for name, model in models.items()
        ]
        await store.writer.commit(put_agents, specs)
        for name in models:
            await store.said(f"dm:{name}", "x")
        notes = Notes()
        dispatcher = Dispatcher(
            reader=store.reader,
            wake=store.feed.new_wake(),
            attempts=notes,  # type: ignore[arg-type]
            limits=limits,
            pressed=lambda: False,
            now_ms=store.clock,
        )
        async with trio.open_nursery() as nursery:
            dispatcher.run_once(nursery)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(notes.begun) == ["i1", "i6"]
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("limits", [Limits(1), Limits(3, each_provider=1)], ids=["workers", "provider"])
async def test_a_worker_whose_call_waits_for_a_person_takes_nobodys_place(limits: Limits) -> None:
    async with open_store(":memory:") as store:
        await store.agents("ann", "bob")
        for name in ("ann", "bob", "ann"):
            await store.said(f"dm:{name}", "x")
        notes = Notes()
        dispatcher = Dispatcher(
            reader=store.reader,
            wake=store.feed.new_wake(),
            attempts=notes,  # type: ignore[arg-type]
            limits=limits,
            pressed=lambda: False,
            now_ms=store.clock,
        )
        async with trio.open_nursery() as nursery:
            dispatcher.run_once(nursery)
            await trio.testing.wait_all_tasks_blocked()
            await store.take("i1")
            assert dispatcher.run_once(nursery) == 0
            call = Call(key="toolu_1", tool="Bash", input=b"{}", held=True)
            await store.writer.commit(ask, Author(InstructionId("i1"), 1), call, store.clock.now_ms + 1000)
            assert dispatcher.run_once(nursery) == 1
            await trio.testing.wait_all_tasks_blocked()
            assert notes.begun == ["i1", "i2"]
            nursery.cancel_scope.cancel()
