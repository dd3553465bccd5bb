"""Votes end in time, though nothing else happens in the kernel."""

import pytest

from kernel.rule.draft import Author
from kernel.services.timers import Deadlines
from kernel.store import voting
from kernel.store.database import MEMORY
from kernel.store.transitions.voting import create
from protocol.names import InstructionId
from tests.kernel.store.busy_workspace import STARVATION_MS, asked
from tests.kernel.store.running_store import open_store


@pytest.mark.promise("P24")
async def test_a_vote_that_wakes_nobody_is_known_to_the_alarm_and_ended_by_it() -> None:
    """Its only elector is who called for it; the alarm looks again at once, and next at the deadline."""
    async with open_store(MEMORY) as store:
        space = await store.workflow("alice")
        await store.given(space, "work", to=("alice",))
        wake = store.feed.new_wake()
        deadlines = Deadlines(log=store.log, wake=wake, starvation_ms=STARVATION_MS)
        wake.clear()
        await store.writer.commit(create, space, asked(seconds=20), author=Author(InstructionId("i1"), 1))
        assert wake.clear()
        assert await deadlines.run_once() == pytest.approx(20)
        store.clock.now_ms += 20_000
        await deadlines.run_once()
        ended = store.reader.now(voting.one, space, "p1")
        assert ended is not None
        assert (ended.state, ended.why) == ("expired", "deadline")
        assert wake.clear()
