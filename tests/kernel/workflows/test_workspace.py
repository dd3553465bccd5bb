"""Where a workspace is, and what becomes of what is said in it."""

from typing import Any

import pytest

from kernel.workflows.workspace import WorkspaceSettings, workspace_settings
from protocol.project import ProjectDefinition, ProjectWorkspace
from protocol.workflow import WorkflowDefinition, Workspace

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
