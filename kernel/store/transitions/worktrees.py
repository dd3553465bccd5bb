"""Working trees come and go: planned with their run, made before their agent begins, kept or removed after it ended."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kernel.rule.draft import Draft
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.worktrees import Commits, PlannedTree, State, Worktree
from protocol.message import SYSTEM
from protocol.names import AgentKey, RunId, run_id

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
