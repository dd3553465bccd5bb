"""Working trees come and go: planned with their run, made before their agent begins, kept or removed after it ended."""

from collections.abc import Mapping
from typing import Final

import msgspec

from kernel.rule.draft import Draft
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.worktrees import PlannedTree, State, Worktree
from protocol.message import SYSTEM
from protocol.names import AgentKey

INSERT: Final = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder)
VALUES (:run, :agent, :name, :space, 'planned', :repository, :base, :branch, :path, :folder)
"""

SET: Final = "UPDATE worktrees SET state = ?, git_dir = ?, why = ? WHERE run = ? AND agent = ?"


BEGAN_ON: Final = "UPDATE workflows SET began_on = ? WHERE id = ?"


class TreePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The trees of a run. ``note`` is for all who take part in it: what is not in them. "": nothing to note."""

    trees: tuple[PlannedTree, ...] = ()
    note: str = ""
    branch: str = ""
    """The branch that they begin from; "": none."""


def plan_worktrees(tx: Transaction, run: int, space: str, plan: TreePlan, keys: Mapping[str, AgentKey]) -> None:
    """Note what is to be made when an agent of ``run`` begins: ``keys`` are those of its members, by name."""
    if plan.note:
        append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=plan.note))
    tx.conn.execute(BEGAN_ON, (plan.branch, run))
    for tree in plan.trees:
        values = {**msgspec.structs.asdict(tree), "agent": keys[tree.name], "run": run, "space": space}
        tx.conn.execute(INSERT, values)


def worktree_made(tx: Transaction, tree: Worktree, git_dir: str) -> None:
    """Its agent may begin: from now on what is in it is the agent's work."""
    _set(tx, tree, "made", git_dir=git_dir)
    tx.emit("worktree.made", space=tree.space, agent=tree.name, data={"branch": tree.branch, "path": tree.path})


def worktree_going(tx: Transaction, tree: Worktree) -> None:
    """Nothing in it would be lost: whatever interrupts us now, it is to be removed."""
    _set(tx, tree, "removing", git_dir=tree.git_dir)


def worktree_kept(tx: Transaction, tree: Worktree, why: str) -> None:
    """Its run has ended, and something in it would be lost. Told when that is news."""
    _set(tx, tree, "kept", git_dir=tree.git_dir, why=why)
    if (tree.state, tree.why) != ("kept", why):
        data = {"branch": tree.branch, "path": tree.path, "why": why}
        tx.emit("worktree.kept", space=tree.space, agent=tree.name, data=data)


def worktree_gone(tx: Transaction, tree: Worktree) -> None:
    """It is removed."""
    _set(tx, tree, "gone", git_dir="")
    data = {"branch": tree.branch, "path": tree.path}
    tx.emit("worktree.removed", space=tree.space, agent=tree.name, data=data)


def _set(tx: Transaction, tree: Worktree, state: State, *, git_dir: str, why: str = "") -> None:
    tx.conn.execute(SET, (state, git_dir, why, tree.run, tree.agent))
