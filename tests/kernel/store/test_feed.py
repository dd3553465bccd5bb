"""The feed and the wake."""

import pytest
import trio
import trio.testing

from kernel.services.guard import concerns_no_guard
from kernel.store.feed import Feed
from protocol.message import Event
from tests.shorthand import beside


def event(seq: int, kind: str = "instruction.step") -> Event:
    return Event(type=kind, at="2026-11-21T00:00:00.000Z", seq=seq)


@pytest.mark.promise("P22")
async def test_a_reader_gets_every_event_in_order() -> None:
    feed = Feed()
    with feed.subscribe() as watched, trio.fail_after(5):
        feed.publish([event(1), event(2)])
        feed.live(Event(type="delta", at="", data={"text": "x"}))
        assert [(await anext(watched)).seq for _ in range(3)] == [1, 2, None]


@pytest.mark.promise("LF05")
async def test_a_slow_reader_is_told_how_many_it_missed_where_they_are_missing() -> None:
    """contracts 4: lagged{n}, never silent; others notice nothing."""
    feed = Feed()
    with feed.subscribe(capacity=2) as slow, feed.subscribe() as quick, trio.fail_after(5):
        feed.publish([event(number) for number in range(1, 6)])
        first, second, lagged = [await anext(slow) for _ in range(3)]
        assert (first.seq, second.seq) == (1, 2)
        assert (lagged.type, lagged.data) == ("lagged", {"n": 3})
        feed.publish([event(6)])
        assert (await anext(slow)).seq == 6
        assert [(await anext(quick)).seq for _ in range(6)] == [1, 2, 3, 4, 5, 6]


async def test_work_that_is_leased_by_the_commit_that_brought_it_wakes_nobody() -> None:
    feed = Feed()
    wake = feed.new_wake()
    mine, other = (Event(type="instruction.queued", at="", seq=number, instruction=f"i{number}") for number in (1, 2))
    leased = Event(type="instruction.leased", at="", seq=3, instruction="i1")
    feed.publish([mine, leased])
    assert not wake.is_on
    feed.publish([mine, other, leased])
    assert wake.is_on


@pytest.mark.promise("LF04")
async def test_who_wants_few_types_is_not_even_asked_about_the_others() -> None:
    feed, asked = Feed(), list[int | None]()

    def wanted(one: Event) -> bool:
        asked.append(one.seq)
        return True

    with feed.subscribe(types={"instruction.ended", "bye"}, wanted=wanted) as ends, trio.fail_after(5):
        feed.publish([event(1), event(2, "instruction.ended"), event(3)])
        assert (await anext(ends)).seq == 2
    assert asked == [2]


@pytest.mark.promise("P10")
async def test_a_reader_that_left_is_forgotten() -> None:
    feed = Feed()
    with feed.subscribe() as left:
        pass
    feed.publish([event(1)])
    with trio.move_on_after(0) as nothing:
        await anext(left)
    assert nothing.cancelled_caught


@pytest.mark.promise("TF09")
async def test_a_wake_between_the_check_and_the_wait_is_not_lost() -> None:
    feed = Feed()
    wake = feed.new_wake()
    wake.clear()
    feed.publish([event(1, "instruction.queued")])
    with trio.fail_after(5):
        await wake.wait()


async def test_each_who_waits_has_a_wake_of_its_own() -> None:
    feed = Feed()
    other = feed.new_wake()
    feed.publish([event(1, "instruction.ended")])
    wake = feed.new_wake()
    wake.clear()
    with trio.fail_after(5):
        await other.wait()


@pytest.mark.promise("LF01")
async def test_what_changes_nothing_to_lease_wakes_nobody() -> None:
    feed = Feed()
    wake = feed.new_wake()
    feed.publish([event(1, "worker.log")])
    woken = False

    async def wait() -> None:
        nonlocal woken
        await wake.wait()
        woken = True

    async with beside(wait):
        await trio.testing.wait_all_tasks_blocked()
        assert not woken


@pytest.mark.parametrize(
    ("kind", "space", "ignored"),
    [("instruction.ended", "dm:alice", True), ("instruction.ended", "dm:guard", False),
     ("instruction.queued", "review", False), ("memory.proposed", "dm:alice", False)],
)  # fmt: skip
def test_the_guard_ignores_personal_work_of_others_only(kind: str, space: str, ignored: bool) -> None:
    assert concerns_no_guard(Event(type=kind, at="", space=space)) is ignored
