"""Grants in the log: a sample of what ``scripts/soak grants`` tries for long."""

import pytest

from kernel.policy.grants import WantedGrant
from kernel.store import grants
from kernel.store.transitions.grants import give
from protocol.names import AgentKey
from tests.kernel.store.grant_chains import attacks, trial
from tests.kernel.store.running_store import Store
from tests.kernel.store.test_runs import begin, end

pytestmark = pytest.mark.promise("P61", "P62")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_given_handed_on_revoked_and_used_no_effect_is_without_authority(seed: int) -> None:
    trial(seed)


def test_what_another_has_is_nobody_elses() -> None:
    assert attacks(1, 2_000) > 0


async def test_a_grant_of_an_earlier_run_does_not_count_in_a_run_that_continues_it(store: Store) -> None:
    first = await begin(store, "helper", kickoff="@helper one")
    await store.writer.commit(give, first.space, WantedGrant("votes", None, None), "helper")
    key = AgentKey(str(store.database.writer().execute("SELECT agent FROM grants").get))
    assert len(store.reader.now(grants.book, key, first.space, first.run)) == 1
    await end(store, first)
    again = await begin(store, "helper", continues=True)
    assert again.space == first.space
    assert store.reader.now(grants.book, key, again.space, again.run) == {}
