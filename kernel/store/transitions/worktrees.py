"""Working trees come and go: planned with their run, made before their agent begins, kept or removed after it ended."""

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
"""planned: nothing was begun in it yet. made: its agent works there. removing: nothing in it would be lost, so it goes.
kept: its run has ended, and something would be lost. gone: it is removed, and another may be where it was."""
Commits = Literal["auto", "manual"]
SHARED: Final = "shared"
"""The name of the one tree that all members of a run share; in place of the agent's key it has ""."""


class PlannedTree(msgspec.Struct, frozen=True):
    """The working tree that a member (its ``name`` in the workflow) is to have.

    Paths are absolute; ``folder`` is the project as seen from the top of the tree.
    """

    name: str
    repository: str
    base: str
    branch: str
    path: str
    folder: str


class Worktree(PlannedTree, frozen=True):
    """The working tree of a member of a run, or of all of them (its ``agent`` is "").

    ``tip`` and ``ahead`` are the last commit of its branch and how many it has since its base, as far as is known.
    ``follows`` is the member whose last commit it is brought to; ``note`` says why it was not. ``confined``: an agent
    that works there is, or was.
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
        """Return whether all members of its run work in it."""
        return not self.agent

    @property
    def head(self) -> str:
        """The last commit of its branch, as far as is known."""
        return self.tip or self.base

    @property
    def cwd(self) -> str:
        """Working directory of its agent."""
        return f"{self.path}/{self.folder}".rstrip("/")


of = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = ? AND agent IN (?, '') ORDER BY agent DESC LIMIT 1
""").row(Worktree)
"""The tree that ``agent`` (its key) works in in ``run``: its own, or the one of all."""


of_run = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = ? AND state <> 'gone' ORDER BY name
""").rows(Worktree)
"""Those there are of one run."""


ever_of_run = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = ? ORDER BY name
""").rows(Worktree)
"""Those of one run, also those that are gone: what was done there may be elsewhere by now."""


worked_in = Sql(
    "SELECT EXISTS (SELECT 1 FROM instructions INDEXED BY instructions_run WHERE run = ? AND name = ?)"
).scalar(bool)
"""Return whether an agent of this name had work in the run, with a tree or without."""


of_ended = Sql("""
SELECT t.name, t.repository, t.base, t.branch, t.path, t.folder, t.run, t.agent, t.space, t.state, t.git_dir, t.why,
  t.follows, t.commits, t.tip, t.ahead, t.note, t.confined
FROM worktrees AS t JOIN workflows AS w ON w.id = t.run WHERE w.state = 'stopped' AND t.state <> 'gone'
ORDER BY t.run, t.name
""").rows(Worktree)
"""Those whose run has ended."""


IN_SPACE: Final = """
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE run = (SELECT max(w.id) FROM workflows AS w WHERE w.space = ?) AND state <> 'gone' ORDER BY name
"""


def in_space(conn: apsw.Connection, space: str) -> tuple[Worktree, ...]:
    """Those of the newest run in ``space``."""
    return tuple(Worktree(*row) for row in conn.execute(IN_SPACE, (base_space(space),)))


all_ = Sql("""
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why,
  follows, commits, tip, ahead, note, confined FROM worktrees
WHERE state <> 'gone' ORDER BY run, name
""").rows(Worktree)
"""Those of all runs, the oldest run first."""


paths = Sql("SELECT path FROM worktrees WHERE state <> 'gone'").set_of(str)
"""Return the paths of all working trees there are."""


INSERT: Final = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder, follows, commits)
VALUES (:run, :agent, :name, :space, 'planned', :repository, :base, :branch, :path, :folder, :follows, :commits)
"""

SET: Final = "UPDATE worktrees SET state = ?, git_dir = ?, why = ? WHERE run = ? AND agent = ?"
ENDED: Final = "SELECT 1 FROM workflows WHERE id = ? AND state = 'stopped'"


BEGAN_ON: Final = "UPDATE workflows SET began_on = ? WHERE id = ?"


class TreePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The trees of a run. ``note`` is for all who take part in it: what is not in them. "": nothing to note."""

    trees: Callable[[RunId], tuple[PlannedTree, ...]]
    """Names them once the id of their run is known. May raise Refused."""
    note: str = ""
    shared: bool = False
    """It is one, of all members."""
    follows: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Whose last commit a member's tree is brought to, by their names."""
    commits: Commits = "auto"
    branch: str = ""
    """The branch that they begin from; "": none."""


def plan_worktrees(tx: Transaction, run: int, space: str, plan: TreePlan, keys: Mapping[str, AgentKey]) -> None:
    """Note what is to be made when an agent of ``run`` begins: ``keys`` are those of its members, by name.

    Raises Refused where they cannot be called as they have to be.
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
    """Its agent may begin: from now on what is in it is the agent's work."""
    _set(tx, tree, "made", git_dir=git_dir)
    tx.emit("worktree.made", space=tree.space, agent=tree.name, data={"branch": tree.branch, "path": tree.path})


CONFINED: Final = "UPDATE worktrees SET confined = 1 WHERE run = ? AND agent = ?"


def worktree_confined(tx: Transaction, tree: Worktree) -> None:
    """An agent that works there is confined; whatever it does stays so."""
    tx.conn.execute(CONFINED, (tree.run, tree.agent))


TIP: Final = "UPDATE worktrees SET tip = ?, ahead = ?, note = ? WHERE run = ? AND agent = ?"


def worktree_moved(
    tx: Transaction, tree: Worktree, tip: str, ahead: int, note: str = "", instruction: str = ""
) -> None:
    """Its branch is at ``tip``, ``ahead`` commits after its base. Told when that is news; ``note`` is for its agent."""
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
    """Nothing in it would be lost: whatever interrupts us now, it is to be removed. False where its run goes on."""
    ended = _ended(tx, tree)
    if ended:
        _set(tx, tree, "removing", git_dir=tree.git_dir)
    return ended


def worktree_kept(tx: Transaction, tree: Worktree, why: str) -> None:
    """Its run has ended, and something in it would be lost. Told when that is news. Nothing, where its run goes on."""
    if not _ended(tx, tree):
        return
    _set(tx, tree, "kept", git_dir=tree.git_dir, why=why)
    if (tree.state, tree.why) != ("kept", why):
        data = {"branch": tree.branch, "path": tree.path, "why": why}
        tx.emit("worktree.kept", space=tree.space, agent=tree.name, data=data)


def worktree_gone(tx: Transaction, tree: Worktree) -> None:
    """It is removed; where its run goes on since then, whoever is woken there gets it anew."""
    _set(tx, tree, "gone" if _ended(tx, tree) else "planned", git_dir="")
    data = {"branch": tree.branch, "path": tree.path}
    tx.emit("worktree.removed", space=tree.space, agent=tree.name, data=data)


def _ended(tx: Transaction, tree: Worktree) -> bool:
    return tx.conn.execute(ENDED, (tree.run,)).fetchone() is not None


def _set(tx: Transaction, tree: Worktree, state: State, *, git_dir: str, why: str = "") -> None:
    tx.conn.execute(SET, (state, git_dir, why, tree.run, tree.agent))
