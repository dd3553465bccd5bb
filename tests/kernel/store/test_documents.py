"""Any history of writers, merges, suggestions and restarts leaves documents as a plain model says."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from kernel.policy import documents as policy
from kernel.policy.run_completion import run_completion
from kernel.store import documents
from kernel.store.database import MEMORY
from kernel.store.transitions import documents as commits
from kernel.store.transitions.close import close
from kernel.store.transitions.due import apply_due
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.runs import start_run
from kernel.store.workflows import running_runs
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, STARVATION_MS, BusyWorkspace
from tests.kernel.store.document_machine import DocumentMachine
from tests.kernel.store.migrated import open_migrated
from tests.kernel.store.running_store import started, token_hash
from tests.kernel.store.soak import STEADY

pytestmark = pytest.mark.promise("P37", "P38")


def test_any_history_agrees_with_the_model() -> None:
    run_state_machine_as_test(DocumentMachine, settings=settings(STEADY, max_examples=12, stateful_step_count=30))


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
    module, name, wrong = SABOTAGE[fault]
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            DocumentMachine,
            settings=settings(STEADY, max_examples=40, stateful_step_count=25, report_multiple_bugs=False),
        )


ELECTING: Final = b'{"name":"review","agents":{},"workspace":{"document_owner":"elect"},"limits":{"instructions":3}}'
KICKOFFS: Final = "SELECT count(*) FROM messages WHERE kind = 'kickoff'"


def test_a_run_goes_on_until_its_election_has_ended_also_after_a_restart() -> None:
    database = open_migrated(MEMORY)
    workspace = BusyWorkspace(database)
    run = workspace.commit(start_run, started(*MEMBERS, definition=ELECTING, kickoff="@alice begin"))
    conn = database.writer()
    for number in range(1, len(MEMBERS) + 1):
        workspace.commit(lease, f"i{number}", token_hash(str(number), 0))
        workspace.commit(close, f"i{number}", 1, status="done", text="")
    assert workspace.commit(lambda tx: documents.settings(tx.conn, run.space).election) == "document-owner"
    (progress,) = running_runs(conn, workspace.now_ms)
    assert isinstance(run_completion(progress, workspace.now_ms), int)
    assert conn.execute(KICKOFFS).get == 0
    workspace.commit(recover)
    workspace.now_ms += 60_000
    workspace.commit(apply_due, STARVATION_MS)
    assert conn.execute(KICKOFFS).get == 1
    assert documents.settings(conn, run.space).election is None
    database.close()


def test_a_document_that_is_missing_is_named_with_those_that_exist() -> None:
    database = open_migrated(MEMORY)
    workspace = BusyWorkspace(database)
    workspace.begin()

    def hint(file: str) -> str | None:
        return documents.missing(database.writer(), SPACE, file).hint

    assert hint("nope.md") == "this workspace has no documents"
    workspace.commit(commits.change, SPACE, "notes.md", policy.DocumentChange("write", "x"))
    assert (hint("note.md"), hint("zzz")) == ("did you mean notes.md?", "existing documents: notes.md")
    database.close()
