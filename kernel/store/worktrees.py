"""Questions about the working trees of members of runs."""

from typing import Final, Literal

import apsw
import msgspec

State = Literal["planned", "made", "removing", "kept", "gone"]
"""planned: nothing was begun in it yet. made: its agent works there. removing: nothing in it would be lost, so it goes.
kept: its run has ended, and something would be lost. gone: it is removed, and another may be where it was."""


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
    """The working tree of a member of a run."""

    run: int
    agent: str
    space: str
    state: State
    git_dir: str = ""
    why: str = ""

    @property
    def cwd(self) -> str:
        """Working directory of its agent."""
        return f"{self.path}/{self.folder}".rstrip("/")


ONE: Final = """
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why FROM worktrees
WHERE run = ? AND agent = ?
"""


def of(conn: apsw.Connection, run: int | None, agent: str) -> Worktree | None:
    """The tree that ``agent`` (its key) has in ``run``."""
    row = None if run is None else conn.execute(ONE, (run, agent)).fetchone()
    return None if row is None else Worktree(*row)


OF_RUN: Final = """
SELECT name, repository, base, branch, path, folder, run, agent, space, state, git_dir, why FROM worktrees
WHERE run = ? AND state <> 'gone' ORDER BY name
"""


def of_run(conn: apsw.Connection, run: int) -> tuple[Worktree, ...]:
    """Those there are of one run."""
    return tuple(Worktree(*row) for row in conn.execute(OF_RUN, (run,)))


OF_ENDED: Final = """
SELECT t.name, t.repository, t.base, t.branch, t.path, t.folder, t.run, t.agent, t.space, t.state, t.git_dir, t.why
FROM worktrees AS t JOIN workflows AS w ON w.id = t.run WHERE w.state = 'stopped' AND t.state <> 'gone'
ORDER BY t.run, t.name
"""


def of_ended(conn: apsw.Connection) -> tuple[Worktree, ...]:
    """Those whose run has ended."""
    return tuple(Worktree(*row) for row in conn.execute(OF_ENDED))


PATHS: Final = "SELECT path FROM worktrees WHERE state <> 'gone'"


def paths(conn: apsw.Connection) -> frozenset[str]:
    """Return the paths of all working trees there are."""
    return frozenset(path for (path,) in conn.execute(PATHS))
