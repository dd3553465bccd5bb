"""What people do to an agent's work: hold it back, let it go on, begin it anew. Agents are named by their keys."""

from collections.abc import Callable

import msgspec

from kernel.api.context import Services
from kernel.api.http.once import once
from kernel.api.http.route import Call
from kernel.api.http.spaces import agent_key
from kernel.api.reply import Reply
from kernel.store import agents
from kernel.store.commits import pause
from kernel.store.commits.roster import AgentSpec, put_agents
from kernel.store.transaction import Transaction
from protocol.api.agents import AgentChanged
from protocol.names import AgentKey, InstructionId, place_of

Change = Callable[[Transaction, AgentKey], tuple[InstructionId, ...] | None]


async def reset(services: Services, call: Call[None]) -> Reply:
    """POST /agents/:name/reset: give it work again at once, whatever state it was in."""
    return await _change(services, call, pause.reset_agent)


async def stop(services: Services, call: Call[None]) -> Reply:
    """POST /agents/:name/stop: no work until it is resumed or reset; the dispatcher ends what it does."""
    return await _change(services, call, pause.stop_agent)


async def restart(services: Services, call: Call[None]) -> Reply:
    """POST /agents/:name/restart: as reset, and what it does goes on in a new worker, after its last entry.

    Asked once more with the same key, it leaves alone what the agent does by then.
    """
    begun = False

    def reset_now(tx: Transaction, key: AgentKey) -> tuple[InstructionId, ...]:
        nonlocal begun
        begun = True
        return pause.reset_agent(tx, key)

    answer = await _change(services, call, reset_now)
    if begun:
        services.interrupt(agent_key(services, call.args["name"]))
    return answer


async def hold(services: Services, call: Call[None]) -> Reply:
    """POST /agents/:name/pause: no new work; what runs gives way after its next entry."""
    return await _change(services, call, pause.pause_agent)


async def resume(services: Services, call: Call[None]) -> Reply:
    """POST /agents/:name/resume: after a pause or a stop, or where it waits for a provider or a key."""
    return await _change(services, call, pause.resume_agent)


async def go_on(services: Services, call: Call[None]) -> Reply:
    """POST /agents/:name/continue: its budget once more."""
    return await _change(services, call, pause.continue_agent)


async def _change(services: Services, call: Call[None], change: Change) -> Reply:
    key = agent_key(services, call.args["name"])
    await make_known(services, key)

    def make(tx: Transaction) -> AgentChanged:
        freed = change(tx, key) or ()
        return _as_it_is(tx, key, freed)

    return Reply(200, await services.writer.commit(once, call.request_key, make, status=200))


def _as_it_is(tx: Transaction, key: AgentKey, freed: tuple[InstructionId, ...]) -> AgentChanged:
    """What somebody decided comes first: what runs may give way only after its next entry."""
    record, looks = agents.row(tx.conn, key), agents.process(tx.conn, key, tx.now_ms)
    assert record is not None, key
    assert looks is not None, key
    decided = record.state != "active"
    return AgentChanged(
        name=record.name,
        space=None if record.home_space is None else place_of(record.home_space),
        state=looks.shown.state if record.state == "active" else record.state,
        reason=record.reason if decided else looks.shown.reason,
        until=None if decided else looks.shown.until,
        instructions=freed,
    )


async def make_known(services: Services, key: str) -> None:
    """Register an agent whose file came after the kernel last looked. Raises Refused (unknown_agent), BadDefinition."""
    if services.reader.now(agents.row, key) is None:
        loaded = services.catalog.agent(key)
        definition = msgspec.json.encode(loaded.definition)
        spec = AgentSpec(key=AgentKey(key), origin="file", file=loaded.path, definition=definition)
        await services.writer.commit(put_agents, [spec])
