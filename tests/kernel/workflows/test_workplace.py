"""Where a workspace is, and what becomes of what is said in it."""

from typing import Any

import pytest

from kernel.workflows.workplace import Workplace, workplace
from protocol.project import ProjectDefinition, ProjectWorkspace
from protocol.workflow import WorkflowDefinition, Workspace

PLAIN = ProjectDefinition()
FILES = ProjectDefinition(workspace=ProjectWorkspace(provider="file", base="out/"))


def found(workspace: Any, project: ProjectDefinition = PLAIN) -> Workplace:
    return workplace(WorkflowDefinition(name="review", agents={}, workspace=workspace), "pr-1", project)


@pytest.mark.parametrize(
    ("workspace", "project", "expected"),
    [
        (Workspace(), PLAIN, Workplace("kept", ".workspace/review/pr-1", mirror=False)),
        (Workspace(provider="file"), PLAIN, Workplace("kept", ".workspace/review/pr-1", mirror=True)),
        (Workspace(), FILES, Workplace("kept", "out/review/pr-1", mirror=True)),
        (Workspace(provider="sqlite"), FILES, Workplace("kept", "out/review/pr-1", mirror=False)),
        (Workspace(provider="memory"), FILES, Workplace("memory", "out/review/pr-1", mirror=False)),
        (Workspace(bind="./data/r/"), PLAIN, Workplace("kept", "data/r", mirror=True, bound=True)),
        (Workspace(dir="d/${{ workflow.tag }}"), PLAIN, Workplace("kept", "d/pr-1", mirror=False)),
        (Workspace(dir="d/${{ workflow.instance }}", provider="file"), PLAIN, Workplace("kept", "d/pr-1", mirror=True)),
        (False, FILES, Workplace("none", None, mirror=False)),
    ],
)
def test_the_workflow_file_goes_before_the_project_file(
    workspace: Any, project: ProjectDefinition, expected: Workplace
) -> None:
    """Contracts sections 1 and 3; S0: bind persists where it says, dir is made up unless given."""
    assert found(workspace, project) == expected
