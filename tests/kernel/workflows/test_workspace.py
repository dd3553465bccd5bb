"""Where a workspace is, and what becomes of what is said in it."""

from pathlib import Path
from typing import Any

import pytest

from kernel.agents.catalog import Catalog
from kernel.workflows.load import load_workflow
from kernel.workflows.workspace import WorkspaceSettings, workspace_settings
from protocol.project import ProjectDefinition, ProjectWorkspace
from protocol.workflow import WorkflowDefinition, Workspace
from tests.kernel.inspect.files import write
from tests.kernel.refusals import faults

PLAIN = ProjectDefinition()
FILES = ProjectDefinition(workspace=ProjectWorkspace(provider="file", base="out/"))


def found(workspace: Any, project: ProjectDefinition = PLAIN) -> WorkspaceSettings:
    return workspace_settings(WorkflowDefinition(name="review", agents={}, workspace=workspace), "pr-1", project)


@pytest.mark.parametrize(
    ("workspace", "project", "expected"),
    [
        (Workspace(), PLAIN, WorkspaceSettings("kept", ".workspace/review/pr-1", mirror=False)),
        (Workspace(provider="file"), PLAIN, WorkspaceSettings("kept", ".workspace/review/pr-1", mirror=True)),
        (Workspace(), FILES, WorkspaceSettings("kept", "out/review/pr-1", mirror=True)),
        (Workspace(provider="sqlite"), FILES, WorkspaceSettings("kept", "out/review/pr-1", mirror=False)),
        (Workspace(provider="memory"), FILES, WorkspaceSettings("memory", "out/review/pr-1", mirror=False)),
        (Workspace(bind="./data/r/"), PLAIN, WorkspaceSettings("kept", "data/r", mirror=True, bound=True)),
        (Workspace(dir="d/${{ workflow.tag }}"), PLAIN, WorkspaceSettings("kept", "d/pr-1", mirror=False)),
        (
            Workspace(dir="d/${{ workflow.instance }}", provider="file"),
            PLAIN,
            WorkspaceSettings("kept", "d/pr-1", mirror=True),
        ),
        (False, FILES, WorkspaceSettings("none", None, mirror=False)),
    ],
)
def test_the_workflow_file_goes_before_the_project_file(
    workspace: Any, project: ProjectDefinition, expected: WorkspaceSettings
) -> None:
    """contracts 1 and 3: bind persists where it says, dir is made up unless given."""
    assert found(workspace, project) == expected


@pytest.mark.parametrize(
    ("workspace", "where"),
    [
        ("document: ../x.md", "workspace.document"),
        ("documents: [a.md, .git/config]", "workspace.documents[1]"),
        ("documents: [notes.md]", "workspace.documents[0]"),
        ("documents: [plan, plan/a.md]", "workspace.documents[1]"),
        ("document_owner: nobody", "workspace.document_owner"),
        ("document: index.md\n  documents: [plans/a.md]\n  document_owner: elect", None),
        ("document_owner: bob", None),
    ],
)
def test_documents_and_their_owner_are_checked_where_they_stand(
    tmp_path: Path, workspace: str, where: str | None
) -> None:
    """contracts 1: names of documents, and an agent of the workflow or elect."""
    agents = "agents:\n  bob: { model: mock/x, mock: [{ text: hi }] }\n"
    write(tmp_path, {".workflows/team.yaml": f"{agents}workspace:\n  {workspace}\n"})
    if where is None:
        assert load_workflow(Catalog(tmp_path), "team").definition.workspace
        return
    assert [error.where for error in faults(load_workflow, Catalog(tmp_path), "team")] == [where]


def test_what_is_wrong_with_a_rule_is_told_at_that_rule(tmp_path: Path) -> None:
    text = """agents:
  alice: { backend: mock, mock: [{ do: [{ text: x }] }] }
  bob: { backend: mock, colour: red }
rules:
  - { on: done, from: bob, assign: alice }
  - { name: two, then: [] }
  - { on: done, from: alice, assign: carol }
"""
    write(tmp_path, {".workflows/review.yaml": text})
    told = {(error.where, error.line) for error in faults(load_workflow, Catalog(tmp_path), "review")}
    assert {place for place in told if place[0].startswith("rules")} == {("rules[1]", 6), ("rules[2]", 7)}
    assert any(where.startswith("agents.bob") for where, _ in told)
