"""Who is passed over because its provider has no room holds up nobody, however many of them there are."""

from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from kernel.policy.choose import Limits
from kernel.services.dispatcher import Dispatcher
from kernel.services.live import Live
from kernel.store.commits.roster import AgentSpec, put_agents
from protocol.names import AgentKey
from tests.kernel.store.house import open_house

WORKERS = 2


@dataclass
class Notes:
    """In place of attempts: what was to be run, and nothing runs."""

    begun: list[str] = field(default_factory=list)
    live: dict[str, Live] = field(default_factory=dict)

    async def run(self, instruction: str) -> None:
        self.begun.append(instruction)
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "limits", [Limits(WORKERS, each_provider=1), Limits(WORKERS, {"anthropic": 1})], ids=["each", "named"]
)
async def test_a_full_provider_with_more_agents_than_workers_holds_up_nobody_else(limits: Limits) -> None:
    """Issue 3, Build 10: per-provider limits; the last in line asks a provider that has room."""
    models = {**{f"a{n}": "anthropic/m" for n in range(5)}, "z": "openai/m"}
    async with open_house(":memory:") as house:
        specs = [
            AgentSpec(key=AgentKey(name), origin="file", definition=b'{"model":"%s"}' % model.encode())
            for name, model in models.items()
        ]
        await house.writer.commit(put_agents, specs)
        for name in models:
            await house.said(f"dm:{name}", "x")
        notes = Notes()
        dispatcher = Dispatcher(
            reader=house.reader,
            wake=house.feed.new_wake(),
            attempts=notes,  # type: ignore[arg-type]
            limits=limits,
            pressed=lambda: False,
            now_ms=house.clock,
        )
        async with trio.open_nursery() as nursery:
            dispatcher.run_once(nursery)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(notes.begun) == ["i1", "i6"]
            nursery.cancel_scope.cancel()
