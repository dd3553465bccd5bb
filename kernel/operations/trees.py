"""Working trees: status, commits, changes and removal."""

from typing import Annotated, Final

import apsw
import msgspec

from kernel.git.branches import TakeMode
from kernel.operations.context import ProjectFiles, StoreAccess, run_at
from kernel.operations.operation import Actor, InSpace, OfRun, Run, ToolFront, operation
from kernel.store import workflows
from kernel.store.transitions import worktrees
from kernel.store.transitions.worktrees import Worktree
from protocol.api.document import Ask
from protocol.api.runs import DiffReport, RemovedWorktrees, RemoveWorktrees, WorktreeList, WorktreeRow
from protocol.errors import Refused
from protocol.names import number_of, place_of, run_id

FILES: Final = 200
"""Maximum number of uncommitted files in an answer."""
MESSAGE_CHARACTERS: Final = 8000


class DiffRequest(InSpace, frozen=True, kw_only=True):
    """Filter of the changes in agents' working trees."""

    agent: Annotated[str, msgspec.Meta(description="Name of an agent.")] | None = None
    run: Run = None
    patch: Annotated[bool, msgspec.Meta(description="Include the changed lines.")] = False


class ColleagueBranch(msgspec.Struct, frozen=True, kw_only=True):
    """Branch of a colleague: number of commits only there (``theirs``), and only on your branch (``yours``)."""

    agent: str
    branch: str
    commit: str
    theirs: int
    yours: int


class TreeStatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """State of your tree. ``changed`` has the first of ``changed_total`` uncommitted files."""

    path: str
    branch: str
    base: str
    commit: str
    ahead: int
    """Number of commits since the base."""
    changed: tuple[str, ...]
    changed_total: int
    follows: str | None
    """Agent to whose last commit your tree is moved before each of your instructions."""
    colleagues: tuple[ColleagueBranch, ...]


class TreeTakeRequest(Ask, frozen=True, kw_only=True):
    """Branch to merge or to reset to."""

    from_: Annotated[
        str, msgspec.Meta(min_length=1, max_length=64, description="Colleague whose branch to take, from tree_status.")
    ]
    mode: Annotated[
        TakeMode,
        msgspec.Meta(
            description="merge: combine both sides if they do not conflict; reset: replace your work with theirs."
        ),
    ] = "merge"


class TreeTakeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result. Your tree is at ``commit``. ``left``: ref with the replaced commits of your branch. Null: none."""

    branch: str
    commit: str
    ahead: int
    left: str | None


class TreeCommitRequest(Ask, frozen=True, kw_only=True):
    """Commit to create."""

    message: Annotated[
        str, msgspec.Meta(min_length=1, max_length=MESSAGE_CHARACTERS, description="Description of the change.")
    ]


class TreeCommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result. Your branch is at ``commit``. ``committed`` is false if there was nothing to commit."""

    branch: str
    commit: str
    ahead: int
    committed: bool


async def diff(asked: DiffRequest, store: StoreAccess, files: ProjectFiles) -> DiffReport:
    """Show the agents' changes in their working trees, and of the newest merge, in a given run or a space's newest."""
    record = run_at(store, files, place_of(asked.space), asked.run)
    found = await files.worktrees.diffs.report(record.id, asked.agent, patch=asked.patch)
    if not found and asked.agent is not None:
        hint = "working trees exist while the workflow runs, with workspace: {git: worktree}"
        raise Refused("not_found", f"{asked.agent[:60]!r} has no working tree in {record.place}", hint)
    return DiffReport(space=record.place, worktrees=found)


def list_worktrees(conn: apsw.Connection, asked: OfRun) -> WorktreeList:
    """List all working trees, or the trees of one run."""
    found = _trees_of(conn, asked.run)
    return WorktreeList(worktrees=tuple(map(_row_of, found)), total=len(found))


async def remove_worktrees(asked: RemoveWorktrees, store: StoreAccess, files: ProjectFiles) -> RemovedWorktrees:
    """Remove working trees without unmerged changes, or with ``force`` any tree."""
    if asked.run is None and (asked.force or asked.agents):
        raise Refused("bad_request", "force and agents require a run", "name the run: --run r12")
    trees = store.reader.now(_trees_of, asked.run)
    unknown = sorted(set(asked.agents) - {tree.name for tree in trees})
    if unknown:
        text = f"{unknown[0][:60]!r} has no working tree in {str(asked.run)[:20]}"
        raise Refused("not_found", text, "list the trees with `awk worktree list`")
    ended = tuple(tree for tree in trees if not asked.agents or tree.name in asked.agents)
    running = {record.id for record in store.reader.now(workflows.running)}
    if asked.run is not None and any(tree.run in running for tree in ended):
        raise Refused("conflict", f"{asked.run} has not ended: its agents work there", "stop its workflow first")
    removed, kept = await files.worktrees.removal.remove(
        tuple(tree for tree in ended if tree.run not in running), force=asked.force
    )
    return RemovedWorktrees(removed=tuple(map(_row_of, removed)), kept=tuple(map(_row_of, kept)))


def _row_of(tree: Worktree) -> WorktreeRow:
    assert tree.state != "gone", tree
    return WorktreeRow(
        run=run_id(tree.run),
        workflow=place_of(tree.space),
        agent=tree.name,
        state=tree.state,
        branch=tree.branch,
        base=tree.base,
        commit=tree.head,
        ahead=tree.ahead,
        path=tree.path,
        kept_because=tree.why or None,
    )


def _trees_of(conn: apsw.Connection, run: str | None) -> tuple[Worktree, ...]:
    if run is None:
        return worktrees.all_(conn)
    number = number_of(run, "r")
    if number is None or workflows.by_id(conn, number) is None:
        raise Refused(
            "not_found", f"run {run[:100]!r} not found", "list the runs with `awk runs`; a run is named like r12"
        )
    return worktrees.of_run(conn, number)


async def tree_status(actor: Actor, files: ProjectFiles) -> TreeStatusResult:
    """Show your git working tree: its commit, uncommitted files, and your colleagues' branches. Use it before
    tree_take."""
    tree, found = await files.worktrees.work.standing(actor.agent)
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


async def tree_take(asked: TreeTakeRequest, actor: Actor, files: ProjectFiles) -> TreeTakeResult:
    """Take a colleague's commits into your working tree: merge them, or reset to them. Returns the new commit. Fails if
    your tree has uncommitted changes or the merge conflicts."""
    tree, tip = await files.worktrees.work.take(actor.agent, asked.from_, asked.mode)
    return TreeTakeResult(branch=tree.branch, commit=tip.commit, ahead=tip.ahead, left=tip.left or None)


async def tree_commit(asked: TreeCommitRequest, actor: Actor, files: ProjectFiles) -> TreeCommitResult:
    """Commit all uncommitted changes in your working tree. Returns the commit, or committed: false if nothing
    changed."""
    if "\0" in asked.message or not asked.message.strip():
        raise Refused("bad_request", "commit message is empty", "describe the change in one line")
    tree, tip = await files.worktrees.work.commit(actor.agent, asked.message)
    return TreeCommitResult(branch=tree.branch, commit=tip.commit, ahead=tip.ahead, committed=tip.made)


OPERATIONS = (
    operation(diff, "GET /spaces/<space>/diff", waits=True),
    operation(list_worktrees, "GET /worktrees"),
    operation(remove_worktrees, "POST /worktrees/remove", waits=True, scope="admin"),
    operation(tree_status, team=ToolFront("tree_status")),
    operation(tree_take, changes=True, team=ToolFront("tree_take")),
    operation(tree_commit, changes=True, team=ToolFront("tree_commit")),
)
