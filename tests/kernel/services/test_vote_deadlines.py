"""Votes end in time, though nothing else happens in the house."""

import pytest

from kernel.rule.draft import Author
from kernel.services.timers import Deadlines
from kernel.store import voting
from kernel.store.database import MEMORY
from kernel.store.transitions.voting import create
from protocol.names import InstructionId
from tests.kernel.store.hall import STARVATION_MS, asked
from tests.kernel.store.house import open_house


@pytest.mark.promise("P24")
async def test_a_vote_that_wakes_nobody_is_known_to_the_alarm_and_ended_by_it() -> None:
    """Its only elector is who called for it; the alarm looks again at once, and next at the deadline."""
    async with open_house(MEMORY) as house:
        space = await house.workflow("alice")
        await house.said(space, "work", to=("alice",))
        await house.take("i1")
        wake = house.feed.new_wake()
        deadlines = Deadlines(
            reader=house.reader,
            writer=house.writer,
            wake=wake,
            now_ms=house.clock,
            starvation_ms=STARVATION_MS,
        )
        wake.clear()
        await house.writer.commit(create, space, asked(seconds=20), author=Author(InstructionId("i1"), 1))
        assert wake.clear()
        assert await deadlines.run_once() == pytest.approx(20)
        house.clock.now_ms += 20_000
        await deadlines.run_once()
        ended = house.reader.now(voting.one, space, "p1")
        assert ended is not None
        assert (ended.state, ended.why) == ("expired", "deadline")
        assert wake.clear()
