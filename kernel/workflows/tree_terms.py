"""What a workflow file says about working trees, as far as files tell. It knows no git and no process."""

from collections.abc import Iterator

from protocol.errors import Refused
from protocol.workflow import WorkflowDefinition, Workspace


def wants_worktrees(definition: WorkflowDefinition) -> bool:
    """Whether its agents work in trees of their own."""
    return isinstance(definition.workspace, Workspace) and definition.workspace.git == "worktree"


def check_branch_tag(tag: str) -> None:
    """Raise Refused (bad_request) where ``tag`` cannot be part of a branch's name."""
    if ".." in tag or tag.endswith(".lock"):
        raise Refused("bad_request", f"{tag!r} cannot be part of the name of a git branch", "give another --tag")


def tree_demands(definition: WorkflowDefinition) -> Iterator[str]:
    """What its trees would do, their commands verbatim: they need trust."""
    if wants_worktrees(definition):
        yield "its agents work in git working trees: branches awk/... are made in the repository, its files checked out"
    if isinstance(definition.workspace, Workspace):
        yield from (f"each working tree's setup runs: {step.shell}" for step in definition.workspace.setup)
        yield from (f"each working tree's teardown runs: {step.shell}" for step in definition.workspace.teardown)
