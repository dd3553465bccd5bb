"""A kernel that comes after one that died has agents wait that were on a node, until nothing of them can be there."""

from typing import cast

import pytest

from kernel.policy.scheduling import FENCE_SECONDS
from kernel.store import instructions
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.snapshot import AWAY
from kernel.store.transitions.close import reply
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.steering import reset_agent
from protocol.ipc import Entry
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store, token_hash
from tests.kernel.store.test_circuit_breakers import ready
from tests.shorthand import present

pytestmark = pytest.mark.promise("P88")

FENCE_MS = round(FENCE_SECONDS * 1000)
ON_GPU = b'{"model":"mock/m","needs":{"labels":["gpu"]}}'


async def on_node(store: Store, name: str, number: int) -> None:
    spec = AgentSpec(key=AgentKey(name), origin="file", definition=ON_GPU)
    await store.writer.commit(put_agents, [spec])
    await store.said(f"dm:{name}", "x")
    assert await store.writer.commit(lease, f"i{number}", token_hash(f"i{number}"), "n1") is not None


async def test_what_was_on_a_node_is_leased_no_sooner_than_its_lease_is_over_also_not_by_a_reset(store: Store) -> None:
    await on_node(store, "ann", 1)
    await store.agents("bob")
    await store.given("dm:bob", "x")
    await store.said("dm:ann", "more")
    at_ms = store.clock.now_ms = store.clock.now_ms + 1000
    recovered = await store.writer.commit(recover)
    assert set(recovered.requeued) == {"i1", "i2"}
    assert ready(store) == ["i2"]
    await store.writer.commit(reset_agent, AgentKey("ann"))
    assert ready(store) == ["i2"]
    assert await store.writer.commit(lease, "i1", token_hash("early"), "n2") is None
    assert await store.writer.commit(lease, "i3", token_hash("early"), "n2") is None
    assert store.reader.now(instructions.next_due_ms, store.clock.now_ms) == at_ms + FENCE_MS
    store.clock.now_ms = at_ms + FENCE_MS
    assert ready(store) == ["i1", "i2"]
    leased = present(await store.writer.commit(lease, "i1", token_hash("later"), "n2"))
    assert (leased.attempts, leased.crashes) == (1, 0)


async def test_an_attempt_that_had_replied_is_waited_for_too(store: Store) -> None:
    await on_node(store, "ann", 1)
    await store.writer.commit(reply, "i1", 1, "done", None)
    await store.said("dm:ann", "more")
    await store.writer.commit(recover)
    assert ready(store) == []
    store.clock.now_ms += FENCE_MS
    assert ready(store) == ["i2"]


async def test_a_last_reply_does_not_end_work_whose_files_are_still_on_a_node(store: Store) -> None:
    await on_node(store, "ann", 1)
    await store.journal("i1", 1, Entry(k=0, kind="reply", text="done", stop_reason="end_turn"))
    recovered = await store.writer.commit(recover)
    assert (recovered.requeued, recovered.closed) == (("i1",), ())


async def test_of_a_copy_of_the_log_everybody_who_may_be_on_a_node_is_waited_for(store: Store) -> None:
    """The original may have leased what the copy has only queued."""
    await store.agent("ann", ON_GPU)
    await store.agents("bob")
    for name in ("ann", "bob"):
        await store.said(f"dm:{name}", "x")
    assert ready(store) == ["i1", "i2"]
    await store.writer.commit(lambda tx: tx.write(AWAY, ()))
    await store.writer.commit(recover)
    assert ready(store) == ["i2"]
    store.clock.now_ms += FENCE_MS
    assert ready(store) == ["i1", "i2"]


async def test_the_node_that_an_agent_worked_on_last_is_remembered(store: Store) -> None:
    await on_node(store, "ann", 1)
    await store.writer.commit(reply, "i1", 1, "done", None)
    await store.said("dm:ann", "more")
    (candidate,) = store.reader.now(instructions.ready, store.clock.now_ms, 10)
    assert (candidate.prefer, candidate.needs.labels) == ("n1", ("gpu",))
    rows = store.reader.now(
        lambda conn: cast("list[tuple[object]]", conn.execute("SELECT node FROM attempts").fetchall())
    )
    assert rows == [("n1",)]
