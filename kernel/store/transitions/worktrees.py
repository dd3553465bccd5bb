"""Lifecycle of working trees: planned with their run, created before their agent starts, retained or deleted after."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

import apsw
import msgspec

from kernel.rule.draft import Draft
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from protocol.message import SYSTEM
from protocol.names import AgentKey, RunId, base_space, run_id

State = Literal["planned", "made", "removing", "kept", "gone"]
"""State of a working tree.

planned: not created yet. made: its agent works in it. removing: it has no unsaved work and will be deleted. kept: its
run has ended, but it has unsaved work. gone: deleted; its path may be used again.
"""
Commits = Literal["auto", "manual"]
SHARED: Final = "shared"
"""Name of the tree that all members of a run share. Its agent key is ""."""


class PlannedTree(msgspec.Struct, frozen=True):
    """Plan of the working tree of the member ``name`` of a workflow.

    Paths are absolute. ``folder`` is the directory in the tree that corresponds to the project's.
    """

    name: str
    repository: str
    base: str
    branch: str
    path: str
    folder: str


class Worktree(PlannedTree, frozen=True):
    """Working tree of one member of a run, or of all members (``agent`` is "").

    ``tip`` is the last known commit of its branch, ``ahead`` the number of commits since its base.
    ``follows`` is the member to whose commits the tree is updated; ``note``: why that failed.
    ``confined``: a confined agent has worked there.
    """

    run: int
    agent: str
    space: str
    state: State
    git_dir: str = ""
    why: str = ""
    follows: str = ""
    commits: Commits = "auto"
    tip: str = ""
    ahead: int = 0
    note: str = ""
    confined: bool = False

    @property
    def shared(self) -> bool:
        """Return whether all members of the run work in this tree."""
        return not self.agent

    @property
    def head(self) -> str:
        """Return the last known commit of the tree's branch; at first, its base."""
        return self.tip or self.base

    @property
    def cwd(self) -> str:
        """Return the agent's working directory in the tree."""
        return f"{self.path}/{self.folder}".rstrip("/")


of = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = ?1 AND agent IN (?2, (SELECT a.replica_of FROM agents AS a WHERE a.key = ?2), '')
ORDER BY agent DESC LIMIT 1
""").row(Worktree)
"""Return the tree of ``agent`` (a key) in ``run``: its own, that of its group, or the shared one."""


of_run = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = ? AND state <> 'gone' ORDER BY name
""").rows(Worktree)
"""Return the existing working trees of a run."""


ever_of_run = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = ? ORDER BY name
""").rows(Worktree)
"""Return all working trees of a run, including deleted ones, whose commits may exist elsewhere."""


worked_in = Sql(
    "SELECT EXISTS (SELECT 1 FROM instructions INDEXED BY instructions_run WHERE run = ? AND name = ?)"
).scalar(bool)
"""Return whether an agent of this name had work in the run, with or without a working tree."""


of_ended = Sql("""
SELECT t.name, t.repository, t.base, t.branch, t.path, t.folder, t.run, t.agent, t.space, t.state, t.git_dir, t.why,
  t.follows, t.commits, t.tip, t.ahead, t.note, t.confined
FROM worktrees AS t JOIN workflows AS w ON w.id = t.run WHERE w.state = 'stopped' AND t.state <> 'gone'
ORDER BY t.run, t.name
""").rows(Worktree)
"""Return the existing working trees of ended runs."""


IN_SPACE: Final = """
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = (SELECT max(w.id) FROM workflows AS w WHERE w.space = ?) AND state <> 'gone' ORDER BY name
"""


def in_space(conn: apsw.Connection, space: str) -> tuple[Worktree, ...]:
    """Return the existing working trees of the newest run in ``space``."""
    return tuple(Worktree(*row) for row in conn.execute(IN_SPACE, (base_space(space),)))


all_ = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE state <> 'gone' ORDER BY run, name
""").rows(Worktree)
"""Return the existing working trees of all runs, the oldest run first."""


paths = Sql("SELECT path FROM worktrees WHERE state <> 'gone'").set_of(str)
"""Return the paths of all existing working trees."""


