"""Fifty agents of one provider, refused at once: nobody is early, one tries for all, and they do not come as one."""

from collections import Counter
from itertools import pairwise
from typing import Final

import pytest

from tests.sim.plan import Act, Plan, Send, Weather
from tests.sim.project_folder import FILE, ProjectFolder, lay
from tests.sim.story import Story, tell

COUNT: Final = 50
NAMES: Final = tuple(f"agent{number}" for number in range(COUNT))
SENDS: Final = tuple(Send(1.0, name, f"dm:{name}", (), f"job {name}: do 1.") for name in NAMES)
RETRY_AFTER: Final = 30.0


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """Fifty agents with one key and one model."""
    files = {name: FILE.format(provider="anthropic") for name in NAMES}
    return lay(tmp_path_factory.mktemp("crowd") / "project", files)


def _herd(crowd: ProjectFolder, weather: Weather, seed: int = 5, acts: tuple[Act, ...] = ()) -> Story:
    told = tell(Plan(seed=seed, workers=COUNT, sends=SENDS, weather=(weather,), acts=acts), crowd)
    assert {end.state for end in told.ends.values()} == {"done"}
    assert len(told.ends) == COUNT
    return told


def _after(told: Story, seconds: float) -> list[float]:
    return [at for at, _instruction in told.calls if at > seconds]


@pytest.mark.promise("P12", "TF15")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.long("tests/kernel/policy/test_circuit_breaker.py")
def test_fifty_agents_that_were_refused_come_back_one_by_one(seed: int, crowd: ProjectFolder) -> None:
    weather = Weather(at=0.0, seconds=10.0, provider="anthropic", sky="rate", retry_after=RETRY_AFTER)
    told = _herd(crowd, weather, seed)
    refused, again = [at for at, _ in told.calls if at < 10.0], _after(told, 10.0)
    assert len(refused) == COUNT
    assert len(again) == COUNT
    assert min(again) >= max(refused) + RETRY_AFTER
    probe, *others = again
    assert min(others) >= probe + 0.05  # the least that an answer takes
    busiest = max(Counter(int(at) for at in again).values())
    assert busiest <= COUNT / 5


@pytest.mark.promise("P12")
@pytest.mark.long("tests/kernel/policy/test_circuit_breaker.py")
def test_while_the_provider_refuses_one_at_a_time_asks(crowd: ProjectFolder) -> None:
    weather = Weather(at=0.0, seconds=200.0, provider="anthropic", sky="rate", retry_after=RETRY_AFTER)
    told = _herd(crowd, weather)
    probes = [at for at in _after(told, 10.0) if at < 200.0]
    assert 2 <= len(probes) <= 200 / RETRY_AFTER
    assert all(later - earlier >= RETRY_AFTER for earlier, later in pairwise(probes))


@pytest.mark.promise("P12")
def test_a_refused_key_is_asked_by_nobody_until_a_person_acts(crowd: ProjectFolder) -> None:
    """401 has no retries. One agent is reset, and asks first; when it is answered the others follow."""
    weather = Weather(at=0.0, seconds=60.0, provider="anthropic", sky="auth", retry_after=None)
    told = _herd(crowd, weather, acts=(Act(70.0, "reset", NAMES[3]),))
    assert len([at for at, _ in told.calls if at < 60.0]) == COUNT
    (probe, asked_by), *others = [(at, who) for at, who in told.calls if at > 60.0]
    assert told.ends[f"job {NAMES[3]}: do 1."].epoch == 2
    assert 70.0 <= probe < 71.0
    assert all(who != asked_by and at >= probe + 0.05 for at, who in others)
    assert max(Counter(int(at) for at, _ in others).values()) <= COUNT / 5
