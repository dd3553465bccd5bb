"""Spans of a real kernel that is killed while it tells of its work."""

import random

import pytest

from tests.crash.otel_trial import trial
from tests.project import Project


@pytest.mark.promise("P79")
@pytest.mark.long("tests/kernel/services/test_traces.py")
def test_spans_equal_the_log_through_kills(project: Project) -> None:
    died, spans, wrong = trial(project, 4, random.Random(5))
    assert not wrong
    assert died
    assert spans > 20