INSERT: Final = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder, follows, commits)
VALUES (:run, :agent, :name, :space, 'planned', :repository, :base, :branch, :path, :folder, :follows, :commits)
"""

SET: Final = "UPDATE worktrees SET state = ?, git_dir = ?, why = ? WHERE run = ? AND agent = ?"


BEGAN_ON: Final = "UPDATE workflows SET began_on = ? WHERE id = ?"


class TreePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of the working trees of a run. ``note``: uncommitted changes that the trees lack."""

    trees: Callable[[RunId], tuple[PlannedTree, ...]]
    """Return the trees for the id of a run. May raise Refused."""
    note: str = ""
    shared: bool = False
    """Whether all members share one tree."""
    follows: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Name of the member whose last commit a member's tree is updated to, by the member's name."""
    commits: Commits = "auto"
    branch: str = ""
    """Branch that the trees start from; "" if there is none."""


def plan_worktrees(tx: Transaction, run: int, space: str, plan: TreePlan, keys: Mapping[str, AgentKey]) -> None:
    """Store the planned trees of ``run``. ``keys`` maps its members' names to agent keys.

    Raises Refused if a required name is not available.
    """
    if plan.note:
        append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=plan.note))
    tx.conn.execute(BEGAN_ON, (plan.branch, run))
    for tree in plan.trees(run_id(run)):
        values = {
            **msgspec.structs.asdict(tree),
            "agent": "" if plan.shared else keys[tree.name],
            "run": run,
            "space": space,
        }
        more = {"follows": plan.follows.get(tree.name, ""), "commits": plan.commits}
        tx.conn.execute(INSERT, {**values, **more})


def worktree_made(tx: Transaction, tree: Worktree, git_dir: str) -> None:
    """Record that the tree exists. From now on, an agent's work may be in it."""
    _set(tx, tree, "made", git_dir=git_dir)
    tx.emit("worktree.made", space=tree.space, agent=tree.name, data={"branch": tree.branch, "path": tree.path})


CONFINED: Final = "UPDATE worktrees SET confined = 1 WHERE run = ? AND agent = ?"


def worktree_confined(tx: Transaction, tree: Worktree) -> None:
    """Record permanently that a confined agent has worked in the tree."""
    tx.conn.execute(CONFINED, (tree.run, tree.agent))


TIP: Final = "UPDATE worktrees SET tip = ?, ahead = ?, note = ? WHERE run = ? AND agent = ?"


def worktree_moved(
    tx: Transaction, tree: Worktree, tip: str, ahead: int, note: str = "", instruction: str = ""
) -> None:
    """Record the branch's ``tip`` and its commits since the base; an event announces a new tip."""
    tx.conn.execute(TIP, (tip, ahead, note, tree.run, tree.agent))
    if tip != tree.head:
        data = {
            "branch": tree.branch,
            "commit": tip,
            "ahead": ahead,
            **({"instruction": instruction} if instruction else {}),
        }
        tx.emit("worktree.moved", space=tree.space, agent=tree.name, data=data)


def worktree_going(tx: Transaction, tree: Worktree) -> bool:
    """Mark a tree for deletion before deleting it. Return False if its run is active."""
    ended = _ended(tx.conn, tree.run)
    if ended:
        _set(tx, tree, "removing", git_dir=tree.git_dir)
    return ended


def worktree_kept(tx: Transaction, tree: Worktree, why: str) -> None:
    """Record why the tree of an ended run is retained; an event announces a change of that."""
    if not _ended(tx.conn, tree.run):
        return
    _set(tx, tree, "kept", git_dir=tree.git_dir, why=why)
    if (tree.state, tree.why) != ("kept", why):
        data = {"branch": tree.branch, "path": tree.path, "why": why}
        tx.emit("worktree.kept", space=tree.space, agent=tree.name, data=data)


def worktree_gone(tx: Transaction, tree: Worktree) -> None:
    """Record that the tree was deleted; plan it again if its run is active again."""
    _set(tx, tree, "gone" if _ended(tx.conn, tree.run) else "planned", git_dir="")
    data = {"branch": tree.branch, "path": tree.path}
    tx.emit("worktree.removed", space=tree.space, agent=tree.name, data=data)


_ended = Sql("SELECT 1 FROM workflows WHERE id = ? AND state = 'stopped'").exists()
"""Return whether the run has ended."""


def _set(tx: Transaction, tree: Worktree, state: State, *, git_dir: str, why: str = "") -> None:
    tx.conn.execute(SET, (state, git_dir, why, tree.run, tree.agent))
