"""Making room: what an attempt is told after each entry, and where its instruction goes on."""

import msgspec
import pytest
import trio.testing

from kernel.rule.draft import Author, Draft
from kernel.store import entries, instructions
from kernel.store.agents import set_agent_state
from kernel.store.approvals import GatedCall
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.approvals import approve, ask
from protocol.ipc import Entry, Exited, Go, Result, Start, Stop, ToolCall, Yield
from protocol.names import AgentKey, InstructionId
from tests.kernel.services.kernel_core import Core, PlayedWorker

ASKS = Entry(k=0, kind="reply", calls=(ToolCall(id="c", name="shell"),), stop_reason="tool_use")
TOOL = Entry(k=1, kind="tool", call_id="c", name="shell", text="ok")
PUSH = GatedCall(key="toolu_1", tool="Bash", input=b'{"command":"git push"}', held=True)
YIELDED = Result(status="yielded")


async def send_background(it: Core) -> str:
    """A message to alice whose instruction is in the last lane."""
    draft = Draft(kind="said", space="dm:alice", sender="user", text="long work", to=("alice",))

    def job(tx: Transaction) -> str:
        (instruction,) = append(tx, draft).instruction_ids
        tx.conn.execute("UPDATE instructions SET lane = 2").fetchall()
        return instruction

    return await it.writer.commit(job)


async def told(worker: PlayedWorker) -> object:
    """The kernel's next word that is neither a start nor a ping."""
    while isinstance(frame := await worker.hear(), Start):
        pass
    return frame


@pytest.mark.promise("P11", "TF06")
async def test_a_dm_takes_the_place_of_background_work_at_its_next_entry(it: Core) -> None:
    long = await send_background(it)
    first = await it.launcher.next()
    await first.say(ASKS)
    assert await told(first) == Go(k=0)
    urgent = await it.send("urgent")
    await first.say(TOOL)
    assert await told(first) == Yield(k=1)
    await first.finish(YIELDED)
    second = await it.launcher.next(2)
    assert it.status(urgent) == "leased" and it.status(long) == "yielded"
    await second.finish(Entry(k=0, kind="reply", text="done", stop_reason="end_turn"), Result(status="done"))
    third = await it.launcher.next(3)
    await third.say()
    start = await third.hear()
    assert isinstance(start, Start) and start.instruction == long and len(start.entries) == 2
    (row,) = it.reader.now(instructions.open_in, "dm:alice")
    assert row.instruction == long and len(it.reader.now(entries.of, long)) == 2


async def test_a_paused_agent_stops_after_its_entry_and_keeps_its_place(it: Core) -> None:
    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.say(ASKS)
    assert await told(worker) == Go(k=0)
    await it.writer.commit(set_agent_state, AgentKey("alice"), "paused")
    await worker.say(TOOL)
    assert await told(worker) == Yield(k=1)
    await worker.finish(YIELDED)
    await it.until(instruction, lambda status: status == "yielded")
    assert it.reader.now(instructions.ready, it.now_ms, 10) == ()
    await it.writer.commit(set_agent_state, AgentKey("alice"), "active")
    await it.launcher.next(2)


@pytest.mark.promise("P11")
async def test_work_that_is_as_urgent_waits_its_turn(it: Core) -> None:
    await it.send("one")
    worker = await it.launcher.next()
    await worker.say(ASKS)
    assert await told(worker) == Go(k=0)
    await it.send("two")
    await worker.say(TOOL)
    assert await told(worker) == Go(k=1)


async def test_a_call_that_waits_for_a_person_keeps_no_other_work_of_its_agent(it: Core) -> None:
    long = await it.send("push it")
    first = await it.launcher.next()
    await first.say(ASKS)
    assert await told(first) == Go(k=0)
    with it.attempts.hold(long):
        await it.writer.commit(ask, Author(InstructionId(long), 1), PUSH, it.now_ms + 60_000)
        urgent = await it.send("what is the time?")
        assert isinstance(await told(first), Stop)
    await first.leave(Exited(code=0))
    second = await it.launcher.next(2)
    assert it.status(urgent) == "leased" and it.status(long) == "waiting"
    await second.finish(Entry(k=0, kind="reply", text="late", stop_reason="end_turn"), Result(status="done"))
    await it.until(urgent, lambda status: status == "done")
    await it.writer.commit(approve, "a1")
    await it.launcher.next(3)
    again = msgspec.structs.replace(PUSH, key="toolu_2")
    asked = await it.writer.commit(ask, Author(InstructionId(long), 2), again, it.now_ms + 60_000)
    assert (asked.id, asked.state, asked.first) == ("a1", "granted", True)


async def test_a_call_that_waits_for_a_person_goes_on_waiting_where_nothing_else_is_to_do(it: Core) -> None:
    long = await it.send("push it")
    first = await it.launcher.next()
    await first.say(ASKS)
    assert await told(first) == Go(k=0)
    with it.attempts.hold(long):
        await it.writer.commit(ask, Author(InstructionId(long), 1), PUSH, it.now_ms + 60_000)
        await it.writer.commit(set_agent_state, AgentKey("alice"), "paused")
        await it.send("what is the time?")
        await trio.testing.wait_all_tasks_blocked()
        assert it.attempts.running[long].stop_reason is None
        await it.writer.commit(set_agent_state, AgentKey("alice"), "active")
        assert isinstance(await told(first), Stop)
