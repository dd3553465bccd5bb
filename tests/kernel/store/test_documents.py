"""Any history of writers, merges, suggestions and restarts leaves documents as a plain model says."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kernel.policy import documents as policy
from kernel.store import documents
from kernel.store.transitions import documents as commits
from tests.kernel.store.document_machine import DocumentMachine

pytestmark = pytest.mark.promise("P37", "P38")

_SETTINGS: Final = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_any_history_agrees_with_the_model() -> None:
    """No accepted line is lost, every line is its author's, versions have no gap; a call made again is answered so."""
    run_state_machine_as_test(DocumentMachine, settings=settings(_SETTINGS, max_examples=12, stateful_step_count=30))


def _newest(_base: str, now: str, _yours: str) -> str:
    return now


def _writers(_base: str, _now: str, yours: str) -> str:
    return yours


def _anybody(*_words: object, **_more: object) -> None:
    return None


def _one_back(lines: int, undo: Iterator[tuple[int, object]]) -> list[int]:
    return [max(next(undo)[0] - 1, 1)] * lines


SABOTAGE: Final[dict[str, tuple[Any, str, Any]]] = {
    "a merge takes the writer's text": (policy, "merge", _writers),
    "a merge keeps what is there": (policy, "merge", _newest),
    "anybody writes": (commits, "check_writer", _anybody),
    "blame counts one back": (documents, "blame", _one_back),
}


@pytest.mark.parametrize("fault", SABOTAGE)
def test_the_model_finds_what_is_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that agrees with everything proves nothing."""
    module, name, wrong = SABOTAGE[fault]
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            DocumentMachine,
            settings=settings(_SETTINGS, max_examples=40, stateful_step_count=25, report_multiple_bugs=False),
        )
