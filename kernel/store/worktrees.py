"""Questions about the working trees of members of runs."""

from typing import Final, Literal

import apsw
import msgspec

State = Literal["planned", "made", "removing", "kept", "gone"]
"""planned: nothing was begun in it yet. made: its agent works there. removing: nothing in it would be lost, so it goes.
kept: its run has ended, and something would be lost. gone: it is removed, and another may be where it was."""


class Worktree(msgspec.Struct, frozen=True):
    """The working tree of a member of a run. Paths are absolute; ``folder`` is the project as seen from its top."""

    run: int
    agent: str
    name: str
    space: str
    state: State
    repository: str
    base: str
    branch: str
    path: str
    folder: str
    git_dir: str = ""
    why: str = ""

    @property
    def cwd(self) -> str:
        """Working directory of its agent."""
        return f"{self.path}/{self.folder}".rstrip("/")


ONE: Final = """
SELECT run, agent, name, space, state, repository, base, branch, path, folder, git_dir, why FROM worktrees
WHERE run = ? AND agent = ?
"""


def of(conn: apsw.Connection, run: int | None, agent: str) -> Worktree | None:
    """The tree that ``agent`` (its key) has in ``run``."""
    row = None if run is None else conn.execute(ONE, (run, agent)).fetchone()
    return None if row is None else Worktree(*row)


OF_RUN: Final = """
SELECT run, agent, name, space, state, repository, base, branch, path, folder, git_dir, why FROM worktrees
WHERE run = ? AND state <> 'gone' ORDER BY name
"""


def of_run(conn: apsw.Connection, run: int) -> tuple[Worktree, ...]:
    """Those there are of one run."""
    return tuple(Worktree(*row) for row in conn.execute(OF_RUN, (run,)))


OF_ENDED: Final = """
SELECT t.run, t.agent, t.name, t.space, t.state, t.repository, t.base, t.branch, t.path, t.folder, t.git_dir, t.why
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
