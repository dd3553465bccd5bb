"""Tools for working trees: see how one's own stands, take a colleague's work over, commit. Only where there is one."""

from typing import Annotated, Final

import msgspec

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import ProjectFiles
from kernel.workflows.branches import TakeMode
from protocol.errors import Refused

FILES: Final = 200
"""Named of those that are not committed."""
MESSAGE_CHARACTERS: Final = 8000


class TreeStatusArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of tree_status."""


class ColleagueBranch(msgspec.Struct, frozen=True, kw_only=True):
    """A colleague's branch: commits that are only there (``theirs``), and that are only on yours (``yours``)."""

    agent: str
    branch: str
    commit: str
    theirs: int
    yours: int


class TreeStatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of your tree. ``changed`` files are not committed: the first of ``changed_total``."""

    path: str
    branch: str
    base: str
    commit: str
    ahead: int
    """Commits since its base."""
    changed: tuple[str, ...]
    changed_total: int
    follows: str | None
    """Whose last commit it is brought to before each of your instructions."""
    colleagues: tuple[ColleagueBranch, ...]


class TreeTakeArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of tree_take."""

    source: Annotated[
        str, msgspec.Meta(min_length=1, max_length=64, description="Whose branch: a colleague of tree_status.")
    ] = msgspec.field(name="from")
    mode: Annotated[
        TakeMode,
        msgspec.Meta(description="merge: both sides' work, if it does not conflict; reset: theirs in place of yours."),
    ] = "merge"


class TreeTakeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Your tree is at ``commit``. ``left``: a ref that keeps what your branch had and has no more; null: nothing."""

    branch: str
    commit: str
    ahead: int
    left: str | None


class TreeCommitArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of tree_commit."""

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=MESSAGE_CHARACTERS, description="What was done.")]


class TreeCommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Your branch is at ``commit``. ``committed`` is false where there was nothing to commit."""

    branch: str
    commit: str
    ahead: int
    committed: bool


async def tree_status(caller: Caller, asked: TreeStatusArguments, files: ProjectFiles) -> TreeStatusResult:
    """Tell the place of the caller's tree, what is not committed there, and what colleagues have."""
    tree, found = await files.worktrees.work.standing(caller.identity)
    return TreeStatusResult(
        path=tree.cwd,
        branch=tree.branch,
        base=tree.base,
        commit=found.tip.commit,
        ahead=found.tip.ahead,
        changed=found.changed[:FILES],
        changed_total=len(found.changed),
        follows=tree.follows or None,
        colleagues=tuple(
            ColleagueBranch(
                agent=one.tree.name, branch=one.tree.branch, commit=one.commit, theirs=one.theirs, yours=one.mine
            )
            for one in found.colleagues
        ),
    )


async def tree_take(caller: Caller, asked: TreeTakeArguments, files: ProjectFiles) -> TreeTakeResult:
    """Merge a colleague's branch, or reset to it. Repeated, it finds that it is there already."""
    tree, tip = await files.worktrees.work.take(caller.identity, asked.source, asked.mode)
    return TreeTakeResult(branch=tree.branch, commit=tip.commit, ahead=tip.ahead, left=tip.left or None)


async def tree_commit(caller: Caller, asked: TreeCommitArguments, files: ProjectFiles) -> TreeCommitResult:
    """Commit all that is not committed. Repeated, it finds nothing to commit."""
    if "\0" in asked.message or not asked.message.strip():
        raise Refused("bad_request", "a commit needs a message of words", "say in a line what was done")
    tree, tip = await files.worktrees.work.commit(caller.identity, asked.message)
    return TreeCommitResult(branch=tree.branch, commit=tip.commit, ahead=tip.ahead, committed=tip.made)
