"""Any sequence of commits leaves the store as a plain model says."""

from typing import Final

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from hypothesis.strategies import integers

from kernel.store import instructions
from kernel.store.transitions import due as tick_module
from kernel.store.transitions import lease as lease_module
from kernel.store.transitions import requeue as park_module
from tests.kernel.store import soak
from tests.kernel.store.machine import FileMachine, StoreMachine
from tests.kernel.store.soak import STEADY
from tests.shorthand import sabotage

pytestmark = pytest.mark.promise("P2", "P3", "P11")


@pytest.mark.promise("P2", "P3", "P11")
def test_any_sequence_of_commits_agrees_with_the_model() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(STEADY, max_examples=8, stateful_step_count=60))


@pytest.mark.promise("P1", "P2", "P3")
@pytest.mark.long("test_any_sequence_of_commits_agrees_with_the_model")
def test_it_does_so_in_a_file_that_is_closed_and_opened_again() -> None:
    run_state_machine_as_test(FileMachine, settings=settings(STEADY, max_examples=10, stateful_step_count=60))


@pytest.mark.long("test_any_sequence_of_commits_agrees_with_the_model")
def test_a_long_trial_says_its_seed_which_gives_the_same_sequences_again(capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[int] = []

    class Recorder(RuleBasedStateMachine):
        @rule(number=integers(0, 2**32))
        def note(self, number: int) -> None:
            drawn.append(number)

    runs: list[list[int]] = []
    for number in (7, 7, 8):
        soak.run(Recorder, 5, number)
        runs.append(drawn.copy())
        drawn.clear()
    first, again, other = runs
    assert first == again
    assert first != other

    assert soak.main(["1", "--seed", "7"]) == 0
    assert capsys.readouterr().out.startswith("seed 7\n")
    said = [soak.main(["1"]) or capsys.readouterr().out.splitlines()[0] for _ in range(2)]
    assert said[0] != said[1], "without a seed each run is new"


SABOTAGE: Final = {
    "last come, first served": (instructions, "READY", "ORDER BY i.lane, i.id LIMIT 1", "ORDER BY i.lane, i.id DESC"),
    "paused agents work": (lease_module, "LEASE", "a.state <> 'active' OR ", ""),
    "what waits too long stays behind": (tick_module, "AGE", "SET lane = 0", "SET lane = lane"),
    "preemption is not counted": (park_module, "PARK", "preempted + :preempted", "preempted"),
}
"""Where, and what to put in the place of what."""
EARLY: Final = 4
"""A seed with which each is found within a second; with others the last may take hundreds of sequences."""


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_store_that_breaks_a_promise_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch, *SABOTAGE[what])
    generous = settings(STEADY, max_examples=400, stateful_step_count=60)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(seed(EARLY)(type("Seeded", (StoreMachine,), {})), settings=generous)
