"""Questions about the working trees of members of runs."""

from typing import Final, Literal

import apsw
import msgspec

from kernel.store.rows import Sql
from protocol.names import base_space

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
