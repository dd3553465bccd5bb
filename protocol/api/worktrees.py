"""The changes of agents in their working trees."""

from typing import Literal

from protocol.api.document import Body, Document


class DiffStat(Body, frozen=True, kw_only=True):
    """The changes in a working tree since it began, committed or not; of binary files no lines are counted."""

    files: int = 0
    added: int = 0
    deleted: int = 0
    commits: int = 0


class DiffFile(Body, frozen=True, kw_only=True):
    """One file that is not as it was."""

    path: str
    added: int
    deleted: int


class DiffCommit(Body, frozen=True, kw_only=True):
    """One commit on the agent's branch."""

    id: str
    subject: str


class WorktreeDiff(Body, frozen=True, kw_only=True):
    """One agent's working tree, and what was done in it since ``base``. ``patch`` is empty unless asked for.

    ``kept_because``: its run has ended, and this would be lost. ``state``: not yet there, worked in, or left behind.
    """

    agent: str
    state: Literal["planned", "made", "kept"]
    branch: str
    base: str
    path: str
    stat: DiffStat
    files: tuple[DiffFile, ...] = ()
    commits: tuple[DiffCommit, ...] = ()
    """The newest hundred."""
    patch: str = ""
    truncated: bool = False
    kept_because: str | None = None


class DiffReport(Document, frozen=True, kw_only=True):
    """``awk diff``: the working trees of a workflow's agents, those of its newest run first."""

    space: str
    worktrees: tuple[WorktreeDiff, ...]
    schema: str = "awk/diff/1"
