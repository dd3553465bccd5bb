"""What an agent asks of a machine is known where work is chosen: by its file, or by the workflow it is a member of."""

import pytest

from kernel.rule.draft import MemberSpec
from kernel.store import instructions
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.needs import snapshot
from kernel.store.transitions.append import append_and_lease
from kernel.store.waits import node_is_there, wait_for_node, waiting_for_node
from protocol.limits import PlaceNeeds
from protocol.names import AgentKey, InstructionId
from tests.kernel.services.kernel_core import Core
from tests.kernel.store.running_store import Store, token_hash

pytestmark = pytest.mark.promise("P88")

GPU = PlaceNeeds(labels=("gpu",), memory=2**33, gpus=1)
ALICE = AgentKey("alice")


async def alice(store: Store, needs: bytes) -> None:
    definition = b'{"model":"mock/m"' + (b',"needs":' + needs if needs else b"") + b"}"
    await store.writer.commit(put_agents, [AgentSpec(key=ALICE, origin="file", definition=definition)])


def needed(store: Store) -> list[PlaceNeeds]:
    return [one.needs for one in store.reader.now(instructions.ready, store.clock.now_ms, 10)]


async def test_it_is_read_from_the_file_and_follows_it(store: Store) -> None:
    await alice(store, b'{"labels":["gpu"],"memory":8589934592,"gpus":1}')
    await store.said("dm:alice", "x")
    assert needed(store) == [GPU]
    await alice(store, b"")
    assert needed(store) == [PlaceNeeds()]


@pytest.mark.parametrize(
    ("own", "there", "counts"),
    [
        (b"", '{"labels":["gpu"],"memory":8589934592,"gpus":1}', GPU),
        (b'{"labels":["gpu"]}', "{}", PlaceNeeds()),
        (b'{"labels":["gpu"]}', None, PlaceNeeds(labels=("gpu",))),
    ],
)
async def test_a_workflow_may_have_its_own_for_a_member(
    store: Store, own: bytes, there: str | None, counts: PlaceNeeds
) -> None:
    await alice(store, own)
    space = await store.workflow(MemberSpec(name="alice", key=ALICE, origin="file", needs=there))
    await store.said(space, "@alice go", to=("alice",))
    assert needed(store) == [counts]


async def test_who_asks_for_a_machine_is_not_leased_with_its_message(store: Store) -> None:
    await alice(store, b'{"gpus":1}')
    _, leased = await store.writer.commit(append_and_lease, Core.draft(), ALICE, token_hash("x"))
    assert leased is None
    await alice(store, b"")
    _, leased = await store.writer.commit(append_and_lease, Core.draft(), ALICE, token_hash("y"))
    assert leased is not None


async def test_what_waits_for_a_node_is_in_the_needs_until_one_is_there(store: Store) -> None:
    """Only what waits for that is let go."""
    await alice(store, b'{"labels":["gpu"]}')
    await store.said("dm:alice", "x")
    i1 = InstructionId("i1")
    await store.writer.commit(wait_for_node, (i1, InstructionId("i9")))
    assert [one.id for one in store.reader.now(waiting_for_node)] == [i1]
    (blocked,) = store.reader.now(snapshot, store.clock.now_ms).blocked
    assert blocked.needs == PlaceNeeds(labels=("gpu",))
    await store.writer.commit(node_is_there, (i1,))
    assert (store.reader.now(waiting_for_node), len(needed(store))) == ((), 1)
    await store.writer.commit(node_is_there, (i1,))
    assert len(needed(store)) == 1
