"""Any sequence of commits leaves the store as a plain model says (promises P2, P3, P11; method 5.2)."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kernel.store.machine import FileMachine, StoreMachine

_SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_any_sequence_of_commits_agrees_with_the_model() -> None:
    """P2, P3, P11: send, mention, ack, lease, entry, preempt, crash, wait, cancel, retry, stop, restart, advance."""
    run_state_machine_as_test(StoreMachine, settings=settings(_SETTINGS, max_examples=60, stateful_step_count=50))


def test_it_does_so_in_a_file_that_is_closed_and_opened_again() -> None:
    """P1, P2, P3: what is in the file is all there is."""
    run_state_machine_as_test(FileMachine, settings=settings(_SETTINGS, max_examples=10, stateful_step_count=50))
