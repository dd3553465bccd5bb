"""The contract suite over every backend: recorded streams of pinned versions, and the real programs where they are."""

import contextlib
from pathlib import Path
from typing import Final

import pytest

from tests.contracts.check_backend import SCENARIOS, Scenario
from tests.worker.backends import measured
from tests.worker.backends.scenario import RECORD, made
from tests.worker.backends.subject import ProgramSubject, Subject, Where
from tests.worker.backends.subjects_programs import (
    ACP,
    CLAUDE,
    CLAUDE_ACP,
    CODEX,
    CURSOR,
    GEMINI,
    OPENCODE,
    OPENCODE_ACP,
)
from tests.worker.backends.subjects_within import MOCK, SDK
from worker import daemon_mcp
from worker.backends import process

PROGRAMS: Final[tuple[ProgramSubject, ...]] = (CLAUDE, CODEX, OPENCODE, CURSOR, ACP, GEMINI, OPENCODE_ACP, CLAUDE_ACP)
SUBJECTS: Final[tuple[Subject, ...]] = (SDK, MOCK, *PROGRAMS)

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(anthropic|openai|httpx2|httpcore2):ResourceWarning")


def _places(subject: Subject) -> tuple[Where, ...]:
    if not isinstance(subject, ProgramSubject):
        return ("within",)
    if subject.fake is not None:
        return ("faked",)
    return ("real",) if subject.talks else ("recorded", "real")


ORDINARY: Final = frozenset({"success", "resume", "garbage", "own_servers", "stopped", "bad_key"})
"""Of a stand-in, each process of which costs a third of a second."""
LONG: Final = {
    "cursor": pytest.mark.long("tests/worker/backends/test_cursor.py"),
    "acp": pytest.mark.long("tests/worker/backends/test_acp.py"),
}


CASES: Final = [
    pytest.param(
        subject,
        where,
        scenario,
        id=f"{subject.name}-{where}-{scenario.name}",
        marks=(LONG[subject.name],) if where == "faked" and scenario.name not in ORDINARY else (),
    )
    for subject in SUBJECTS
    for where in _places(subject)
    for scenario in SCENARIOS
    if scenario.of(subject)
    and not (where == "recorded" and isinstance(subject, ProgramSubject) and scenario.name in subject.unrecorded)
]


@pytest.mark.promise("IF08", "P63")
@pytest.mark.parametrize(("subject", "where", "scenario"), CASES)
async def test_a_backend_keeps_its_contract(
    subject: Subject, where: Where, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "real" and isinstance(subject, ProgramSubject):
        if subject.installed() is None:
            pytest.skip(f"{subject.name} is not installed: AGENT_WORKER_TEST_CLIS")
        if RECORD:
            subject.recordings.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(daemon_mcp, "RETRY_SECONDS", (0.0,))
    monkeypatch.setattr(process, "LEAVE_SECONDS", process.LEAVE_SECONDS if where == "real" else 0.3)
    lacking = pytest.raises(AssertionError) if scenario.name in subject.lacks else contextlib.nullcontext()
    async with made(subject, where, scenario.name, tmp_path) as run:
        with lacking:
            await scenario.by(subject)(run)
    measured.note(subject, where, scenario)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_what_is_weaker_or_missing_is_a_scenario(subject: Subject) -> None:
    assert {*subject.weaker, *subject.lacks} <= {scenario.name for scenario in SCENARIOS}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_the_matrix_of_the_documents_is_what_programs_did(subject: Subject) -> None:
    wanted = {one.name: measured.expected(subject, one) for one in SCENARIOS if one.of(subject)}
    assert measured.results().get(measured.titled(subject)) == wanted
