"""The parts of a request on their way to the task that answers it."""

import pytest
import trio
import trio.testing
from hypercorn.typing import ASGIReceiveEvent

from kernel.api.connection import WAITING_PARTS, ReceiveQueue

PART: ASGIReceiveEvent = {"type": "http.request", "body": b"x", "more_body": True}


async def test_what_is_there_costs_no_turn_and_comes_in_order() -> None:
    inbox = ReceiveQueue()
    with trio.testing.assert_no_checkpoints():
        await inbox.put(PART)
        await inbox.put({"type": "http.disconnect"})
        assert [(await inbox.receive())["type"] for _ in range(2)] == ["http.request", "http.disconnect"]


@pytest.mark.promise("HF11")
async def test_a_client_that_sends_faster_than_it_is_read_is_held_up(autojump_clock: trio.testing.MockClock) -> None:
    inbox = ReceiveQueue()
    for _ in range(WAITING_PARTS):
        await inbox.put(PART)
    with trio.move_on_after(1) as patience:
        await inbox.put(PART)
    assert patience.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.put, PART)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(WAITING_PARTS + 1):
            await inbox.receive()


@pytest.mark.promise("LF04")
@pytest.mark.parametrize("before", [False, True])
async def test_that_the_client_is_gone_is_told_once_to_who_waits(*, before: bool) -> None:
    inbox, gone = ReceiveQueue(), list[str]()
    if before:
        await inbox.put({"type": "http.disconnect"})
    with inbox.leaving(lambda: gone.append("gone")):
        await inbox.put(PART)
        if not before:
            await inbox.put({"type": "http.disconnect"})
        assert gone == ["gone"]
    await inbox.put({"type": "http.disconnect"})
    assert gone == ["gone"]


@pytest.mark.promise("HF11")
async def test_what_nobody_will_read_holds_nobody_up() -> None:
    inbox = ReceiveQueue()
    for _ in range(WAITING_PARTS):
        await inbox.put(PART)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.put, PART)
        await trio.testing.wait_all_tasks_blocked()
        inbox.close()
    await inbox.put(PART)
