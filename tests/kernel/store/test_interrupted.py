"""What a worker is told of the attempts before it: whether a call may have been under way when one broke off."""

from typing import Final

import pytest

from kernel.store.transitions.requeue import Requeue
from protocol.ipc import Entry
from tests.kernel.store.running_store import Store

pytestmark = pytest.mark.promise("P4")

ENTRY: Final = Entry(k=0, kind="reply", stop_reason="tool_use")


def put_back(outcome: str) -> Requeue:
    return Requeue(status="yielded" if outcome == "yielded" else "queued", outcome=outcome)


@pytest.mark.parametrize(
    ("outcomes", "interrupted"),
    [
        ((), False),
        (("yielded",), False),
        (("yielded", "held back", "over budget"), False),
        (("crash",), True),
        (("kernel_restart",), True),
        (("the kernel is stopping",), True),
        (("crash", "held back", "yielded"), True),
    ],
)
async def test_only_what_may_have_begun_is_in_doubt(store: Store, outcomes: tuple[str, ...], interrupted: bool) -> None:
    await store.agents("alice")
    leased = await store.given("dm:alice", "work")
    assert leased.interrupted is False
    if outcomes:
        await store.journal("i1", leased.epoch, ENTRY)
    for outcome in outcomes:
        await store.requeue("i1", leased.epoch, put_back(outcome))
        store.clock.now_ms += 60_000
        leased = await store.take("i1")
    assert leased.interrupted is interrupted


async def test_the_next_entry_ends_the_doubt(store: Store) -> None:
    await store.agents("alice")
    first = await store.given("dm:alice", "work")
    await store.requeue("i1", first.epoch, put_back("crash"))
    store.clock.now_ms += 60_000
    second = await store.take("i1")
    await store.journal("i1", second.epoch, ENTRY)
    await store.requeue("i1", second.epoch, put_back("yielded"))
    store.clock.now_ms += 1
    assert (second.interrupted, (await store.take("i1")).interrupted) == (True, False)


@pytest.mark.promise("P5")
async def test_what_a_message_goes_on_with_may_have_been_cut_off_in_a_call(store: Store) -> None:
    """Incomplete because its time was over while a tool ran: to continue is not to run that again unseen."""
    await store.agents("alice")
    first = await store.given("dm:alice", "work")
    await store.journal("i1", first.epoch, ENTRY)
    await store.close("i1", first.epoch, status="incomplete", cause="total_timeout")
    leased = await store.given("dm:alice", "continue")
    assert (leased.continues, leased.interrupted) == (1, True)
    await store.requeue("i2", leased.epoch, put_back("over budget"))
    store.clock.now_ms += 60_000
    leased = await store.take("i2")
    assert leased.interrupted is True
    await store.journal("i2", leased.epoch, Entry(k=2, kind="tool"))
    await store.requeue("i2", leased.epoch, put_back("yielded"))
    store.clock.now_ms += 60_000
    assert (await store.take("i2")).interrupted is False
